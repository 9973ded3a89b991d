// The worker's side of a fork server (shim/fork_server/fork_server.h): one start of a Python
// program, up to where it first needs its rank, from which the processes of ranks are forked.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/status.h"
#include "launch/emulate/sandbox/sandbox_process.h"
#include "shim/channel/fork_request.h"

namespace prism::launch {

// Has the program's interpreter run shim/fork_server/sitecustomize.py first: in front of the user's
// own PYTHONPATH, which that restores.
void AddPythonFolder(SandboxSpec* spec);

// Has a rank that is started by itself note in a channel::ImportLog what it imports.
void NoteImports(const std::string& path, SandboxSpec* spec);

class ForkServer {
 public:
  enum class State : uint8_t { kStarting, kReady, kGone };

  // `spec` is any rank's. Ranks differ by these variables only. `imports`: the path of a
  // channel::ImportLog, for what the server imports before it forks its first rank.
  static Result<std::unique_ptr<ForkServer>> Start(SandboxSpec spec,
                                                   std::vector<std::string> variables,
                                                   const std::string& imports);
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  // Takes what it has sent. Never waits.
  State Look();

  // Once it is gone, why no rank can be forked.
  [[nodiscard]] const std::string& why_gone() const { return why_gone_; }

  // Whether that rank's process would be the same from here.
  [[nodiscard]] bool Serves(const SandboxSpec& spec) const;

  // A new child of this process that is the rank, with its variables and these descriptors. The
  // server must be ready; it is gone if this fails.
  struct Descriptors {
    int output;
    int channel;
    int stacks;
  };
  Result<pid_t> Fork(const ChildVariables& variables, const Descriptors& descriptors);

  // Imports ahead; the server is ready again after that. Or undoes it: the next ranks are forked
  // from where the program itself has come to.
  void ImportAhead();
  void LeaveOutImports() { Ask(channel::kForkWithoutImports); }

  // What the program has printed so far, which a rank would have printed itself.
  [[nodiscard]] const std::string& output() const { return process_->log(); }

 private:
  ForkServer(SandboxSpec spec, std::vector<std::string> variables, int socket)
      : spec_(std::move(spec)), variables_(std::move(variables)), socket_(socket) {}

  void Ask(std::string_view request);
  void SetGone(std::string why);
  std::string RequestText(const ChildVariables& variables) const;

  SandboxSpec spec_;
  std::vector<std::string> variables_;  // ascending
  int socket_;
  std::unique_ptr<SandboxProcess> process_;
  State state_ = State::kStarting;
  std::string why_gone_;
};

}  // namespace prism::launch
