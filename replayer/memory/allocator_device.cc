#include "replayer/memory/allocator_device.h"

namespace prism::replayer {

std::optional<uint64_t> SimulatedDevice::Allocate(int64_t bytes) {
  const uint64_t address = next_address_;
  if (!Map(address, bytes)) {
    return std::nullopt;
  }
  next_address_ += static_cast<uint64_t>(bytes);
  return address;
}

void SimulatedDevice::Free(uint64_t address, int64_t bytes) {
  Unmap(address, bytes);
}

uint64_t SimulatedDevice::Reserve(int64_t bytes) {
  const uint64_t address = next_address_;
  next_address_ += static_cast<uint64_t>(bytes);
  return address;
}

bool SimulatedDevice::Map(uint64_t /*address*/, int64_t bytes) {
  if (bytes > free_bytes()) {
    return false;
  }
  used_bytes_ += bytes;
  return true;
}

void SimulatedDevice::Unmap(uint64_t /*address*/, int64_t bytes) {
  used_bytes_ -= bytes;
}

// An event is represented by the time at which it will have completed.
int64_t SimulatedDevice::RecordEvent(int64_t stream) {
  const auto end = stream_ends_ns_.find(stream);
  return end == stream_ends_ns_.end() ? now_ns_ : end->second;
}

}  // namespace prism::replayer
