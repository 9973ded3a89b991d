// Stands in for gloo's header of this name, which the torch wheel does not ship.
#pragma once

namespace gloo::transport {

class Device {
 public:
  virtual ~Device() = default;
};

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = default;
};

}  // namespace gloo::transport
