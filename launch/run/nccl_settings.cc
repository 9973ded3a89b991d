#include "launch/run/nccl_settings.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace prism::launch {

void WarnOfNcclSettings(const char* const* environment, std::vector<graph::Warning>* warnings) {
  std::vector<std::string> settings;
  for (; *environment != nullptr; ++environment) {
    const std::string_view variable = *environment;
    if (variable.starts_with("NCCL_") && !variable.starts_with("NCCL_DEBUG")) {
      settings.emplace_back(variable);
    }
  }
  if (settings.empty()) {
    return;
  }
  std::ranges::sort(settings);
  warnings->push_back({"nccl_settings_left_out", static_cast<int64_t>(settings.size()),
                       fmt::format("{}", fmt::join(settings, ", "))});
}

}  // namespace prism::launch
