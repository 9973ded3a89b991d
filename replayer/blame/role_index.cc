#include "replayer/blame/role_index.h"

#include <algorithm>

#include "replayer/cost/compute_cost.h"

namespace prism::replayer {
namespace {

RolePlan PlanOf(const graph::Graph& graph, uint32_t role) {
  const ComputeCost compute(graph.cluster);
  return MakeRolePlan(graph.roles[role].program, OpCostsOf(graph, graph.cluster, &compute), 1);
}

}  // namespace

RoleIndex::RoleIndex(const graph::Graph& graph, uint32_t role) : plan(PlanOf(graph, role)) {
  step_of.assign(plan.size(), kNone);
  call_ops.resize(plan.calls_per_slot.size());
  post_ops.resize(plan.endpoints.size());
  for (const std::vector<Step>& steps : plan.streams) {
    for (uint32_t s = 0; s < steps.size(); ++s) {
      step_of[steps[s].op] = s;
      if (steps[s].kind == StepKind::kCollective) {
        for (uint32_t c = steps[s].aux; c != kNone; c = plan.calls[c].next_in_group) {
          step_of[plan.calls[c].op] = s;
        }
      }
    }
  }
  for (const CollectiveCall& call : plan.calls) {
    call_ops[call.comm_slot].push_back(call.op);
  }
  for (uint32_t op = 0; op < plan.size(); ++op) {
    if (plan.program->kind[op] == graph::OpKind::kPeerGroup) {
      const PeerPosts posts = plan.groups[StepOf(op).aux];
      for (uint32_t p = posts.begin; p < posts.end; ++p) {
        post_ops[plan.posts[p].endpoint].push_back(op);
      }
    }
  }
  for (const HostWait& wait : plan.host_waits) {
    host_waits[wait.op] = wait;
  }
}

const Step* RoleIndex::LastBefore(uint16_t stream, uint32_t op) const {
  const std::vector<Step>& steps = plan.streams[stream];
  const auto after = std::partition_point(steps.begin(), steps.end(),
                                          [&](const Step& step) { return step.op < op; });
  return after == steps.begin() ? nullptr : &*std::prev(after);
}

std::vector<std::string> LayersOf(const graph::Graph& graph, const graph::Program& program) {
  std::vector<std::string> layers(program.size());
  std::vector<std::string> open = {""};
  for (uint32_t op = 0; op < program.size(); ++op) {
    const bool marker = program.kind[op] == graph::OpKind::kMarker;
    if (marker && graph.string(StringId(program.signature[op])).starts_with("layer")) {
      if ((program.flags[op] & graph::kMarkerBegin) != 0) {
        open.push_back(graph.string(StringId(program.signature[op])));
      } else if (open.size() > 1) {
        open.pop_back();
      }
    }
    layers[op] = open.back();
  }
  return layers;
}

}  // namespace prism::replayer
