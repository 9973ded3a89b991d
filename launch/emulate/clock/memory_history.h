// What the caching allocator of one sandbox process did, as a snapshot that the PyTorch memory
// viewer opens (replayer/memory/snapshot.h).
//
// Sizes are those of blocks: the shim does not see smaller requests inside. The framework op that
// allocated takes the place of a stack. Events are numbered, not timed: the viewer needs their
// order, and their host times are known only at waits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "replayer/memory/snapshot.h"
#include "shim/channel/messages.h"
#include "slicer/record/definitions.h"

namespace prism::launch {

class MemoryHistory {
 public:
  // Takes any record, in order; kinds that do not concern the allocator are ignored.
  Status See(const channel::Record& record, const slicer::Definitions& definitions);

  // The encoded history, with the blocks held now.
  [[nodiscard]] std::string Encode() const;

 private:
  Status Add(replayer::AllocatorAction action,
             const channel::Record& record,
             const slicer::Definitions& definitions);

  std::map<uint64_t, int64_t> segments_;  // bytes by address
  std::map<uint64_t, int64_t> blocks_;
  std::vector<replayer::SnapshotEvent> events_;
  std::map<uint32_t, std::string> frames_;  // by kContext id
};

}  // namespace prism::launch
