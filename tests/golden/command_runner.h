// Runs shell commands as a user would: in a separate folder, with our programs on the PATH and none
// of our variables in the environment.
#pragma once

#include <string>

namespace prism::testing {

struct CommandOutput {
  int exit_code = -1;  // 128 + signal for a command that was killed, as a shell counts
  std::string standard_output;
  std::string standard_error;
};

// A temporary folder in which commands run one after the other; removed with the object.
class CommandFolder {
 public:
  // `path`: folders that are searched before the machine's own, separated by colons.
  explicit CommandFolder(const std::string& path);
  ~CommandFolder();
  CommandFolder(const CommandFolder&) = delete;
  CommandFolder& operator=(const CommandFolder&) = delete;

  [[nodiscard]] CommandOutput Run(const std::string& command) const;

 private:
  // Replaces the folder's name, which differs from run to run, by FOLDER.
  [[nodiscard]] std::string WithoutFolder(std::string text) const;

  std::string folder_;
  std::string path_;
};

// The contents of a file; "" when there is none.
std::string ReadWhole(const std::string& path);

}  // namespace prism::testing
