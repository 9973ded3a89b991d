// Settings of torch's caching allocator as users write them, so that tests can give the same text
// to torch and to the simulation.
#pragma once

#include <string_view>

#include "graph/base/status.h"
#include "replayer/memory/allocator_config.h"

namespace prism::testing {

// "max_split_size_mb:128,expandable_segments:True,roundup_power2_divisions:[256:1,>:4]". An option
// that torch knows but that changes no address (pinned_*, release_lock_on_cudamalloc, ...) is
// ignored; an unknown one, or backend:cudaMallocAsync, which is a different allocator, is refused
// with kInvalidArgument, as torch does.
Result<replayer::AllocatorConfig> ParseAllocatorConfig(std::string_view text);

}  // namespace prism::testing
