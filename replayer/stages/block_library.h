// Blocks of many jobs, lowered, costed and folded once. Plans for one model share most of their
// blocks: a JobProgram that only grows (slicer/synthesize/phrase_synthesizer.h) is passed in with
// each of them, and what it has gained since is added here. Cached values are keyed by everything
// that decides them - block, cluster, how the communicators of its collectives are placed on nodes
// - so no result depends on what was evaluated before.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "graph/base/intern.h"
#include "graph/base/status.h"
#include "graph/graph.h"
#include "graph/job/cluster.h"
#include "graph/program/job_program.h"
#include "replayer/cost/collective_cost.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/stages/block_fold.h"
#include "replayer/stages/stage_plan.h"
#include "replayer/stages/stage_topologies.h"

namespace prism::replayer {

// Lookups in a cache, and how many of them were found.
struct CacheCount {
  int64_t asked = 0;
  int64_t found = 0;
};

// The blocks of a library on one cluster.
class LibraryCosts {
 public:
  // `plan` is the library's plan; the library outlives this.
  static Result<std::unique_ptr<LibraryCosts>> Create(const graph::ClusterSpec& cluster,
                                                      const StagePlan& plan);

  [[nodiscard]] const graph::ClusterSpec& cluster() const { return cluster_; }
  [[nodiscard]] const CollectiveCost& collective_cost() const { return collective_; }
  [[nodiscard]] double overlap_slowdown() const { return overlap_slowdown_; }
  [[nodiscard]] const CacheCount& folds() const { return fold_count_; }

  // Costs what was added to the plan.
  void Extend(const graph::JobProgram& program);

  // Forgets what was folded.
  void ForgetFolds();

  [[nodiscard]] DurationNs WorkNs(uint32_t work) const { return work_ns_[work]; }
  [[nodiscard]] DurationNs SpanNs(uint32_t span) const { return span_ns_[span]; }

  // A number for a topology.
  uint32_t NumberOf(const CommTopology& topology) { return InternValue(topologies_, topology); }

  DurationNs TransferNs(uint32_t transfer, uint32_t topology);

  // By axis: number of its topology.
  using Topologies = std::array<uint32_t, graph::kGroupAxisCount>;
  DurationNs CollectiveNs(uint32_t calls, const Topologies& topologies);
  const FoldedSegment& Folded(uint32_t part, uint32_t axes, const Topologies& topologies);

 private:
  struct FoldKey {
    uint32_t part = 0;
    uint64_t topologies = 0;

    bool operator==(const FoldKey&) const = default;
  };
  struct LatestFold {
    uint64_t topologies = 0;
    const FoldedSegment* folded = nullptr;
  };
  struct FoldKeyHash {
    size_t operator()(const FoldKey& key) const;
  };

  LibraryCosts(const graph::ClusterSpec& cluster, const StagePlan& plan);
  FoldedSegment Fold(uint32_t part, const Topologies& topologies);

  graph::ClusterSpec cluster_;
  const StagePlan& plan_;
  ComputeCost compute_;
  CollectiveCost collective_;
  double overlap_slowdown_;
  std::vector<DurationNs> host_ns_;
  graph::Graph strings_;  // those of the job, in the form that the cost model takes
  std::vector<DurationNs> work_ns_;
  std::vector<DurationNs> span_ns_;
  std::vector<CommTopology> topologies_;
  std::unordered_map<uint64_t, DurationNs> transfer_ns_;  // by transfer, topology
  std::deque<FoldedSegment> folds_;
  std::unordered_map<FoldKey, uint32_t, FoldKeyHash> fold_ids_;  // never iterated
  std::vector<LatestFold> latest_folds_;                         // by part
  std::vector<DurationNs> transfer_row_;                         // for the block being folded
  std::vector<DurationNs> collective_row_;                       // the same
  CacheCount fold_count_;
};

class BlockLibrary {
 public:
  // For jobs with several stages, or with one.
  explicit BlockLibrary(bool several_stages);
  BlockLibrary(const BlockLibrary&) = delete;
  BlockLibrary& operator=(const BlockLibrary&) = delete;

  // Adds the blocks that the program has gained. `program` must always be the same one.
  Status Extend(const graph::JobProgram& program);

  [[nodiscard]] const StagePlan& plan() const { return plan_; }
  [[nodiscard]] const std::vector<BlockStreams>& streams() const { return streams_; }

  // Of all clusters.
  [[nodiscard]] CacheCount folds() const;

  // How communicators of a job are placed on nodes, along the axes whose bits are set in `axes`.
  const StageTopologies& TopologiesOf(const graph::ParallelSizes& sizes,
                                      int32_t shard_size,
                                      int32_t gpus_per_node,
                                      uint32_t axes);

  // Costs of the library's blocks on a cluster; kept for the last few clusters. Fails on parameters
  // that no cost can be computed from.
  Result<LibraryCosts*> CostsOn(const graph::ClusterSpec& cluster,
                                const graph::JobProgram& program);

 private:
  static constexpr size_t kMaxClusters = 8;

  graph::ParallelSizes sizes_;
  StagePlan plan_;
  BlockLowering lowering_;
  std::vector<BlockStreams> streams_;                // by block of the plan
  std::deque<std::unique_ptr<LibraryCosts>> costs_;  // the latest last
  // By sizes and the other arguments of TopologiesOf.
  std::map<std::array<int64_t, 9>, StageTopologies> topologies_;
  CacheCount dropped_folds_;  // of those that made room
};

}  // namespace prism::replayer
