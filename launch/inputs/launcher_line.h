// A launcher's command line, split by the table of its options.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

// Options are words: "nnodes=" takes a value, "mca==" two, "verbose" none; "m|module" has two
// names, "fsdp-*=" is every name that begins so. Underscores count as dashes.
struct LauncherOptions {
  const char* name;         // of the launcher, for messages
  const char* used;         // options that mean something here
  const char* ignored;      // that mean nothing here
  bool one_dash = false;    // a long name may have one dash: "-np"
  bool abbreviates = true;  // a name may be cut short where it is clear, as argparse allows
};

class LauncherLine {
 public:
  // kInvalidArgument for an unknown option, a missing value, and where no program follows.
  static Result<LauncherLine> Split(const LauncherOptions& options,
                                    const std::vector<std::string>& words,
                                    size_t first);

  [[nodiscard]] bool Has(std::string_view name) const { return given_.contains(name); }
  [[nodiscard]] std::string Text(std::string_view name, const std::string& fallback = {}) const;
  [[nodiscard]] std::vector<std::string> Texts(std::string_view name) const;
  // Unset if it is not given.
  Status ReadCount(std::string_view name, std::optional<int32_t>* count) const;
  // "LAUNCHER: message".
  [[nodiscard]] Status Wrong(const std::string& message) const;

  // Sets an option that the command line does not have.
  void Add(const std::string& name, const std::string& text) {
    given_.try_emplace(name, std::vector<std::string>{text});
  }

  [[nodiscard]] const std::map<std::string, std::vector<std::string>, std::less<>>& given() const {
    return given_;
  }
  [[nodiscard]] const std::vector<std::string>& program() const { return program_; }
  [[nodiscard]] const std::vector<std::string>& ignored() const { return ignored_; }

 private:
  std::string launcher_;
  std::map<std::string, std::vector<std::string>, std::less<>> given_;  // by first name
  std::vector<std::string> program_;
  std::vector<std::string> ignored_;
};

}  // namespace prism::launch
