#include "slicer/import/astra/words.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/base/parse_number.h"

namespace prism::slicer {
namespace {

constexpr int64_t kMaxNumber = int64_t{1} << 50U;

}  // namespace

std::vector<std::string_view> Words(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<std::string_view> words;
  while (true) {
    const size_t begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) {
      return words;
    }
    const size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

std::optional<int64_t> NumberOf(std::string_view text) {
  int64_t number = 0;
  return ParseNumber(text, &number) && number <= kMaxNumber ? std::optional(number) : std::nullopt;
}

std::string_view LineReader::Next() {
  const size_t end = text_.find('\n');
  const std::string_view line = text_.substr(0, end);
  text_ = end == std::string_view::npos ? std::string_view() : text_.substr(end + 1);
  ++number_;
  return line;
}

Status LineReader::Wrong(std::string_view what) const {
  return BadFile(fmt::format("{}:{}: {}", file_, number_, what));
}

}  // namespace prism::slicer
