#include "slicer/stitch/adopt.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "slicer/stitch/stitch.h"

namespace prism::slicer {
namespace {

// The fragment as which its representative would have been recorded.
graph::Fragment FragmentOf(const graph::Graph& graph, const graph::Role& role) {
  graph::Fragment fragment;
  fragment.rank = role.representative;
  fragment.strings = graph.strings;
  fragment.signatures = graph.signatures;
  fragment.program = role.program;
  for (const uint32_t comm : graph.ranks.comms(role.representative)) {
    const auto members = graph.communicators.members_of(CommId(comm));
    graph::FragmentCommunicator slot;
    slot.group_number = comm + 1;  // ordinals follow its order
    slot.name = graph.strings[graph.communicators.name[comm]];
    for (const uint32_t member : members) {
      slot.members.emplace_back(member);
    }
    fragment.comm_slots.push_back(std::move(slot));
  }
  for (const uint32_t peer : graph.ranks.peers(role.representative)) {
    fragment.peer_slots.emplace_back(peer);
  }
  fragment.memory = role.memory;
  fragment.warmup_iterations = graph.job.facts.warmup_iterations;
  fragment.iteration_begin = graph.job.facts.iteration_begin;
  fragment.steps_per_iteration = graph.job.facts.steps_per_iteration;
  return fragment;
}

}  // namespace

Result<graph::Graph> AdoptFragment(const graph::Graph& graph, graph::Fragment fragment) {
  const Rank adopted = fragment.rank;
  const uint32_t role = graph.ranks.role[adopted.value()];
  fragment.early_calls.clear();  // those of the others are not kept
  StitchInput input;
  input.job = graph.job;
  input.cluster = graph.cluster;
  input.sandbox_ranks = graph.sandbox_ranks;
  input.plan.role_of = graph.ranks.role;
  for (uint32_t i = 0; i < graph.roles.size(); ++i) {
    const graph::Role& kept = graph.roles[i];
    input.plan.roles.push_back({kept.name, kept.stage, i == role ? adopted : kept.representative});
    input.fragments.push_back(i == role ? std::move(fragment) : FragmentOf(graph, kept));
  }
  PRISM_ASSIGN_OR_RETURN(graph::Graph made, Stitch(std::move(input)));
  made.ranks.source = graph.ranks.source;
  made.assumptions = graph.assumptions;
  made.assumptions.push_back(fmt::format(
      "{} of {} now do what rank {} did instead of the graph (--on-mismatch adopt)",
      std::ranges::count(graph.ranks.role, role), graph.roles[role].name, adopted.value()));
  made.warnings.insert(made.warnings.end(), graph.warnings.begin(), graph.warnings.end());
  std::ranges::stable_sort(made.warnings,
                           [](const auto& a, const auto& b) { return a.code < b.code; });
  return made;
}

}  // namespace prism::slicer
