// Sizes beyond which a job is a typing error rather than a run. All other jobs are predicted in
// bounded time and memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/base/status.h"
#include "graph/job/job.h"

namespace prism::launch {

struct SizeLimit {
  std::string_view name;  // in the words of published rows: "micro_batch × seq_len / cp"
  int64_t value = 0;
  int64_t most = 0;
};

// The first size of the job that is beyond its limit.
std::optional<SizeLimit> BeyondLimits(const graph::JobSpec& job);

// kRunFailed with the reason to skip a published row: the size beyond its limit, or that no heads
// fit.
Status CheckLimits(const graph::JobSpec& job);

}  // namespace prism::launch
