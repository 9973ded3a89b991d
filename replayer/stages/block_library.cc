#include "replayer/stages/block_library.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/base/content_hash.h"
#include "replayer/cost/cluster_check.h"
#include "replayer/replay.h"
#include "replayer/stages/stage_costs.h"

namespace prism::replayer {

size_t LibraryCosts::FoldKeyHash::operator()(const FoldKey& key) const {
  ContentHash hash;
  hash.Add(key.part);
  hash.Add(static_cast<int64_t>(key.topologies));
  return hash.Digest();
}

Result<std::unique_ptr<LibraryCosts>> LibraryCosts::Create(const graph::ClusterSpec& cluster,
                                                           const StagePlan& plan) {
  PRISM_RETURN_IF_ERROR(CheckCluster(cluster));
  return std::unique_ptr<LibraryCosts>(new LibraryCosts(cluster, plan));
}

LibraryCosts::LibraryCosts(const graph::ClusterSpec& cluster, const StagePlan& plan)
    : cluster_(cluster),
      plan_(plan),
      compute_(cluster_),
      collective_(cluster_),
      overlap_slowdown_(cluster.parameters.Value("overlap.compute_slowdown")),
      host_ns_(HostCosts(cluster.parameters)) {
}

void LibraryCosts::Extend(const graph::JobProgram& program) {
  strings_.strings.insert(
      strings_.strings.end(),
      program.strings.begin() + static_cast<std::ptrdiff_t>(strings_.strings.size()),
      program.strings.end());
  while (work_ns_.size() < plan_.tables.works.size()) {
    const WorkItem& item = plan_.tables.works[work_ns_.size()];
    work_ns_.push_back(WorkDuration(item, compute_, strings_, program.signatures));
  }
  const auto known = static_cast<std::ptrdiff_t>(span_ns_.size());
  for (auto span = plan_.tables.spans.begin() + known; span != plan_.tables.spans.end(); ++span) {
    span_ns_.push_back(SpanDuration(*span, host_ns_));
  }
}

void LibraryCosts::ForgetFolds() {
  folds_.clear();
  fold_ids_.clear();
  latest_folds_.clear();
}

DurationNs LibraryCosts::TransferNs(uint32_t transfer, uint32_t topology) {
  const TransferItem& item = plan_.tables.transfers[transfer];
  if (item.fixed_ns >= 0) {
    return item.fixed_ns;
  }
  const auto [found, inserted] =
      transfer_ns_.try_emplace(uint64_t{transfer} << 32U | topology, DurationNs{0});
  if (inserted) {
    found->second = collective_.Collective(item.shape, topologies_[topology]);
  }
  return found->second;
}

// As StageCostModel::BindTransfers.
DurationNs LibraryCosts::CollectiveNs(uint32_t calls, const Topologies& topologies) {
  std::array<DurationNs, graph::kGroupAxisCount> by_axis = {};
  for (const uint32_t transfer : plan_.tables.collectives[calls].transfers) {
    const uint16_t axis = plan_.tables.transfers[transfer].axis;
    by_axis[axis] += TransferNs(transfer, topologies[axis]);
  }
  return *std::max_element(by_axis.begin(), by_axis.end());
}

const FoldedSegment& LibraryCosts::Folded(uint32_t part,
                                          uint32_t axes,
                                          const Topologies& topologies) {
  constexpr uint32_t kBits = 16;  // per topology number in the key: at most four axes
  FoldKey key = {part, 0};
  uint32_t shift = 0;
  for (uint32_t left = axes; left != 0; left &= left - 1, shift += kBits) {
    const uint32_t topology = topologies[static_cast<size_t>(std::countr_zero(left))];
    PRISM_CHECK(topology < 1U << kBits && shift < 64);
    key.topologies |= uint64_t{topology} << shift;
  }
  ++fold_count_.asked;
  if (part >= latest_folds_.size()) {
    latest_folds_.resize(plan_.blocks.size());
  }
  LatestFold& latest = latest_folds_[part];
  if (latest.folded != nullptr && latest.topologies == key.topologies) {
    ++fold_count_.found;
    return *latest.folded;
  }
  const auto [found, inserted] = fold_ids_.try_emplace(key, static_cast<uint32_t>(folds_.size()));
  if (inserted) {
    folds_.push_back(Fold(part, topologies));
  } else {
    ++fold_count_.found;
  }
  latest = {key.topologies, &folds_[found->second]};
  return *latest.folded;
}

FoldedSegment LibraryCosts::Fold(uint32_t part, const Topologies& topologies) {
  transfer_row_.resize(plan_.tables.transfers.size());
  collective_row_.resize(plan_.tables.collectives.size());
  for (const StageOp& op : plan_.blocks[part].ops) {
    if (op.kind != StageOpKind::kCollective) {
      continue;
    }
    collective_row_[op.index] = CollectiveNs(op.index, topologies);
    for (const uint32_t transfer : plan_.tables.collectives[op.index].transfers) {
      transfer_row_[transfer] =
          TransferNs(transfer, topologies[plan_.tables.transfers[transfer].axis]);
    }
  }
  return FoldBlock(plan_, part,
                   {&work_ns_, &span_ns_, &transfer_row_, &collective_row_, overlap_slowdown_});
}

BlockLibrary::BlockLibrary(bool several_stages)
    : sizes_({.pp = several_stages ? 2 : 1}), lowering_(sizes_, &plan_.tables) {
  plan_.parts = {0};
}

Status BlockLibrary::Extend(const graph::JobProgram& program) {
  const auto first_part = static_cast<uint32_t>(plan_.blocks.size());
  PRISM_ASSIGN_OR_RETURN(LoweredBlocks more,
                         lowering_.Lower(program, static_cast<uint32_t>(plan_.parts.size() - 1)));
  for (size_t i = 1; i < more.begin.size(); ++i) {
    plan_.parts.push_back(first_part + more.begin[i]);
  }
  std::vector<uint16_t> streams = KernelStreams(more.parts, plan_.tables);
  for (LoweredBlock& part : more.parts) {
    plan_.blocks.push_back(std::move(part));
  }
  streams.insert(streams.end(), plan_.kernel_streams.begin(), plan_.kernel_streams.end());
  std::sort(streams.begin(), streams.end());
  streams.erase(std::unique(streams.begin(), streams.end()), streams.end());
  if (streams != plan_.kernel_streams) {  // the charges of waits are counted by kernel stream
    plan_.kernel_streams = std::move(streams);
    plan_.charges.clear();
    streams_.clear();
    for (const std::unique_ptr<LibraryCosts>& costs : costs_) {
      costs->ForgetFolds();
    }
  }
  for (auto part = static_cast<uint32_t>(plan_.charges.size()); part < plan_.blocks.size();
       ++part) {
    const LoweredBlock& block = plan_.blocks[part];
    plan_.charges.push_back(block.closed ? ChargesOf(block, plan_.tables, plan_.kernel_streams)
                                         : BlockCharges{});
    streams_.push_back(StreamsOfBlock(plan_, part, sizes_));
    // A single op is evaluated faster than its matrix.
    const bool single = block.ops.size() == 1 && block.ops.front().times == 1;
    streams_.back().foldable = streams_.back().foldable && !single;
  }
  return OkStatus();
}

Result<LibraryCosts*> BlockLibrary::CostsOn(const graph::ClusterSpec& cluster,
                                            const graph::JobProgram& program) {
  auto found = std::find_if(costs_.rbegin(), costs_.rend(),
                            [&](const auto& costs) { return costs->cluster() == cluster; });
  if (found == costs_.rend()) {
    PRISM_ASSIGN_OR_RETURN(std::unique_ptr<LibraryCosts> costs,
                           LibraryCosts::Create(cluster, plan_));
    if (costs_.size() == kMaxClusters) {
      dropped_folds_.asked += costs_.front()->folds().asked;
      dropped_folds_.found += costs_.front()->folds().found;
      costs_.pop_front();
    }
    costs_.push_back(std::move(costs));
    found = costs_.rbegin();
  }
  (*found)->Extend(program);
  return found->get();
}

const StageTopologies& BlockLibrary::TopologiesOf(const graph::ParallelSizes& sizes,
                                                  int32_t shard_size,
                                                  int32_t gpus_per_node,
                                                  uint32_t axes) {
  const std::array<int64_t, 9> key = {sizes.tp,  sizes.cp,   sizes.dp,      sizes.pp, sizes.ep,
                                      sizes.etp, shard_size, gpus_per_node, axes};
  auto found = topologies_.find(key);
  if (found == topologies_.end()) {
    std::vector<bool> used(graph::kGroupAxisCount);
    for (size_t axis = 0; axis < used.size(); ++axis) {
      used[axis] = (axes >> axis & 1U) != 0;
    }
    found = topologies_.emplace(key, StageTopologies(sizes, shard_size, gpus_per_node, used)).first;
  }
  return found->second;
}

CacheCount BlockLibrary::folds() const {
  CacheCount sum = dropped_folds_;
  for (const std::unique_ptr<LibraryCosts>& costs : costs_) {
    sum.asked += costs->folds().asked;
    sum.found += costs->folds().found;
  }
  return sum;
}

}  // namespace prism::replayer
