// Device memory that libraries hold outside the framework's allocator (a context, NCCL's buffers),
// as the virtual device accounts for it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "shim/channel/messages.h"
#include "slicer/record/definitions.h"

namespace prism::slicer {

class OutsideMemory {
 public:
  // A communicator, for the name of its process group.
  Status Push(const channel::CommInitBody& body, const Definitions& definitions);

  // Bytes taken or, if negative, given back.
  Status Push(const channel::OutsideBody& body, const Definitions& definitions);

  // What was held when the sum was highest: what a library holds for a communicator is one line per
  // process group, whatever its parts.
  [[nodiscard]] std::vector<graph::MemoryClass> AtPeak() const;

 private:
  using Holder = std::pair<std::string, uint32_t>;  // its name and communicator (0: none)

  std::map<Holder, int64_t> bytes_;
  std::map<Holder, int64_t> at_peak_;
  int64_t sum_ = 0;
  int64_t peak_ = 0;
  std::map<uint32_t, std::string> group_names_;  // by communicator
};

}  // namespace prism::slicer
