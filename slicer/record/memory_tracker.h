// Device memory of one sandbox process from its records → graph::MemoryProfile.
//
// Blocks come from the real caching allocator of the framework (address, rounded size), so what is
// allocated at any moment is a sum of observed values. The class of a block is inferred from when
// it was allocated and how long it lived; the rules are at ClassOf. They need the whole lifetime of
// a block, hence the tracker keeps one entry per block until Profile().
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/base/fnv.h"
#include "graph/base/status.h"
#include "graph/graph.h"
#include "shim/channel/messages.h"
#include "slicer/record/blas_workspaces.h"
#include "slicer/record/definitions.h"
#include "slicer/record/foreign_segments.h"

namespace prism::slicer {

enum class Phase : uint8_t;  // of an iteration

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
  static constexpr uint32_t kNever = 0xFFFFFFFFU;

  // The lifetime of one block; moments count both block events and markers.
  struct Block {
    int64_t bytes = 0;
    uint32_t born = 0;
    uint32_t died = kNever;
    uint32_t context = 0;  // kContext id at allocation
    uint32_t path = 0;     // index into paths_
    bool in_backward = false;
  };

  // The most that was allocated since some moment; `block` caused it, kNever: it was there already.
  struct Peak {
    int64_t bytes = 0;
    uint32_t moment = 0;
    uint32_t block = kNever;
  };

  Status PushBlockAlloc(const channel::Record& record, const Definitions& definitions);
  Status PushBlockFree(const channel::Record& record);
  Status PushMarker(const channel::MarkerBody& body, const Definitions& definitions);
  Status PushCommInit(const channel::CommInitBody& body, const Definitions& definitions);
  Status PushOutside(const channel::OutsideBody& body, const Definitions& definitions);
  void PushStats(const channel::AllocatorStatsBody& body);
  void PushSegment(int64_t bytes);
  void HashLayout(uint64_t kind, uint64_t address, int64_t bytes);
  void SeePass(bool in_backward);
  void BeginTraining();
  void BeginMarker(const std::string& name);
  void EndMarker(const std::string& name);
  uint32_t PathIndex();

  // Whether it is known which segments belong to the framework's allocator, and what it holds: it
  // reports them, or there is none.
  [[nodiscard]] bool AllocatorKnown() const {
    return has_stats_ || (!has_framework_ && blocks_.empty());
  }
  [[nodiscard]] bool IsPeak(const Peak& peak) const;
  [[nodiscard]] std::vector<graph::MemoryClass> OutsideClasses() const;
  [[nodiscard]] std::vector<graph::MemoryClass> ClassesAt(const Peak& peak) const;
  [[nodiscard]] Phase PhaseOf(const Block& block) const;
  [[nodiscard]] std::vector<bool> Workspaces() const;
  [[nodiscard]] std::string ClassOf(const Block& block, bool is_workspace) const;
  [[nodiscard]] std::string ClassInIteration(const Block& block) const;

  uint32_t moment_ = 0;
  std::vector<Block> blocks_;
  std::unordered_map<uint64_t, uint32_t> live_;  // address → index into blocks_
  BlasWorkspaces workspaces_;
  int64_t allocated_ = 0;
  Peak peak_;
  std::optional<Peak> training_peak_;  // since the first iteration or backward pass
  ForeignSegments foreign_;
  int64_t segments_ = 0;
  int64_t segments_peak_ = 0;
  bool has_stats_ = false;
  bool has_framework_ = false;       // one with ops seen; else the program allocates itself
  int64_t reserved_peak_ = 0;        // by the framework's own count
  int64_t sum_differs_ = 0;          // how often its count differed from ours
  std::string sum_differs_example_;  // the first of them
  int64_t orphans_ = 0;              // frees of blocks allocated before recording began

  std::vector<std::string> open_;  // markers, outermost first
  std::vector<std::vector<std::string>> paths_ = {{}};
  std::map<std::vector<std::string>, uint32_t> path_index_ = {{{}, 0}};
  uint32_t path_ = 0;
  std::vector<uint32_t> iteration_begins_;       // moments
  std::vector<int64_t> allocated_at_iteration_;  // bytes
  std::vector<uint32_t> iteration_ends_;         // moments
  bool in_backward_ = false;                     // the last block event was
  bool names_forward_ = false;                   // the program has ranges for its forward passes
  std::vector<uint32_t> forward_ends_;           // moments
  std::vector<uint32_t> recompute_ends_;         // moments

  // Bytes outside of the allocator, by holder and communicator (0: none): now, and when their sum
  // was highest.
  using OutsideBytes = std::map<std::pair<std::string, uint32_t>, int64_t>;
  OutsideBytes outside_;
  OutsideBytes outside_at_peak_;
  int64_t outside_sum_ = 0;
  int64_t outside_peak_ = 0;
  std::map<uint32_t, std::string> comm_names_;  // by comm id

  uint64_t first_address_ = 0;
  uint64_t layout_hash_ = kFnvSeed;
};

}  // namespace prism::slicer
