#include "replayer/delta/edit.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "replayer/cost/compute_cost.h"

namespace prism::replayer {
namespace {

using graph::OpKind;

bool HasDuration(OpKind kind) {
  return kind == OpKind::kKernel || kind == OpKind::kMemcpy || kind == OpKind::kMemset;
}

// A replacement program may only name kernels that the graph has.
Status CheckRoleProgram(const graph::Graph& graph, const Edit& edit) {
  if (!edit.role_program) {
    return OkStatus();
  }
  const graph::Program& program = edit.role_program->program;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == OpKind::kKernel && program.signature[op] >= graph.signatures.size()) {
      return InvalidArgument(fmt::format("the program given for role '{}': op {} has no signature",
                                         edit.role_program->name, op));
    }
  }
  return OkStatus();
}

// Whether both issue the same ops, regardless of durations.
bool SameOps(const graph::Program& a, const graph::Program& b) {
  return a.kind == b.kind && a.flags == b.flags && a.stream == b.stream &&
         a.comm_slot == b.comm_slot && a.dep == b.dep && a.collectives == b.collectives &&
         a.peer_groups == b.peer_groups && a.stream_count == b.stream_count;
}

}  // namespace

std::optional<std::vector<ProgramEdit>> AsDurations(const graph::Graph& graph,
                                                    const graph::Graph& other,
                                                    const graph::ClusterSpec& cluster) {
  if (graph.roles.size() != other.roles.size() || !(graph.ranks == other.ranks)) {
    return std::nullopt;
  }
  const ComputeCost cost(cluster);
  std::vector<ProgramEdit> edits;
  for (uint32_t role = 0; role < graph.roles.size(); ++role) {
    const graph::Program& before = graph.roles[role].program;
    const graph::Program& after = other.roles[role].program;
    if (!SameOps(before, after)) {
      return std::nullopt;
    }
    ProgramEdit edit = {.role = role, .ranks = {}, .durations = {}};
    for (uint32_t op = 0; op < before.size(); ++op) {
      const bool kernel = before.kind[op] == OpKind::kKernel;
      const bool fixed = (after.flags[op] & graph::kDurationFixed) != 0;
      if (before.value[op] != after.value[op] ||
          (!kernel && before.signature[op] != after.signature[op])) {
        return std::nullopt;
      }
      if (kernel && !fixed && before.signature[op] != after.signature[op]) {
        edit.durations.push_back(
            {op, cost.Kernel(other, other.signatures[after.signature[op]]).duration_ns});
      }
    }
    if (!edit.durations.empty()) {
      edits.push_back(std::move(edit));
    }
  }
  return edits;
}

Status CheckProgramEdits(const graph::Graph& graph, const Edit& edit) {
  PRISM_RETURN_IF_ERROR(CheckRoleProgram(graph, edit));
  for (const ProgramEdit& program : edit.programs) {
    if (program.role >= graph.roles.size()) {
      return InvalidArgument(
          fmt::format("edit of role {}: the job has {}", program.role, graph.roles.size()));
    }
    const graph::Role& role = graph.roles[program.role];
    if (edit.ReplacesProgram(role)) {
      return InvalidArgument(
          fmt::format("role '{}' is given another program and other durations", role.name));
    }
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
  if (edit.role_program) {
    for (graph::Role& role : job.graph.roles) {
      role = edit.ReplacesProgram(role) ? *edit.role_program : role;
    }
  }
  // By rank: the edits that concern it.
  std::vector<std::vector<uint32_t>> edits_of(graph.ranks.size());
  for (uint32_t e = 0; e < edit.programs.size(); ++e) {
    const ProgramEdit& program = edit.programs[e];
    for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
      if (graph.ranks.role[rank] == program.role &&
          (program.ranks.empty() ||
           std::binary_search(program.ranks.begin(), program.ranks.end(), Rank(rank)))) {
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
