#include "replayer/gains.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "replayer/engine/replay_options.h"
#include "replayer/engine/replay_result.h"
#include "replayer/replay.h"

namespace prism::replayer {
namespace {

using graph::OpKind;

const std::string& NameOf(const graph::Graph& graph, uint32_t communicator) {
  return graph.string(StringId(graph.communicators.name[communicator]));
}

// By slot: whether the communicators that ranks of the role hold there have that name. Ranks of a
// role use their slots alike, so the first one decides.
std::vector<bool> SlotsNamed(const graph::Graph& graph, uint32_t role, const std::string& name) {
  std::vector<bool> named;
  const auto& roles = graph.ranks.role;
  const auto first = std::ranges::find(roles, role);
  if (first != roles.end()) {
    for (uint32_t comm : graph.ranks.comms(Rank(static_cast<uint32_t>(first - roles.begin())))) {
      named.push_back(NameOf(graph, comm) == name);
    }
  }
  return named;
}

bool IsOn(const graph::Program& program, uint32_t op, const std::vector<bool>& slots) {
  if (program.kind[op] == OpKind::kCollective) {
    return slots[program.comm_slot[op]];
  }
  if (program.kind[op] != OpKind::kPeerGroup) {
    return false;
  }
  const auto& transfers = program.peer_groups[program.signature[op]].transfers;
  return !transfers.empty() && slots[transfers.front().comm_slot];
}

Result<DurationNs> SteadyIteration(const graph::Graph& graph, const ReplayOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const ReplayResult result, Replay(graph, options));
  return result.steady_iteration_ns();
}

// The iteration with all perturbations, and without each.
Status AddPerturbations(const graph::Graph& graph,
                        const ReplayOptions& options,
                        GainReport* report) {
  PRISM_ASSIGN_OR_RETURN(report->iteration_ns, SteadyIteration(graph, options));
  for (size_t i = 0; i < options.perturbations.size(); ++i) {
    ReplayOptions fewer = options;
    fewer.perturbations.erase(fewer.perturbations.begin() + static_cast<std::ptrdiff_t>(i));
    PRISM_ASSIGN_OR_RETURN(const DurationNs without, SteadyIteration(graph, fewer));
    report->gains.push_back({fmt::format("perturbation {}", i + 1), without});
  }
  return OkStatus();
}

// The graph with collectives, sends and receives over communicators of that name taking no time.
graph::Graph WithFreeCommunicators(graph::Graph graph, const std::string& name) {
  for (uint32_t r = 0; r < graph.roles.size(); ++r) {
    const std::vector<bool> slots = SlotsNamed(graph, r, name);
    graph::Program& program = graph.roles[r].program;
    for (uint32_t op = 0; op < program.size() && !slots.empty(); ++op) {
      if (IsOn(program, op, slots)) {
        program.flags[op] |= graph::kDurationFixed;
        program.value.Set(op, 0);
      }
    }
  }
  return graph;
}

// The graph with a host that issues in no time. The program's own sleeps are dropped as well.
graph::Graph WithFreeHost(graph::Graph graph) {
  for (const graph::Parameter& parameter : graph.cluster.parameters.all()) {
    if (parameter.key.starts_with("host.") && parameter.key.ends_with("_ns")) {
      graph.cluster.parameters.SetValue(parameter.key, 0);
    }
  }
  for (graph::Role& role : graph.roles) {
    for (uint32_t op = 0; op < role.program.size(); ++op) {
      if (role.program.kind[op] == OpKind::kHostGap) {
        role.program.value.Set(op, 0);
      }
    }
  }
  return graph;
}

}  // namespace

Result<GainReport> FindGains(const graph::Graph& graph, const ReplayOptions& given) {
  ReplayOptions options = given;
  options.breakdown = false;
  options.traced.clear();
  GainReport report;
  std::vector<Gain>& gains = report.gains;
  const auto add = [&](std::string what, const graph::Graph& without,
                       const ReplayOptions& changed) -> Status {
    PRISM_ASSIGN_OR_RETURN(const DurationNs iteration_ns, SteadyIteration(without, changed));
    gains.push_back({std::move(what), iteration_ns});
    return OkStatus();
  };
  ReplayOptions free_compute = options;
  free_compute.compute_scale = 0;
  PRISM_RETURN_IF_ERROR(add("compute", graph, free_compute));
  ReplayOptions free_comm = options;
  free_comm.comm_scale = 0;
  PRISM_RETURN_IF_ERROR(add("communication", graph, free_comm));
  PRISM_RETURN_IF_ERROR(add("host", WithFreeHost(graph), options));
  std::set<std::string> names;
  for (uint32_t comm = 0; comm < graph.communicators.size(); ++comm) {
    names.insert(NameOf(graph, comm));
  }
  for (const std::string& name : names) {
    PRISM_RETURN_IF_ERROR(
        add("communication: " + name, WithFreeCommunicators(graph, name), options));
  }
  PRISM_RETURN_IF_ERROR(AddPerturbations(graph, options, &report));
  std::ranges::stable_sort(gains, {}, &Gain::iteration_ns);
  return report;
}

}  // namespace prism::replayer
