// A folder of a test's own, so that suites that run at once do not meet.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace prism {

// Under the system's temporary folder; removed with its content at the end. path() is "" where none
// could be made.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "prism-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) {
      path_ = pattern;
    }
  }

  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // A file in it, with the folders on its way.
  void Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = *this / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  // A shell script in it; its path.
  [[nodiscard]] std::string WriteScript(const std::string& name, const std::string& text) const {
    Write(name, "#!/bin/sh\n" + text + "\n");
    std::filesystem::permissions(*this / name, std::filesystem::perms::owner_all);
    return *this / name;
  }

 private:
  std::string path_;
};

}  // namespace prism
