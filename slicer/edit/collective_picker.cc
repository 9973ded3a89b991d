#include "slicer/edit/collective_picker.h"

#include <set>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace prism::slicer {

using graph::OpKind;

Result<CollectivePicker> CollectivePicker::Create(const graph::Graph& graph,
                                                  const CollectiveChoice& choice) {
  CollectivePicker picker;
  picker.kind_ = choice.kind;
  picker.slots_.resize(graph.roles.size());
  std::set<std::string> names;
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    std::vector<bool>& slots = picker.slots_[graph.ranks.role[rank]];
    if (!slots.empty()) {
      continue;  // a slot has one name for the whole role
    }
    for (const uint32_t comm : graph.ranks.comms(Rank(rank))) {
      const std::string& name = graph.string(StringId(graph.communicators.name[comm]));
      names.insert(name);
      slots.push_back(name == choice.communicator);
    }
  }
  if (!names.contains(choice.communicator)) {
    const std::string known = names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
    return InvalidArgument(
        choice.communicator.empty()
            ? fmt::format("of is missing: the communicator whose collectives are meant; the job "
                          "has {}",
                          known)
            : fmt::format("no communicator is called '{}'; the job has {}", choice.communicator,
                          known));
  }
  for (uint32_t role = 0; role < graph.roles.size(); ++role) {
    const graph::Program& program = graph.roles[role].program;
    for (uint32_t op = 0; op < program.size(); ++op) {
      if (picker.Picks(role, program, op)) {
        return picker;
      }
    }
  }
  return InvalidArgument(
      choice.kind ? fmt::format("communicator '{}' has no collective of kind {}",
                                choice.communicator, graph::CollectiveKindName(*choice.kind))
                  : fmt::format("communicator '{}' has no collectives, only sends and receives, "
                                "or nothing at all: there is nothing to change",
                                choice.communicator));
}

bool CollectivePicker::Picks(uint32_t role, const graph::Program& program, uint32_t op) const {
  if (program.kind[op] != OpKind::kCollective) {
    return false;
  }
  const uint16_t slot = program.comm_slot[op];
  return slot < slots_[role].size() && slots_[role][slot] &&
         (!kind_ || program.collectives[program.signature[op]].kind == *kind_);
}

}  // namespace prism::slicer
