// The formats of `prism import` and `prism export`, by name.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/status.h"

namespace prism::launch {

// What the formats are called; each has a `name`.
std::vector<std::string> FormatNames(const auto& formats) {
  std::vector<std::string> names;
  for (const auto& format : formats) {
    names.emplace_back(format.name);
  }
  return names;
}

// The format with that name; kInvalidArgument, listing all, if there is none.
template <typename Formats>
auto FindFormat(const Formats& formats, const std::string& name)
    -> Result<decltype(&*std::begin(formats))> {
  const std::vector<std::string> names = FormatNames(formats);
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) {
    return &*(std::begin(formats) + (found - names.begin()));
  }
  return InvalidArgument(
      fmt::format("unknown format '{}'; choose one of {}", name, fmt::join(names, ", ")));
}

}  // namespace prism::launch
