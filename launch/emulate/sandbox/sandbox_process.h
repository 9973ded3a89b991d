// One sandbox process: a rank of the job that runs the real program under the shim.
//
// It is started in its own process group and dies with its worker (parent-death signal); the
// destructor kills and reaps what still runs of the group (the last destructor also what has left
// its group), so nothing is orphaned as long as the worker lives. Its standard output and error
// come back through one pipe as lines.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "shim/channel/channel.h"

namespace prism::launch {

class ForkServer;

// The environment of a sandbox process.
using ChildVariables = std::map<std::string, std::string>;

struct SandboxSpec {
  Rank rank;
  std::vector<std::string> command;                              // program and arguments
  std::vector<std::pair<std::string, std::string>> environment;  // in addition to the worker's own
  channel::Config config = {};
  std::string stand_in;   // program that is started in place of a launcher, for a script; "": none
  bool terminal = false;  // has this process's standard streams, and the terminal's foreground
  std::function<void(const std::string&)> on_line;  // each line of output, without its end; may be
                                                    // empty
  int inherited = -1;                               // descriptor that the process gets as well
  std::vector<std::string> removed;  // variables of the worker's own that it does not get
};

// One line for each variable that programs are given because this process's environment lacks it,
// with its effect.
std::vector<std::string> AssumedEnvironment();

class SandboxProcess {
 public:
  // Lines of a failed process that its message repeats: with the line above them, the four that an
  // error may have.
  static constexpr size_t kTailLines = 3;

  // `server`: forks the process, if it is there and can (Serves).
  static Result<std::unique_ptr<SandboxProcess>> Start(const SandboxSpec& spec,
                                                       ForkServer* server = nullptr);
  ~SandboxProcess();
  SandboxProcess(const SandboxProcess&) = delete;
  SandboxProcess& operator=(const SandboxProcess&) = delete;

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] bool forked() const { return forked_; }  // by a fork server
  [[nodiscard]] pid_t pid() const { return pid_; }
  channel::Consumer& channel() { return *channel_; }

  // Takes what the process has written so far. Never waits.
  void PumpOutput();

  // Checks whether the process has exited; never waits. Afterwards its last output has been taken.
  bool Exited();

  // After Exited(): OK for exit code 0; kEnvironment if a library is missing, or the shim is from
  // another build; else kRunFailed naming rank, exit code or signal and LastLines.
  [[nodiscard]] Status ExitStatus(size_t lines = kTailLines) const;

  // From now on its output is kept in the log, but no longer passed on.
  void Mute() { on_line_ = nullptr; }

  // Ends the process and everything it started, and reaps it.
  void Kill();

  // The stacks of the process as shim/stack_writer.h writes them, one line per frame; "" when it
  // does not answer within half a second.
  std::string Stacks();

  // What the stand-in for a launcher has left (launch/cli/stand_in.h): words, each with a zero.
  [[nodiscard]] std::string LaunchedWords() const;

  // TellingLines of its output, below a line that introduces them, then kOutputHeading and the end
  // of all output; or a line saying that there is no output.
  [[nodiscard]] std::string LastLines(size_t count = kTailLines) const;

  // All output so far; very long output is cut, with a line that says so.
  [[nodiscard]] const std::string& log() const { return log_; }

 private:
  SandboxProcess(Rank rank, std::unique_ptr<channel::Consumer> channel)
      : rank_(rank), channel_(std::move(channel)) {}

  void AddOutput(const char* data, size_t bytes);
  void EndOutput();

  Rank rank_;
  std::unique_ptr<channel::Consumer> channel_;
  std::function<void(const std::string&)> on_line_;
  pid_t pid_ = -1;
  int output_ = -1;  // read end of the pipe
  int stacks_ = -1;  // file that the process writes its stacks into
  int launch_ = -1;  // file that a stand-in writes its words into; -1: none
  off_t stacks_taken_ = 0;
  bool has_terminal_ = false;
  bool forked_ = false;
  bool stands_in_ = false;  // --stand-in
  std::optional<int> wait_status_;
  std::string log_;
  std::string recent_;  // the end of all output
  std::string partial_line_;
};

}  // namespace prism::launch
