#include "replayer/stages/stage_costs.h"

#include <algorithm>
#include <cmath>

#include "graph/base/intern.h"
#include "replayer/cost/cluster_check.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/cost/parameters.h"

namespace prism::replayer {
namespace {

DurationNs Scaled(DurationNs duration, double scale) {
  return scale == 1 ? duration : std::llround(static_cast<double>(duration) * scale);
}

// Before scaling.
DurationNs WorkDuration(const WorkItem& item,
                        const ComputeCost& compute,
                        const graph::Graph& strings,
                        const std::vector<graph::KernelSignature>& signatures) {
  if (item.fixed_ns >= 0) {
    return item.fixed_ns;
  }
  if (item.kind == graph::OpKind::kKernel) {
    return compute.Kernel(strings, signatures[item.signature]).duration_ns;
  }
  return item.kind == graph::OpKind::kMemcpy ? compute.Copy(item.bytes, item.direction)
                                             : compute.Memset(item.bytes);
}

DurationNs SpanDuration(const HostSpan& span, const std::vector<DurationNs>& host) {
  DurationNs sum = span.gap_ns;
  for (size_t kind = 0; kind < span.ops.size(); ++kind) {
    sum += span.ops[kind] * host[kind];
  }
  return sum;
}

}  // namespace

StageCostModel::StageCostModel(const graph::JobProgram& job, const StagePlan& plan)
    : job_(job), plan_(plan) {
  strings_.strings = job.strings;
}

Status StageCostModel::Bind(const graph::ClusterSpec& cluster, const StageScales& scales) {
  PRISM_RETURN_IF_ERROR(CheckCluster(cluster));
  if (!topologies_.has_value() || topologies_->gpus_per_node() != cluster.gpus_per_node) {
    FindTopologies(cluster.gpus_per_node);
  }
  overlap_slowdown_ = cluster.parameters.Value("overlap.compute_slowdown");
  BindWorks(cluster, scales.compute);
  BindTransfers(CollectiveCost(cluster), scales.comm);
  BindSegments();
  costs_.host_ns.resize(plan_.stages.size());
  costs_.charge_ns.resize(plan_.stages.size());
  costs_.iteration_host_ns.resize(plan_.stages.size());
  for (size_t stage = 0; stage < plan_.stages.size(); ++stage) {
    BindStage(stage);
  }
  return OkStatus();
}

void StageCostModel::FindTopologies(int32_t gpus_per_node) {
  std::vector<bool> used(graph::kGroupAxisCount);
  for (const TransferItem& item : plan_.tables.transfers) {
    used[item.axis] = true;
  }
  topologies_.emplace(job_.job.parallel, job_.style.shard_size, gpus_per_node, used);
  channel_on_node_.clear();
  for (const PeerChannel& channel : plan_.channels) {
    channel_on_node_.push_back(topologies_->OnNode(channel.from, channel.to));
  }
}

void StageCostModel::BindWorks(const graph::ClusterSpec& cluster, double scale) {
  const ComputeCost compute(cluster);
  costs_.work_ns.clear();
  for (const WorkItem& item : plan_.tables.works) {
    const DurationNs duration = WorkDuration(item, compute, strings_, job_.signatures);
    costs_.work_ns.push_back(item.is_compute() ? Scaled(duration, scale) : duration);
  }
  const std::vector<DurationNs> host = HostCosts(cluster.parameters);
  costs_.span_ns.clear();
  for (const HostSpan& span : plan_.tables.spans) {
    costs_.span_ns.push_back(SpanDuration(span, host));
  }
}

void StageCostModel::BindTransfers(const CollectiveCost& cost, double scale) {
  const std::vector<TransferItem>& transfers = plan_.tables.transfers;
  const std::vector<StageTopologies::ByAxis>& kinds = topologies_->kinds();
  costs_.transfer_ns.assign(kinds.size(), {});
  costs_.collective_ns.assign(kinds.size(), {});
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    for (size_t t = 0; t < transfers.size(); ++t) {
      const DurationNs duration =
          transfers[t].fixed_ns >= 0
              ? transfers[t].fixed_ns
              : cost.Collective(transfers[t].shape, kinds[kind][transfers[t].axis]);
      costs_.transfer_ns[kind].push_back(Scaled(duration, scale));
    }
    // Calls of one NCCL group run one after the other on a communicator, concurrently with those on
    // other communicators.
    for (const CollectiveCalls& calls : plan_.tables.collectives) {
      std::array<DurationNs, graph::kGroupAxisCount> by_axis = {};
      for (const uint32_t t : calls.transfers) {
        by_axis[transfers[t].axis] += costs_.transfer_ns[kind][t];
      }
      costs_.collective_ns[kind].push_back(*std::ranges::max_element(by_axis));
    }
  }
  costs_.meeting_ns.clear();
  for (const StageMeeting& meeting : plan_.meetings) {
    DurationNs longest = 0;
    for (const auto& [stage, transfer] : meeting.transfers) {
      const uint32_t kind = KindOf(static_cast<size_t>(stage));
      longest = std::max(longest, costs_.transfer_ns[kind][transfer]);
    }
    costs_.meeting_ns.push_back(longest);
  }
  costs_.message_ns.assign(plan_.messages.size(), 0);
  costs_.message_send_ns.assign(plan_.messages.size(), 0);
  costs_.message_eager.clear();
  for (const PeerMessage& message : plan_.messages) {
    costs_.message_eager.push_back(cost.IsEager(message.bytes));
  }
  // Only few groups have different loads.
  std::vector<std::vector<PeerLoad>> known;
  std::vector<std::vector<DurationNs>> durations;
  std::vector<PeerLoad> loads;
  for (const StagePeerGroup& group : plan_.peer_groups) {
    loads.clear();
    for (const StagePost& post : group.posts) {
      loads.push_back({plan_.messages[post.message].bytes, post.is_send,
                       channel_on_node_[plan_.messages[post.message].channel]
                           ? PeerLoad::Reach::kNode
                           : PeerLoad::Reach::kNetwork});
    }
    const uint32_t id = InternValue(known, loads);
    if (id == durations.size()) {
      durations.push_back(cost.PeerTransfers(loads));
    }
    const std::vector<DurationNs>& shared = durations[id];
    for (size_t p = 0; p < group.posts.size(); ++p) {
      const auto& [message, is_send] = group.posts[p];
      const DurationNs duration = Scaled(shared[p], scale);
      costs_.message_ns[message] = std::max(costs_.message_ns[message], duration);
      if (is_send) {
        costs_.message_send_ns[message] = duration;
      }
    }
  }
}

FoldDurations StageCostModel::DurationsOf(uint32_t kind) const {
  return {&costs_.work_ns, &costs_.span_ns, &costs_.transfer_ns[kind], &costs_.collective_ns[kind],
          overlap_slowdown_};
}

void StageCostModel::BindSegments() {
  std::vector<bool> used(plan_.blocks.size());
  for (const Segment& segment : plan_.segments) {
    for (const uint32_t block : segment.blocks) {
      used[block] = true;
    }
  }
  costs_.segments.assign(topologies_->kinds().size(), {});
  std::vector<FoldedSegment> blocks(plan_.blocks.size());
  for (size_t kind = 0; kind < topologies_->kinds().size(); ++kind) {
    const FoldDurations durations = DurationsOf(static_cast<uint32_t>(kind));
    for (uint32_t block = 0; block < blocks.size(); ++block) {
      if (used[block]) {
        blocks[block] = FoldBlock(plan_, block, durations);
      }
    }
    for (const Segment& segment : plan_.segments) {
      costs_.segments[kind].push_back(FoldSegment(segment, blocks));
    }
  }
}

// Host time of every instruction and the charges of waits, both in issue order.
void StageCostModel::BindStage(size_t stage) {
  const StageLanes& lanes = plan_.stages[stage];
  const std::vector<FoldedSegment>& segments = costs_.segments[KindOf(stage)];
  const std::vector<DurationNs>& transfer_ns = costs_.transfer_ns[KindOf(stage)];
  const std::vector<uint16_t>& streams = plan_.kernel_streams;
  const size_t width = streams.size();
  std::vector<DurationNs>& host_ns = costs_.host_ns[stage];
  std::vector<DurationNs>& charge_ns = costs_.charge_ns[stage];
  host_ns.resize(lanes.instructions.size());
  charge_ns.assign(lanes.charge_count, 0);
  std::vector<DurationNs> computed(width, 0);
  std::vector<DurationNs> at_mark(lanes.marks.size() * width);
  DurationNs host = 0;
  size_t next_source = 0;
  for (uint32_t i = 0; i < lanes.instructions.size(); ++i) {
    const Instruction& instruction = lanes.instructions[i];
    host += costs_.span_ns[instruction.span];
    host_ns[i] = host;
    for (; next_source < lanes.charge_sources.size() &&
           lanes.charge_sources[next_source].instruction == i;
         ++next_source) {
      const StageChargeSource& source = lanes.charge_sources[next_source];
      DurationNs compute = 0;
      for (size_t k = 0; k < width; ++k) {
        if (streams[k] != source.collective_stream &&
            (source.any_stream || streams[k] == source.waiting_stream)) {
          compute += computed[k] - at_mark[source.mark * width + k];
        }
      }
      const DurationNs beside = std::min(transfer_ns[source.transfer], compute);
      charge_ns[instruction.charge] +=
          std::llround((overlap_slowdown_ - 1) * static_cast<double>(beside));
    }
    if (instruction.kind == InstructionKind::kSegment) {
      const FoldedSegment& segment = segments[instruction.index];
      for (size_t e = 0; e < segment.export_ns.size(); ++e) {
        at_mark[instruction.mark * width + e] = computed[e % width] + segment.export_ns[e];
      }
      for (size_t k = 0; k < width; ++k) {
        computed[k] += segment.compute_ns[k];
      }
      host += segment.host_ns;
    } else if (instruction.mark != kNone) {
      std::copy(computed.begin(), computed.end(),
                at_mark.begin() + static_cast<std::ptrdiff_t>(instruction.mark * width));
    } else if (instruction.kind == InstructionKind::kWork &&
               plan_.tables.works[instruction.index].kind == graph::OpKind::kKernel) {
      const auto k = std::ranges::find(streams, instruction.stream);
      computed[static_cast<size_t>(k - streams.begin())] += costs_.work_ns[instruction.index];
    }
  }
  costs_.iteration_host_ns[stage] = host + costs_.span_ns[lanes.rest_span];
}

}  // namespace prism::replayer
