#include "launch/emulate/run/nccl_settings.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace prism::launch {
namespace {

// Prefixes of the settings for algorithms, channels, buffers and networks; settings of what NCCL
// prints and where it is installed (NCCL_DEBUG, NCCL_VERSION, NCCL_HOME) do not matter.
constexpr std::string_view kSteering[] = {
    "NCCL_ALGO",     "NCCL_BUFFSIZE",  "NCCL_CGA",
    "NCCL_COLLNET",  "NCCL_CROSS_NIC", "NCCL_GRAPH",
    "NCCL_IB_",      "NCCL_LL",        "NCCL_MAX_",
    "NCCL_MIN_",     "NCCL_NCHANNELS", "NCCL_NET",
    "NCCL_NTHREADS", "NCCL_NVB",       "NCCL_NVLS",
    "NCCL_P2P",      "NCCL_PAT",       "NCCL_PROTO",
    "NCCL_PXN",      "NCCL_SHM",       "NCCL_THREAD_THRESHOLDS",
    "NCCL_TOPO",     "NCCL_TUNER",
};

bool Steers(std::string_view variable) {
  return std::ranges::any_of(
      kSteering, [&](std::string_view beginning) { return variable.starts_with(beginning); });
}

}  // namespace

void WarnOfNcclSettings(const char* const* environment, std::vector<graph::Warning>* warnings) {
  std::vector<std::string> settings;
  for (; *environment != nullptr; ++environment) {
    const std::string_view variable = *environment;
    if (Steers(variable)) {
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
