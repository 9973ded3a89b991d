// What the caching allocator needs from the driver: memory, address space and events. Addresses are
// numbers; nothing is really mapped.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace prism::replayer {

// Time enters only through HasFinished: the allocator itself has no clock.
class AllocatorDevice {
 public:
  virtual ~AllocatorDevice() = default;

  [[nodiscard]] virtual int64_t total_bytes() const = 0;

  // Bytes still available to a request, as cudaMemGetInfo reports them.
  [[nodiscard]] virtual int64_t free_bytes() const = 0;

  // cudaMalloc; nullopt if it does not fit.
  virtual std::optional<uint64_t> Allocate(int64_t bytes) = 0;
  virtual void Free(uint64_t address, int64_t bytes) = 0;

  // Expandable segments: address space of `bytes`, then pages in it. Map returns false, and maps
  // nothing, if they do not fit.
  virtual uint64_t Reserve(int64_t bytes) = 0;
  virtual bool Map(uint64_t address, int64_t bytes) = 0;
  virtual void Unmap(uint64_t address, int64_t bytes) = 0;

  // Records an event after all work issued to the stream; HasFinished: has the device passed it?
  virtual int64_t RecordEvent(int64_t stream) = 0;
  [[nodiscard]] virtual bool HasFinished(int64_t event) const = 0;
};

// A device with a capacity whose addresses grow from kBase and are not reused, and whose streams
// finish when its user says so.
class SimulatedDevice final : public AllocatorDevice {
 public:
  static constexpr uint64_t kBase = 0x7F0000000000;

  explicit SimulatedDevice(int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  void set_capacity_bytes(int64_t bytes) { capacity_bytes_ = bytes; }

  // The current time, and the time at which the work issued to a stream so far will have ended, in
  // nanoseconds of virtual time. Neither may decrease.
  void SetNow(int64_t now_ns) { now_ns_ = now_ns; }

  void SetStreamEnd(int64_t stream, int64_t end_ns) { stream_ends_ns_[stream] = end_ns; }

  [[nodiscard]] int64_t total_bytes() const override { return capacity_bytes_; }

  [[nodiscard]] int64_t free_bytes() const override { return capacity_bytes_ - used_bytes_; }

  std::optional<uint64_t> Allocate(int64_t bytes) override;
  void Free(uint64_t address, int64_t bytes) override;
  uint64_t Reserve(int64_t bytes) override;
  bool Map(uint64_t address, int64_t bytes) override;
  void Unmap(uint64_t address, int64_t bytes) override;
  int64_t RecordEvent(int64_t stream) override;

  [[nodiscard]] bool HasFinished(int64_t event) const override { return event <= now_ns_; }

 private:
  int64_t capacity_bytes_;
  int64_t used_bytes_ = 0;
  uint64_t next_address_ = kBase;
  int64_t now_ns_ = 0;
  std::map<int64_t, int64_t> stream_ends_ns_;
};

}  // namespace prism::replayer
