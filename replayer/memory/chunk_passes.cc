#include "replayer/memory/chunk_passes.h"

#include <algorithm>

#include "graph/base/divide.h"

namespace prism::replayer {

std::vector<ChunkPass> PassesOf(const graph::JobSpec& job,
                                const StageMemoryOptions& options,
                                int64_t ahead,
                                bool to_the_end) {
  const int64_t vpp = job.parallel.vpp;
  const int64_t pp = options.microbatch_group > 0 ? options.microbatch_group : job.parallel.pp;
  const int64_t deferred_heads = options.deferred_heads;
  const int64_t passes_in_all = job.microbatches() * vpp;
  const int64_t rest = job.microbatches() % pp;  // micro-batches of the last round
  const auto chunk_of = [&](int64_t pass) {
    const int64_t left = pass - (passes_in_all - rest * vpp);
    return left < 0 ? pass / pp % vpp : left / rest;
  };
  const int64_t steady = std::max(2 * pp, std::min(deferred_heads, job.microbatches())) * vpp;
  const int64_t forward =
      std::min(passes_in_all, to_the_end ? RoundUp(ahead + steady, pp * vpp) : ahead + steady);
  std::vector<ChunkPass> passes;
  int64_t backward = 0;
  for (int64_t pass = 0; pass < forward; ++pass) {
    passes.push_back({true, chunk_of(pass)});
    if (pass >= ahead) {
      passes.push_back({false, vpp - 1 - chunk_of(backward++)});
    }
  }
  while (to_the_end && backward < forward) {
    passes.push_back({false, vpp - 1 - chunk_of(backward++)});
  }
  return passes;
}

}  // namespace prism::replayer
