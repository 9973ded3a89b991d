// Runs shell commands as a user would: in a folder of their own, with our programs on the PATH and
// nothing of ours in the environment.
#pragma once

#include <string>

namespace prism::testing {

struct CommandOutput {
  int exit_code = -1;  // 128 + signal for a command that was killed, as a shell counts
  std::string standard_output;
  std::string standard_error;
};

// A temporary folder in which commands run one after the other; gone with the object.
class CommandFolder {
 public:
  // `path`: folders that are looked through before the machine's own, separated by colons.
  explicit CommandFolder(const std::string& path);
  ~CommandFolder();
  CommandFolder(const CommandFolder&) = delete;
  CommandFolder& operator=(const CommandFolder&) = delete;

  [[nodiscard]] CommandOutput Run(const std::string& command) const;

 private:
  // The folder's name differs from run to run: FOLDER stands for it.
  [[nodiscard]] std::string WithoutFolder(std::string text) const;

  std::string folder_;
  std::string path_;
};

// All of a file; "" when there is none.
std::string ReadWhole(const std::string& path);

}  // namespace prism::testing
