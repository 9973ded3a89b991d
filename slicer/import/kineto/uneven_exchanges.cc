#include "slicer/import/kineto/uneven_exchanges.h"

#include <algorithm>
#include <map>
#include <utility>

#include "graph/program/collective_kinds.h"

namespace prism::slicer {
namespace {

using graph::CollectiveKind;
using graph::OpKind;

// The n-th collective on an axis.
using Place = std::pair<AxisKey, uint32_t>;

// Calls `visit(op, place)` for the collectives of a program.
template <typename Visit>
void VisitExchanges(StepProgram& step, const Visit& visit) {
  std::vector<uint32_t> sequence(step.groups.size());
  const graph::Program& program = step.program;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == OpKind::kCollective) {
      const uint16_t slot = program.comm_slot[op];
      const Place place = {step.groups[slot].Key(), sequence[slot]++};
      if (program.collectives[program.signature[op]].kind == CollectiveKind::kAllToAll) {
        visit(op, place);
      }
    }
  }
}

void Resize(uint32_t op, int64_t bytes, graph::Program* program) {
  graph::CollectiveShape shape = program->collectives[program->signature[op]];
  shape.bytes = bytes;
  program->signature[op] = graph::IndexOfShape(shape, &program->collectives);
}

}  // namespace

int64_t EvenOutExchanges(std::vector<StepProgram>* programs) {
  std::map<Place, int64_t> largest;
  for (StepProgram& step : *programs) {
    VisitExchanges(step, [&](uint32_t op, const Place& place) {
      int64_t& bytes = largest[place];
      bytes = std::max(bytes, step.program.collectives[step.program.signature[op]].bytes);
    });
  }
  int64_t changed = 0;
  for (StepProgram& step : *programs) {
    VisitExchanges(step, [&](uint32_t op, const Place& place) {
      if (step.program.collectives[step.program.signature[op]].bytes < largest.at(place)) {
        Resize(op, largest.at(place), &step.program);
        ++changed;
      }
    });
  }
  return changed;
}

}  // namespace prism::slicer
