#include "launch/sandbox/last_lines.h"

#include <algorithm>
#include <deque>
#include <ranges>
#include <vector>

#include <fmt/format.h>

namespace prism::launch {
namespace {

// Frames of libtorch's stacks, which follow its message; what Python draws below a source line;
// what c10d prints at every exit without destroy_process_group.
bool IsAside(std::string_view line) {
  return line.empty() || line.starts_with("Exception raised from ") ||
         line.starts_with("frame #") || line.ends_with('^') ||
         line.find("destroy_process_group() was not called") != line.npos;
}

// What the virtual device printed when it refused a call (shim/session.cc).
bool IsRefusal(std::string_view line) {
  return line.starts_with("prism shim: ");
}

// The line after the frames of the last traceback; the number of lines if there is none. torch puts
// the rank in front of all lines of a traceback.
size_t LastException(const std::vector<std::string_view>& lines) {
  constexpr std::string_view kHead = "Traceback (most recent call last):";
  const auto head = std::find_if(lines.rbegin(), lines.rend(), [&](std::string_view line) {
    return line.find(kHead) != line.npos;
  });
  if (head == lines.rend()) {
    return lines.size();
  }
  const std::string_view prefix = head->substr(0, head->find(kHead));
  const auto exception = std::find_if(head.base(), lines.end(), [&](std::string_view line) {
    return line.size() > prefix.size() && line.starts_with(prefix) && line[prefix.size()] != ' ';
  });
  return static_cast<size_t>(exception - lines.begin());
}

}  // namespace

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string TellingLines(std::string_view output, size_t count) {
  std::vector<std::string_view> lines = LinesOf(output);
  const size_t exception = LastException(lines);
  const auto after = std::ranges::count_if(lines | std::views::drop(exception),
                                           [](std::string_view line) { return !IsAside(line); });
  if (static_cast<size_t>(after) > count) {
    lines.resize(exception + 1);
  }
  std::erase_if(lines, IsAside);
  std::deque<std::string_view> kept;
  for (const std::string_view line : lines) {
    kept.push_back(line);
    if (kept.size() > count) {
      const bool keeps_first = count > 1 && IsRefusal(kept[0]) && !IsRefusal(kept[1]);
      kept.erase(kept.begin() + (keeps_first ? 1 : 0));
    }
  }
  return fmt::format("{}", fmt::join(kept, "\n"));
}

}  // namespace prism::launch
