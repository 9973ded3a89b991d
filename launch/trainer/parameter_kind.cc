#include "launch/trainer/parameter_kind.h"

namespace prism::launch {

double NormWeight(const ParameterKind& kind, bool sharded, const ParallelGroups& groups) {
  if (kind.tied && groups.embedding.size() > 1 && groups.embedding.index() != 0) {
    return 0.0;
  }
  const int32_t over_ep = kind.expert || sharded ? 1 : groups.ep.size();
  return 1.0 / (over_ep * (kind.split ? 1 : groups.tp.size()));
}

}  // namespace prism::launch
