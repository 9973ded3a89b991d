// By which model transfers between nodes are timed.
#pragma once

#include <cstdint>

namespace prism::replayer {

// How long transfers between nodes take: by the bottleneck of their path, or by sharing the network
// with all others (replayer/network/). Under kFlow every rank is evaluated separately.
enum class NetworkModel : uint8_t { kAnalytic, kFlow };

}  // namespace prism::replayer
