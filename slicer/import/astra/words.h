// Lines, words and whole numbers: what the text formats of ASTRA-sim and SimAI consist of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"

namespace prism::slicer {

// The parts between blanks and tabs.
std::vector<std::string_view> Words(std::string_view line);

// Null for anything but a whole number below 2^50.
std::optional<int64_t> NumberOf(std::string_view text);

// Reads a text line by line. The text and its file name must outlive the reader.
class LineReader {
 public:
  LineReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  [[nodiscard]] bool AtEnd() const { return text_.empty(); }

  // The next line; empty after the last one.
  std::string_view Next();

  // kBadFile: `what` is wrong in the line that Next gave last.
  [[nodiscard]] Status Wrong(std::string_view what) const;

 private:
  std::string_view text_;  // after that line
  const std::string& file_;
  int64_t number_ = 0;  // of the line, from 1
};

}  // namespace prism::slicer
