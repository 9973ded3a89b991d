// Which ranks are members of a communicator of a GroupAxis (job_program.h), in Megatron's order of
// ranks: tp fastest, then cp, dp, pp. Expert groups divide the ranks of a pipeline stage in the
// order etp, ep, the rest (Megatron Core's parallel folding); with etp = tp and cp = 1 that is ep
// inside dp. HSDP's shards are neighbours along cp and dp.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/program/job_program.h"

namespace prism::graph {

class JobGroups {
 public:
  // `shard_size` as in TrainingStyle. The sizes must be divisible as far as the axes that are asked
  // for require; CheckGroups tests that.
  JobGroups(const ParallelSizes& sizes, int32_t shard_size);

  // Number of ranks in a communicator along that axis. kEmbedding counts the first and last stage.
  [[nodiscard]] int32_t Size(GroupAxis axis) const;

  // Lowest member of the communicator that `rank` is in: identifies it among those of the axis. A
  // rank of a middle stage is in none along kEmbedding and must not be passed.
  [[nodiscard]] Rank LowestMember(GroupAxis axis, Rank rank) const;

  // Ascending.
  [[nodiscard]] std::vector<Rank> Members(GroupAxis axis, Rank rank) const;

  // Enough ranks of a stage that each of its communicators along that axis is placed on nodes in
  // the same way as the communicator of one of them. Ascending, at most gpus_per_node squared.
  [[nodiscard]] std::vector<Rank> OneByPlace(GroupAxis axis,
                                             int32_t stage,
                                             int32_t gpus_per_node) const;

  [[nodiscard]] int32_t StageOf(Rank rank) const;
  [[nodiscard]] int32_t ranks_per_stage() const { return stage_ranks_; }

 private:
  // Members are base + i * stride for i < count, times a second such progression.
  struct Progression {
    int32_t stride = 1;
    int32_t count = 1;
  };
  using Shape = std::array<Progression, 2>;

  [[nodiscard]] Shape ShapeOf(GroupAxis axis) const;

  ParallelSizes sizes_;
  int32_t shard_ = 1;
  int32_t stage_ranks_ = 1;
};

// Whether expert and shard groups divide the ranks of a stage.
Status CheckGroups(const ParallelSizes& sizes, int32_t shard_size);

}  // namespace prism::graph
