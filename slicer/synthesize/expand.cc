#include "slicer/synthesize/expand.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/intern.h"
#include "graph/program/job_groups.h"
#include "slicer/stitch/table_merger.h"

namespace prism::slicer {
namespace {

using graph::GroupAxis;
using graph::OpKind;
using graph::Program;

// The program of one stage's ranks and what its slots refer to.
struct ExpandedStage {
  Program program;
  std::vector<GroupAxis> comm_slots;
  std::vector<int32_t> peer_slots;  // stages
};

class StageExpansion {
 public:
  StageExpansion(const graph::JobProgram& job, int32_t stage)
      : job_(job),
        stage_program_(job.stages[static_cast<size_t>(stage)]),
        stage_(stage),
        slot_record_(stage_program_.event_slot_count, graph::kNoDep) {}

  ExpandedStage Run() {
    for (const uint32_t call : stage_program_.calls) {
      Append(job_.blocks[call]);
    }
    Program& program = expanded_.program;
    program.stream_count = static_cast<uint16_t>(std::max<size_t>(streams_.size(), 1));
    program.comm_slot_count = static_cast<uint16_t>(expanded_.comm_slots.size());
    program.peer_slot_count = static_cast<uint16_t>(expanded_.peer_slots.size());
    return std::move(expanded_);
  }

 private:
  void Append(const Program& block) {
    const uint32_t first = expanded_.program.size();
    for (uint32_t op = 0; op < block.size(); ++op) {
      graph::OpRow row;
      row.kind = block.kind[op];
      row.flags = block.flags[op];
      row.signature = block.signature[op];
      row.value = block.value[op];
      row.dep = block.dep[op] == graph::kNoDep ? graph::kNoDep : first + block.dep[op];
      if (graph::HasStream(row.kind)) {
        row.stream = static_cast<uint16_t>(InternValue(streams_, block.stream[op]));
      }
      if (row.kind == OpKind::kCollective) {
        row.comm_slot = CommSlot(block.comm_slot[op]);
        row.signature =
            InternValue(expanded_.program.collectives, block.collectives[row.signature]);
      } else if (row.kind == OpKind::kPeerGroup) {
        row.signature = PeerGroup(block.peer_groups[row.signature]);
      } else if (IsEvent(row.kind)) {
        ResolveSlot(&row);
      }
      expanded_.program.Append(row);
    }
  }

  static bool IsEvent(OpKind kind) {
    return kind == OpKind::kEventRecord || kind == OpKind::kEventWait || kind == OpKind::kEventSync;
  }

  void ResolveSlot(graph::OpRow* row) {
    if (row->value == 0) {
      return;
    }
    uint32_t& record = slot_record_[static_cast<size_t>(row->value - 1)];
    if (row->kind == OpKind::kEventRecord) {
      record = expanded_.program.size();
    } else {
      row->dep = record;
    }
    row->value = 0;
  }

  uint16_t CommSlot(uint16_t axis) {
    return static_cast<uint16_t>(InternValue(expanded_.comm_slots, static_cast<GroupAxis>(axis)));
  }

  uint32_t PeerGroup(graph::PeerGroup group) {
    const int32_t stages = job_.job.parallel.pp;
    for (graph::PeerTransfer& transfer : group.transfers) {
      const int32_t step = transfer.peer_slot == graph::SlotOf(graph::PeerSlot::kNext) ? 1 : -1;
      transfer.comm_slot = CommSlot(transfer.comm_slot);
      transfer.peer_slot = static_cast<uint16_t>(
          InternValue(expanded_.peer_slots, (stage_ + step + stages) % stages));
    }
    return InternValue(expanded_.program.peer_groups, group);
  }

  const graph::JobProgram& job_;
  const graph::StageProgram& stage_program_;
  int32_t stage_;
  std::vector<uint32_t> slot_record_;  // by event slot: op of the latest record
  std::vector<uint16_t> streams_;      // of the stage, in order of first use
  ExpandedStage expanded_;
};

// Tables of all ranks. Communicators are numbered by the lowest rank that uses them, then by slot.
void FillRanks(const graph::JobProgram& job,
               const std::vector<ExpandedStage>& stages,
               TableMerger* strings,
               graph::Graph* graph) {
  const graph::JobGroups groups(job.job.parallel, job.style.shard_size);
  const auto world = static_cast<uint32_t>(job.job.parallel.world_size());
  std::map<std::pair<uint16_t, uint32_t>, uint32_t> comm_ids;  // by axis and lowest member
  graph::RankTable& table = graph->ranks;
  table.comm_begin = {0};
  table.peer_begin = {0};
  table.source.assign(world, graph::RankSource::kRole);
  for (uint32_t r = 0; r < world; ++r) {
    const Rank rank(r);
    const int32_t stage = groups.StageOf(rank);
    const ExpandedStage& expanded = stages[static_cast<size_t>(stage)];
    table.role.push_back(static_cast<uint32_t>(stage));
    for (const GroupAxis axis : expanded.comm_slots) {
      const auto [found, inserted] =
          comm_ids.try_emplace({graph::SlotOf(axis), groups.LowestMember(axis, rank).value()},
                               graph->communicators.size());
      if (inserted) {
        for (const Rank member : groups.Members(axis, rank)) {
          graph->communicators.members.push_back(member.value());
        }
        graph->communicators.begin.push_back(
            static_cast<uint32_t>(graph->communicators.members.size()));
        graph->communicators.name.push_back(strings->InternString(graph::GroupAxisName(axis)));
      }
      table.comm_ids.push_back(found->second);
    }
    table.comm_begin.push_back(static_cast<uint32_t>(table.comm_ids.size()));
    for (const int32_t peer_stage : expanded.peer_slots) {
      const int32_t peer =
          static_cast<int32_t>(r) + (peer_stage - stage) * groups.ranks_per_stage();
      table.peer_ids.push_back(static_cast<uint32_t>(peer));
    }
    table.peer_begin.push_back(static_cast<uint32_t>(table.peer_ids.size()));
  }
}

}  // namespace

Result<graph::Graph> Expand(const graph::JobProgram& job, const graph::ClusterSpec& cluster) {
  PRISM_RETURN_IF_ERROR(graph::CheckGroups(job.job.parallel, job.style.shard_size));
  if (job.stages.size() != static_cast<size_t>(job.job.parallel.pp)) {
    return InvalidArgument(
        fmt::format("{} stage programs for pp {}", job.stages.size(), job.job.parallel.pp));
  }
  graph::Graph graph;
  graph.job = job.job;
  graph.cluster = cluster;
  graph.assumptions = job.assumptions;
  TableMerger merger;
  std::vector<ExpandedStage> stages;
  for (int32_t stage = 0; stage < job.job.parallel.pp; ++stage) {
    stages.push_back(StageExpansion(job, stage).Run());
    graph::Fragment fragment;
    fragment.strings = job.strings;
    fragment.signatures = job.signatures;
    fragment.program = stages.back().program;
    graph::Role role;
    role.name = fmt::format("stage {}", stage);
    role.stage = stage;
    role.representative =
        Rank(static_cast<uint32_t>(stage * (job.job.parallel.world_size() / job.job.parallel.pp)));
    PRISM_ASSIGN_OR_RETURN(role.program, merger.Merge(fragment));
    graph.roles.push_back(std::move(role));
  }
  FillRanks(job, stages, &merger, &graph);
  merger.MoveInto(graph);
  return graph;
}

}  // namespace prism::slicer
