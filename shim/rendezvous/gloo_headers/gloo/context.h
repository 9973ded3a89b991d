// Stands in for gloo's header of this name, which the torch wheel does not ship: only what the
// declaration of c10d::ProcessGroupGloo needs. That class holds contexts only by shared_ptr, so its
// layout is the same; CpuGroup derives from this class.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  virtual ~Context() = default;

  void setTimeout(std::chrono::milliseconds /*timeout*/) {}
};

}  // namespace gloo
