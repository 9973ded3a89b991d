// A JobProgram while it is built: the joint tables, and blocks that several stages call, or several
// jobs whose programs are one.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/base/content_hash.h"
#include "graph/job_program.h"
#include "slicer/synthesize/block.h"
#include "slicer/synthesize/op_list.h"

namespace prism::slicer {

// What a block is that is known by its key.
enum class BlockKind : uint8_t {
  kBatch,
  kLossScale,
  kLossReport,
  kZeroGradients,
  kReduction,
  kOptimizer,
  kMarker,
};

// All that decides the content of a block of one kind.
using BlockKey = std::vector<int64_t>;

class JobAssembly {
 public:
  BlockTables& tables() { return tables_; }

  // Appends a block; returns its index.
  uint32_t AddBlock(graph::Program program);

  // The block with just these ops, appended if new.
  uint32_t BlockOf(const OpList& ops);

  // Ops begin to end of a block as a block, appended if new. It may be cut at both.
  uint32_t SliceOf(uint32_t block, uint32_t begin, uint32_t end);

  // The block that was made for that key before, else the one that `make` makes now.
  template <typename Make>
  uint32_t BlockFor(BlockKind kind, BlockKey key, Make make) {
    key.push_back(static_cast<int64_t>(kind));
    const auto [found, inserted] = made_.try_emplace(std::move(key), 0);
    if (inserted) {
      found->second = AddBlock(make());
    }
    return found->second;
  }

  // Lends strings, signatures and blocks to a program; nothing may be added until they are back.
  void MoveInto(graph::JobProgram* program);
  void MoveFrom(graph::JobProgram* program);

 private:
  BlockTables tables_;
  std::vector<graph::Program> blocks_;
  std::unordered_map<std::vector<int64_t>, uint32_t, NumbersHash> block_ids_;  // never walked
  std::unordered_map<BlockKey, uint32_t, NumbersHash> made_;                   // never walked
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> slices_;
};

// The calls of stages of one kind while they are written.
class StageWriter {
 public:
  // `assembly` outlives the writer. `marks` off: markers are left out.
  StageWriter(JobAssembly* assembly, bool marks) : assembly_(assembly), marks_(marks) {}

  void Call(uint32_t block) { calls_.push_back(block); }
  void Call(const std::vector<uint32_t>& blocks) {
    calls_.insert(calls_.end(), blocks.begin(), blocks.end());
  }
  void Emit(const OpList& ops);
  template <typename Make>
  void Emit(BlockKind kind, BlockKey key, Make make) {
    Call(assembly_->BlockFor(kind, std::move(key), make));
  }
  void Marker(std::string_view name, bool begins);
  uint32_t NewEventSlot() { return event_slot_count_++; }
  // The first of `count` that follow each other.
  uint32_t NewEventSlots(size_t count) {
    return std::exchange(event_slot_count_, static_cast<uint16_t>(event_slot_count_ + count));
  }
  [[nodiscard]] uint16_t event_slot_count() const { return event_slot_count_; }

  [[nodiscard]] bool marks() const { return marks_; }

  JobAssembly& assembly() { return *assembly_; }

  // What was called since the last time.
  [[nodiscard]] std::vector<uint32_t> TakeCalls() { return std::exchange(calls_, {}); }

 private:
  JobAssembly* assembly_;
  bool marks_;
  std::vector<uint32_t> calls_;
  uint16_t event_slot_count_ = 0;
};

}  // namespace prism::slicer
