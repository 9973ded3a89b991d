// The formats of `prism import` and `prism export`, by name.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/status.h"

namespace prism::launch {

// The element of `formats` (each has a `name`) with that name; kInvalidArgument, listing all, if
// there is none.
template <typename Formats>
auto FindFormat(const Formats& formats, const std::string& name)
    -> Result<decltype(&*std::begin(formats))> {
  std::vector<std::string> names;
  for (const auto& format : formats) {
    if (name == format.name) {
      return &format;
    }
    names.emplace_back(format.name);
  }
  return InvalidArgument(
      fmt::format("unknown format '{}'; choose one of {}", name, fmt::join(names, ", ")));
}

}  // namespace prism::launch
