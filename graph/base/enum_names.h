// The words of an enum in options, files and reports: one table to print from, to parse with and to
// list in help texts and messages, so that none of them can disagree with the enumerators.
//
//   inline constexpr EnumNames<Device, 2> kDeviceNames = {
//       {{Device::kVirtual, "virtual"}, {Device::kCuda, "cuda"}}};
//   NameOf(kDeviceNames, Device::kCuda)    "cuda"
//   ValueNamed(kDeviceNames, "cuda")       Device::kCuda
//   JoinedNames(kDeviceNames)              "virtual|cuda"
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/check.h"

namespace prism {

template <typename Enum>
struct EnumName {
  Enum value;
  const char* name;
};

// In the order in which help texts list them.
template <typename Enum, size_t N>
using EnumNames = std::array<EnumName<Enum>, N>;

// Every enumerator is in its table: another value is a broken invariant.
template <typename Enum, size_t N>
const char* NameOf(const std::array<EnumName<Enum>, N>& table, Enum value) {
  for (const EnumName<Enum>& entry : table) {
    if (entry.value == value) {
      return entry.name;
    }
  }
  PRISM_CHECK(false);
}

template <typename Enum, size_t N>
std::optional<Enum> ValueNamed(const std::array<EnumName<Enum>, N>& table, std::string_view name) {
  for (const EnumName<Enum>& entry : table) {
    if (entry.name == name) {
      return entry.value;
    }
  }
  return std::nullopt;
}

template <typename Enum, size_t N>
std::vector<std::string> AllNames(const std::array<EnumName<Enum>, N>& table) {
  std::vector<std::string> names;
  for (const EnumName<Enum>& entry : table) {
    names.emplace_back(entry.name);
  }
  return names;
}

// "virtual|cuda", as help texts show what an option takes.
template <typename Enum, size_t N>
std::string JoinedNames(const std::array<EnumName<Enum>, N>& table) {
  std::string joined;
  for (const EnumName<Enum>& entry : table) {
    joined += joined.empty() ? entry.name : std::string("|") + entry.name;
  }
  return joined;
}

}  // namespace prism
