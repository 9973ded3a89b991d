// Stands in for gloo's header of this name, which the torch wheel does not ship: as much as the
// declaration of c10d::ProcessGroupGloo needs. That class holds contexts by shared_ptr only, so its
// layout is the same; what derives from this one here is CpuGroup.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  virtual ~Context() = default;

  void setTimeout(std::chrono::milliseconds /*timeout*/) {}
};

}  // namespace gloo
