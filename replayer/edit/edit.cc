#include "replayer/edit/edit.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace prism::replayer {
namespace {

using graph::OpKind;

bool HasDuration(OpKind kind) {
  return kind == OpKind::kKernel || kind == OpKind::kMemcpy || kind == OpKind::kMemset;
}

}  // namespace

Status CheckProgramEdits(const graph::Graph& graph, const Edit& edit) {
  for (const ProgramEdit& program : edit.programs) {
    if (program.role >= graph.roles.size()) {
      return InvalidArgument(
          fmt::format("edit of role {}: the job has {}", program.role, graph.roles.size()));
    }
    const graph::Role& role = graph.roles[program.role];
    for (Rank rank : program.ranks) {
      if (rank.value() >= graph.ranks.size() || graph.ranks.role[rank.value()] != program.role) {
        return InvalidArgument(
            fmt::format("edit of rank {}: not a rank of role '{}'", rank.value(), role.name));
      }
    }
    for (const OpDuration& op : program.durations) {
      if (op.op >= role.program.size() || !HasDuration(role.program.kind[op.op])) {
        return InvalidArgument(fmt::format(
            "edit of op {} of role '{}': not a kernel, copy or memset of it", op.op, role.name));
      }
      if (op.duration_ns < 0) {
        return InvalidArgument(
            fmt::format("edit of op {}: a duration of {} ns", op.op, op.duration_ns));
      }
    }
  }
  return OkStatus();
}

Result<EditedJob> ApplyEdit(const graph::Graph& graph,
                            const ReplayOptions& options,
                            const Edit& edit) {
  PRISM_RETURN_IF_ERROR(CheckProgramEdits(graph, edit));
  EditedJob job = {graph, edit.options.value_or(options)};
  if (edit.cluster) {
    job.graph.cluster = *edit.cluster;
  }
  // By rank: the edits that concern it.
  std::vector<std::vector<uint32_t>> edits_of(graph.ranks.size());
  for (uint32_t e = 0; e < edit.programs.size(); ++e) {
    const ProgramEdit& program = edit.programs[e];
    for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
      if (graph.ranks.role[rank] == program.role &&
          (program.ranks.empty() || std::ranges::binary_search(program.ranks, Rank(rank)))) {
        edits_of[rank].push_back(e);
      }
    }
  }
  std::map<std::pair<uint32_t, std::vector<uint32_t>>, uint32_t> roles;
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    if (edits_of[rank].empty()) {
      continue;
    }
    const uint32_t role = graph.ranks.role[rank];
    auto [made, is_new] =
        roles.try_emplace({role, edits_of[rank]}, static_cast<uint32_t>(job.graph.roles.size()));
    if (is_new) {
      job.graph.roles.push_back(job.graph.roles[role]);
      graph::Program& program = job.graph.roles.back().program;
      for (uint32_t e : edits_of[rank]) {
        for (const OpDuration& op : edit.programs[e].durations) {
          program.flags[op.op] |= graph::kDurationFixed;
          program.value.Set(op.op, op.duration_ns);
        }
      }
    }
    job.graph.ranks.role[rank] = made->second;
  }
  return job;
}

}  // namespace prism::replayer
