// Random decisions for tests.
#pragma once

#include "graph/base/rng.h"

namespace prism::testing {

// True with the given probability.
inline bool Chance(Rng* rng, double probability) {
  return rng->UniformReal() < probability;
}

}  // namespace prism::testing
