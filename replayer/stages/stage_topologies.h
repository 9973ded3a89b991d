// How the communicators of pipeline stages are placed on nodes: stages whose communicators are
// placed in the same way are of one kind.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/program/job_groups.h"
#include "replayer/cost/collective_cost.h"

namespace prism::replayer {

class StageTopologies {
 public:
  using ByAxis = std::array<CommTopology, graph::kGroupAxisCount>;

  // `used`: by axis; others do not matter.
  StageTopologies(const graph::ParallelSizes& sizes,
                  int32_t shard_size,
                  int32_t gpus_per_node,
                  const std::vector<bool>& used);

  [[nodiscard]] int32_t gpus_per_node() const { return gpus_per_node_; }
  [[nodiscard]] const std::vector<ByAxis>& kinds() const { return kinds_; }
  [[nodiscard]] uint32_t KindOf(size_t stage) const { return kind_of_stage_[stage]; }

  // Whether messages between two stages stay inside nodes; if only some do, uneven() says so.
  bool OnNode(int32_t from_stage, int32_t to_stage);

  // Families of communicators ("tp of stage 3") whose members are not all placed on nodes in the
  // same way. Each is costed by its slowest member, where the engine would distinguish them.
  // Ascending.
  [[nodiscard]] const std::vector<std::string>& uneven() const { return uneven_; }

 private:
  CommTopology TopologyOfAxis(graph::GroupAxis axis, int32_t stage);
  void NoteUneven(std::string family);

  graph::JobGroups groups_;
  int32_t stages_;
  int32_t gpus_per_node_;
  std::vector<ByAxis> kinds_;
  std::vector<uint32_t> kind_of_stage_;
  std::vector<std::string> uneven_;
};

}  // namespace prism::replayer
