// Whole programs under test: a command with its output and exit code, and
// what it left behind.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace prism {

struct Finished {
  int code = -1;  // 128 + signal if one ended it
  std::string output;
};

// A command that runs while the test observes it. Its orphans become children of the test, so that
// none can hide.
class RunningCommand {
 public:
  // Without a shell. `output_path` gets stdout and stderr.
  RunningCommand(const std::vector<std::string>& command, std::string output_path);
  ~RunningCommand();  // kills what still runs
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::string Output() const;

  // Waits at most that long for the text in the output; false when it does not appear, or the
  // command ends first.
  [[nodiscard]] bool WaitForOutput(const std::string& text, double seconds) const;

  // Waits for the end. Code -1: not within the time.
  Finished Wait(double seconds);

 private:
  pid_t pid_ = -1;
  std::string output_path_;
};

// Runs to the end, for at most five minutes, since the machine may be busy.
Finished RunCommand(const std::vector<std::string>& command);

// All live processes that descend from this one, direct children first.
std::vector<pid_t> Descendants();

// The program's name of a process: "prism-workload"; "" when it is gone.
std::string ProcessName(pid_t process);

// "" when there is no such file.
std::string ReadText(const std::string& path);
void WriteText(const std::string& path, const std::string& text);
bool Exists(const std::string& path);
// Whether there is partial output beside the folder, which exists only while a run writes.
bool HasPartialOutput(const std::string& path);

// Names in a folder, ordered.
std::vector<std::string> Entries(const std::string& folder);

}  // namespace prism
