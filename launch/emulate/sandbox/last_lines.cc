#include "launch/emulate/sandbox/last_lines.h"

#include <algorithm>
#include <deque>
#include <optional>
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

// The line after the frames of the last traceback. torch puts the rank in front of all lines of a
// traceback.
std::optional<std::string_view> LastException(const std::vector<std::string_view>& lines) {
  constexpr std::string_view kHead = "Traceback (most recent call last):";
  const auto head = std::find_if(lines.rbegin(), lines.rend(), [&](std::string_view line) {
    return line.find(kHead) != line.npos;
  });
  if (head == lines.rend()) {
    return std::nullopt;
  }
  const std::string_view prefix = head->substr(0, head->find(kHead));
  const auto exception = std::find_if(head.base(), lines.end(), [&](std::string_view line) {
    return line.size() > prefix.size() && line.starts_with(prefix) && line[prefix.size()] != ' ';
  });
  return exception == lines.end() ? std::nullopt : std::optional(*exception);
}

// Python's, torch's, and those of the Hugging Face libraries where nothing can be downloaded.
constexpr std::string_view kLackingFile[] = {"FileNotFoundError",
                                             "No such file or directory",
                                             "NotFoundError: ",
                                             "metadata is None",
                                             "does not appear to have a file named",
                                             "no file named",
                                             "is not a valid model identifier",
                                             "couldn't connect to",
                                             "Couldn't reach",
                                             "Can't load",
                                             "Cannot find the requested files",
                                             "cannot be found at the path prefix",
                                             "can't allocate memory"};

std::optional<std::string_view> LastRefusal(const std::vector<std::string_view>& lines) {
  const auto refusal = std::find_if(lines.rbegin(), lines.rend(), IsRefusal);
  return refusal == lines.rend() ? std::nullopt : std::optional(*refusal);
}

bool IsSame(std::string_view line, const std::optional<std::string_view>& other) {
  return other.has_value() && line.data() == other->data();
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
  const std::vector<std::string_view> lines = LinesOf(output);
  const auto exception = LastException(lines);
  const auto refusal = LastRefusal(lines);
  std::deque<std::string_view> kept;
  for (const std::string_view line : lines) {
    if (IsAside(line)) {
      continue;
    }
    kept.push_back(line);
    if (kept.size() > count) {
      const auto newest = kept.end() - 1;
      const auto least = std::find_if(kept.begin(), newest, [&](std::string_view known) {
        return !IsSame(known, exception) && !IsSame(known, refusal);
      });
      kept.erase(least == newest ? kept.begin() : least);
    }
  }
  return fmt::format("{}", fmt::join(kept, "\n"));
}

bool LacksFile(std::string_view output) {
  const auto exception = LastException(LinesOf(output));
  return exception.has_value() && std::ranges::any_of(kLackingFile, [&](std::string_view part) {
           return exception->find(part) != exception->npos;
         });
}

}  // namespace prism::launch
