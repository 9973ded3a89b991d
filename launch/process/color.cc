#include "launch/process/color.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "launch/process/mpi_session.h"

namespace prism::launch {
namespace {

bool IsSet(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr && text[0] != '\0';
}

bool IsFile(int descriptor) {
  struct stat status = {};
  return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

bool IsDumb() {
  const char* const terminal = std::getenv("TERM");
  return terminal != nullptr && std::string_view(terminal) == "dumb";
}

std::string Painted(std::string_view text, const char* code, bool shows) {
  return shows ? fmt::format("\033[{}m{}\033[0m", code, text) : std::string(text);
}

}  // namespace

bool ShowsColor(std::string_view choice, int descriptor) {
  if (choice == "off" || IsSet("NO_COLOR") || IsFile(descriptor)) {
    return false;
  }
  // Open MPI gives its processes a pseudo-terminal, wherever their output goes.
  const bool terminal = isatty(descriptor) != 0 && !MpiSession::LaunchedByMpi();
  return choice == "on" || (terminal && !IsDumb());
}

std::string Red(std::string_view text, bool shows) {
  return Painted(text, "1;31", shows);
}

std::string Bold(std::string_view text, bool shows) {
  return Painted(text, "1", shows);
}

std::string Yellow(std::string_view text, bool shows) {
  return Painted(text, "33", shows);
}

Logger ColoredLogger(LogLevel level, std::string_view choice) {
  if (!ShowsColor(choice, STDERR_FILENO)) {
    return Logger(level);
  }
  return {level, [](std::string_view line) {
            constexpr std::string_view kWarning = "warning:";
            std::string text(line);
            if (line.starts_with(kWarning)) {
              text.replace(0, kWarning.size(), Yellow(kWarning, true));
            }
            std::fwrite(text.data(), 1, text.size(), stderr);
            std::fflush(stderr);
          }};
}

std::string ColoredSummary(std::string text, bool shows) {
  constexpr std::string_view kWarnings = "\n  warnings ";
  constexpr std::string_view kNone = "\n  warnings          none\n";
  const size_t at = text.find(kWarnings);
  if (at != text.npos && text.compare(at, kNone.size(), kNone) != 0) {
    const size_t label = at + 3;  // after the line's end and its indent
    const size_t length = kWarnings.size() - 4;
    text.replace(label, length, Yellow(text.substr(label, length), shows));
  }
  const size_t head = text.find('\n');
  return Bold(text.substr(0, head), shows) + (head == text.npos ? "" : text.substr(head));
}

}  // namespace prism::launch
