#include "launch/process/output.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "launch/exit_codes.h"
#include "launch/process/color.h"
#include "launch/process/mpi_session.h"

namespace prism::launch {
namespace {

bool Write(std::FILE* file, const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fflush(file) == 0 && written;
}

// Long enough for process 0 to fail as well; mpirun then ends the others earlier.
constexpr std::chrono::seconds kStayFor(5);

}  // namespace

Status Print(const std::string& text) {
  if (MpiSession::LaunchedRank() == 0 && !Write(stdout, text)) {
    return EnvironmentLacks(
        fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  }
  return OkStatus();
}

int Say(std::string_view who, const std::string& text) {
  const Status printed = Print(text);
  return printed.ok() ? kExitOk : Fail(who, printed);
}

int Fail(std::string_view who, const Status& status, std::string_view color) {
  const std::string_view message = status.message();
  const std::string text =
      fmt::format("{} {}\n", Red(fmt::format("{}:", who), ShowsColor(color, STDERR_FILENO)),
                  message.substr(0, message.find(kOutputHeading)));
  if (const int process = MpiSession::LaunchedRank(); process == 0) {
    Write(stderr, text);
  } else {
    std::this_thread::sleep_for(kStayFor);
    Write(stderr, fmt::format("process {}: {}", process, text));
  }
  return ExitCode(status);
}

}  // namespace prism::launch
