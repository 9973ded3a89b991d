#include "graph/base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include <fmt/format.h>

namespace prism {
namespace {

struct Unit {
  std::string_view name;
  double size;
};

constexpr std::array<Unit, 13> kByteUnits = {{{"", 1},
                                              {"B", 1},
                                              {"KB", 1e3},
                                              {"kB", 1e3},
                                              {"MB", 1e6},
                                              {"GB", 1e9},
                                              {"TB", 1e12},
                                              {"KiB", 1024.0},
                                              {"MiB", 1024.0 * 1024},
                                              {"GiB", 1024.0 * 1024 * 1024},
                                              {"TiB", 1024.0 * 1024 * 1024 * 1024},
                                              {"PB", 1e15},
                                              {"PiB", 1024.0 * 1024 * 1024 * 1024 * 1024}}};

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

Result<int64_t> ParseBytes(std::string_view text) {
  const Status bad = InvalidArgument(fmt::format(
      "'{}' is not a size in bytes; write a number and a unit, for example 80GiB", text));
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number >= 0)) {
    return bad;
  }
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') {
    unit.remove_prefix(1);
  }
  for (const Unit& candidate : kByteUnits) {
    if (candidate.name == unit) {
      const double bytes = std::round(number * candidate.size);
      if (!(bytes < 9.2e18)) {
        return bad;
      }
      return static_cast<int64_t>(bytes);
    }
  }
  return bad;
}

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
