// Device memory of one sandbox process from its records → graph::MemoryProfile.
//
// Blocks come from the real caching allocator of the framework (address, rounded size), so what is
// allocated at any moment is a sum of observed values. The class of a block is inferred from its
// lifetime (slicer/record/block_class.h), hence the tracker keeps one entry per block until
// Profile().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "shim/channel/messages.h"
#include "slicer/record/allocator_stats.h"
#include "slicer/record/blas_workspaces.h"
#include "slicer/record/block_class.h"
#include "slicer/record/definitions.h"
#include "slicer/record/foreign_segments.h"
#include "slicer/record/layout_hash.h"
#include "slicer/record/outside_memory.h"
#include "slicer/record/pass_history.h"

namespace prism::slicer {

// What is allocated at one moment.
struct HeldMemory {
  struct Block {
    int64_t bytes = 0;
    std::string op;     // framework op that allocated it
    std::string phase;  // marker path, e.g. "iteration/forward/layer 3"
  };

  std::vector<graph::MemoryClass> classes;  // in profile order
  std::vector<Block> largest;               // largest first, at most as many as requested
};

class MemoryTracker {
 public:
  // One record; kinds unrelated to memory and markers are ignored. Fails on a block that is
  // allocated over a live one. A block that is freed without having been allocated was allocated
  // before recording began; such blocks are counted.
  Status Push(const channel::Record& record, const Definitions& definitions);

  // An iteration ends, or begins, in a program that has no marker of its own for that.
  void EndIteration();
  void BeginIteration();

  [[nodiscard]] int64_t allocated() const { return allocated_; }

  // Bytes allocated at the beginning of the iteration (numbered from 0); 0 if there was none.
  [[nodiscard]] int64_t AllocatedAtIteration(int32_t iteration) const;

  // The profile over everything pushed so far. `steady_iteration`: the iteration whose beginning
  // gives steady_allocated.
  [[nodiscard]] graph::MemoryProfile Profile(const Definitions& definitions,
                                             int32_t steady_iteration) const;

  // What holds how much now. A block that a forward pass has allocated and still holds counts as an
  // activation, since it is not known yet whether backward will need it.
  [[nodiscard]] HeldMemory Held(const Definitions& definitions, size_t largest) const;

  // Inconsistencies, e.g. between the allocator's own count and the sum of blocks.
  [[nodiscard]] std::vector<graph::Warning> Warnings() const;

 private:
  struct Block {
    int64_t bytes = 0;
    uint32_t context = 0;  // kContext id at allocation
    BlockLifetime lifetime;
  };

  // The most that was allocated since some moment; `block` caused it, empty: it was there already.
  struct Peak {
    int64_t bytes = 0;
    uint32_t moment = 0;
    std::optional<uint32_t> block;
  };

  Status PushBlockAlloc(const channel::Record& record, const Definitions& definitions);
  void PushBlockFree(const channel::Record& record);
  Status PushMarker(const channel::MarkerBody& body, const Definitions& definitions);
  void PushSegment(LayoutHash::Event event, const channel::SegmentBody& body);
  void SeePass(bool in_backward);
  void BeginTraining();

  // Whether it is known which segments belong to the framework's allocator, and what it holds: it
  // reports them, or there is none.
  [[nodiscard]] bool AllocatorKnown() const {
    return stats_.seen() || (!has_framework_ && blocks_.empty());
  }
  [[nodiscard]] bool IsPeak(const Peak& peak) const;
  [[nodiscard]] std::vector<graph::MemoryClass> OutsideClasses() const;
  [[nodiscard]] std::vector<graph::MemoryClass> ClassesAt(const Peak& peak) const;
  [[nodiscard]] std::vector<bool> Workspaces() const;
  [[nodiscard]] HeldMemory::Block Describe(const Block& block,
                                           const Definitions& definitions) const;

  std::vector<Block> blocks_;
  std::unordered_map<uint64_t, uint32_t> live_;  // address → index into blocks_
  int64_t allocated_ = 0;
  Peak peak_;
  std::optional<Peak> training_peak_;            // since the first iteration or backward pass
  std::vector<int64_t> allocated_at_iteration_;  // bytes
  int64_t orphans_ = 0;                          // frees of blocks allocated before recording began
  int64_t segments_ = 0;
  int64_t segments_peak_ = 0;
  bool has_framework_ = false;  // one with ops seen; else the program allocates itself
  PassHistory history_;
  BlasWorkspaces workspaces_;
  ForeignSegments foreign_;
  OutsideMemory outside_;
  AllocatorStats stats_;
  LayoutHash layout_;
};

}  // namespace prism::slicer
