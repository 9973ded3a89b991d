#include "graph/base/units.h"

#include <array>
#include <cmath>
#include <string>

#include <fmt/format.h>

namespace prism {
namespace {

// Fixed-point digits without trailing zeros: 80.00 → "80", 79.650 → "79.65".
std::string Trimmed(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') {
      text.pop_back();
    }
  }
  return text;
}

std::string FourDigits(double value) {
  const double magnitude = std::abs(value);
  const int decimals = magnitude >= 1000 ? 0 : magnitude >= 100 ? 1 : magnitude >= 10 ? 2 : 3;
  return Trimmed(value, decimals);
}

}  // namespace

std::string FormatBytes(int64_t bytes) {
  constexpr std::array<std::string_view, 6> kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  // 1023.995 would print as "1024": step to the next unit before rounding does.
  while (std::abs(value) >= 1023.995 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return Trimmed(value, unit == 0 ? 0 : 2) + " " + std::string(kNames[unit]);
}

std::string FormatDuration(DurationNs duration) {
  const auto ns = static_cast<double>(duration);
  const double magnitude = std::abs(ns);
  if (magnitude >= 999'950'000.0) {
    return FourDigits(ns * 1e-9) + " s";
  }
  if (magnitude >= 999'950.0) {
    return FourDigits(ns * 1e-6) + " ms";
  }
  if (magnitude >= 1000.0) {
    return FourDigits(ns * 1e-3) + " us";
  }
  return fmt::format("{} ns", duration);
}

std::string FormatCount(int64_t count) {
  std::string digits = fmt::format("{}", count);
  const size_t first = count < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string FormatCounted(int64_t count, std::string_view noun) {
  const char* const ending = count == 1 ? "" : (noun.ends_with("ch") ? "es" : "s");
  return fmt::format("{} {}{}", FormatCount(count), noun, ending);
}

std::string FormatApproximate(double count) {
  constexpr std::array<std::string_view, 6> kSuffixes = {"", " k", " M", " G", " T", " P"};
  size_t suffix = 0;
  while (std::abs(count) >= 999.95 && suffix + 1 < kSuffixes.size()) {
    count /= 1000;
    ++suffix;
  }
  return FourDigits(count) + std::string(kSuffixes[suffix]);
}

}  // namespace prism
