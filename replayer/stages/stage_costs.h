// The durations of a StagePlan on a cluster: everything that depends on parameters. Binding a plan
// again to other parameters costs microseconds; what it derives from the layout (which communicator
// spans how many nodes) is kept while the number of GPUs per node stays the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "graph/job/cluster.h"
#include "replayer/cost/collective_cost.h"
#include "replayer/stages/block_fold.h"
#include "replayer/stages/stage_plan.h"
#include "replayer/stages/stage_topologies.h"

namespace prism::replayer {

struct StageCosts {
  std::vector<DurationNs> work_ns;                     // by WorkItem
  std::vector<DurationNs> span_ns;                     // by HostSpan
  std::vector<std::vector<DurationNs>> transfer_ns;    // by kind of stage and TransferItem
  std::vector<std::vector<DurationNs>> collective_ns;  // by kind of stage and CollectiveCalls
  std::vector<std::vector<FoldedSegment>> segments;    // by kind of stage and segment
  std::vector<DurationNs> message_ns;                  // by message: at the end that takes longer
  std::vector<DurationNs> message_send_ns;             // by message: at the sender
  std::vector<bool> message_eager;
  std::vector<DurationNs> meeting_ns;              // by meeting
  std::vector<std::vector<DurationNs>> host_ns;    // by stage and instruction: its issue
  std::vector<std::vector<DurationNs>> charge_ns;  // by stage and charge
  std::vector<DurationNs> iteration_host_ns;       // by stage
};

struct StageScales {
  double compute = 1;  // multiplies every compute duration (for intervals)
  double comm = 1;     // multiplies every transfer duration
};

class StageCostModel {
 public:
  // Both outlive the model.
  StageCostModel(const graph::JobProgram& job, const StagePlan& plan);

  // Fails on parameters that no cost can be computed from.
  Status Bind(const graph::ClusterSpec& cluster, const StageScales& scales);

  [[nodiscard]] const StageCosts& costs() const { return costs_; }

  // Behind Bind.
  [[nodiscard]] uint32_t KindOf(size_t stage) const { return topologies_->KindOf(stage); }
  [[nodiscard]] const std::vector<std::string>& uneven() const { return topologies_->uneven(); }

 private:
  void FindTopologies(int32_t gpus_per_node);
  [[nodiscard]] FoldDurations DurationsOf(uint32_t kind) const;
  void BindWorks(const graph::ClusterSpec& cluster, double scale);
  void BindTransfers(const CollectiveCost& cost, double scale);
  void BindSegments();
  void BindStage(size_t stage);

  const graph::JobProgram& job_;
  const StagePlan& plan_;
  graph::Graph strings_;  // those of the job, in the form that the cost model takes
  double overlap_slowdown_ = 1;
  std::optional<StageTopologies> topologies_;
  std::vector<bool> channel_on_node_;
  StageCosts costs_;
};

}  // namespace prism::replayer
