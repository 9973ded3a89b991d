// What the caching allocator of one sandbox process did, as a snapshot that the PyTorch memory
// viewer opens (replayer/memory/snapshot.h).
//
// Sizes are those of blocks: the shim is told of no smaller request inside. The framework op that
// asked stands in the place of a stack. Events are numbered instead of timed: the viewer needs
// their order, and when on the host each happened is known at waits only.
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
  // Any record, in order; kinds that have nothing to do with the allocator are passed over.
  Status See(const channel::Record& record, const slicer::Definitions& definitions);

  // The history with what is held now, encoded.
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
