// What an import assumed or an export could not express, counted: one line per kind.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace prism::slicer {

class Notes {
 public:
  // `text` is in the plural and ends without a full stop.
  void Add(const std::string& text, int64_t count = 1) {
    if (count > 0) {
      counts_[text] += count;
    }
  }

  void Add(const Notes& other) {
    for (const auto& [text, count] : other.counts_) {
      Add(text, count);
    }
  }

  [[nodiscard]] const std::map<std::string, int64_t>& counts() const { return counts_; }

  // "messages of no bytes are written with one: 12", ordered by text.
  [[nodiscard]] std::vector<std::string> Lines() const;

 private:
  std::map<std::string, int64_t> counts_;
};

}  // namespace prism::slicer
