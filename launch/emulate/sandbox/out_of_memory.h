// Watches a sandbox process's records for the moment when its device is full, so that the failure
// of the program can name rank, op and bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "shim/channel/messages.h"
#include "slicer/record/memory_tracker.h"

namespace prism::launch {

class OutOfMemoryWatch {
 public:
  explicit OutOfMemoryWatch(Rank rank) : rank_(rank) {}

  void See(const channel::Record& record, std::span<const std::byte> payload);

  // How many of the program's last lines an error has room for: with `held` it has three lines of
  // its own.
  [[nodiscard]] size_t TailLines(const slicer::HeldMemory& held = {}) const;

  // `failure` with a first line about memory, if the device was full when the program ended, then
  // one line about the classes and one about the largest blocks that `held` names.
  [[nodiscard]] Status Explain(const Status& failure, const slicer::HeldMemory& held = {}) const;

 private:
  Rank rank_;
  std::map<uint32_t, std::string> framework_ops_;  // by kContext id
  bool full_ = false;
  uint32_t context_ = 0;
  int64_t requested_bytes_ = 0;
  int64_t used_bytes_ = 0;
};

}  // namespace prism::launch
