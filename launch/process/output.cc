#include "launch/process/output.h"

#include <unistd.h>

#include <algorithm>
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

// Length of the character that begins the text; 0: none does.
size_t CharacterLength(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const size_t length = first < 0x80   ? 1
                        : first < 0xC2 ? 0
                        : first < 0xE0 ? 2
                        : first < 0xF0 ? 3
                                       : 4;
  if (length > text.size() || first > 0xF4) {
    return 0;
  }
  const bool continued =
      std::ranges::all_of(text.substr(1, std::max<size_t>(length, 1) - 1),
                          [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; });
  return continued ? length : 0;
}

uint32_t CodeOf(std::string_view character) {
  constexpr uint32_t kBits[] = {0x7F, 0x1F, 0x0F, 0x07};  // of the first byte, by length
  uint32_t code = static_cast<unsigned char>(character.front());
  code &= character.size() == 1 ? 0xFF : kBits[character.size() - 1];
  for (const char next : character.substr(1)) {
    code = code << 6U | (static_cast<unsigned char>(next) & 0x3FU);
  }
  return code;
}

// Also what changes the direction of the text around it.
bool IsControl(uint32_t code) {
  return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0) ||
         code == 0x61C || code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

// Long enough for process 0 to fail as well; mpirun then ends the others earlier.
constexpr std::chrono::seconds kStayFor(5);

}  // namespace

std::string Harmless(std::string_view text) {
  std::string harmless;
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const std::string_view character = text.substr(0, std::max<size_t>(length, 1));
    if (const uint32_t code = CodeOf(character); length == 0 || IsControl(code)) {
      harmless += fmt::format("\\u{:04x}", code);
    } else {
      harmless += character;
    }
    text.remove_prefix(character.size());
  }
  return harmless;
}

Status Print(const std::string& text) {
  if (MpiSession::LaunchedRank() == 0 && !Write(stdout, text)) {
    return EnvironmentLacks(
        fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  }
  return OkStatus();
}

int Say(std::string_view who, const std::string& text) {
  const Status printed = Print(Harmless(text));
  return printed.ok() ? kExitOk : Fail(who, printed);
}

int Fail(std::string_view who, const Status& status, std::string_view color) {
  const std::string_view message = status.message();
  const std::string text =
      fmt::format("{} {}\n", Red(fmt::format("{}:", who), ShowsColor(color, STDERR_FILENO)),
                  Harmless(message.substr(0, message.find(kOutputHeading))));
  if (const int process = MpiSession::LaunchedRank(); process == 0) {
    Write(stderr, text);
  } else {
    std::this_thread::sleep_for(kStayFor);
    Write(stderr, fmt::format("process {}: {}", process, text));
  }
  return ExitCode(status);
}

}  // namespace prism::launch
