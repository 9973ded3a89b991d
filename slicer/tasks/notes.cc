#include "slicer/tasks/notes.h"

#include <fmt/format.h>

#include "graph/base/units.h"

namespace prism::slicer {

std::vector<std::string> Notes::Lines() const {
  std::vector<std::string> lines;
  for (const auto& [text, count] : counts_) {
    lines.push_back(fmt::format("{}: {}", text, FormatCount(count)));
  }
  return lines;
}

}  // namespace prism::slicer
