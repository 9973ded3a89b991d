// A JobProgram under construction: the shared tables, and blocks called by several stages.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/base/content_hash.h"
#include "graph/program/job_program.h"
#include "slicer/synthesize/block.h"
#include "slicer/synthesize/op_list.h"

namespace prism::slicer {

// What a block identified by its key is.
enum class BlockKind : uint8_t {
  kBatch,
  kLossScale,
  kLossReport,
  kZeroGradients,
  kReduction,
  kOptimizer,
  kMarker,
};

// Everything that decides the content of a block of one kind.
using BlockKey = std::vector<int64_t>;

class JobAssembly {
 public:
  BlockTables& tables() { return tables_; }

  // Appends a block; returns its index.
  uint32_t AddBlock(graph::Program program);

  // The block with exactly these ops, appended if new.
  uint32_t BlockOf(const OpList& ops);

  // The block in which the compute stream waits for a slot, appended if new.
  uint32_t WaitFor(uint32_t slot);

  // A block with this content in separate blocks, in order, cut wherever gradients are ready and
  // that is possible; appended if new.
  const std::vector<uint32_t>& PiecesOf(uint32_t block, const Block& content);

  // The block made for that key before, otherwise the one that `make` makes now.
  template <typename Make>
  uint32_t BlockFor(BlockKind kind, BlockKey key, Make make) {
    key.push_back(static_cast<int64_t>(kind));
    const auto [found, inserted] = made_.try_emplace(std::move(key), 0);
    if (inserted) {
      found->second = AddBlock(make());
    }
    return found->second;
  }

  // Lends strings, signatures and blocks to a program; nothing may be added until they are
  // returned.
  void MoveInto(graph::JobProgram* program);
  void MoveFrom(graph::JobProgram* program);

 private:
  static constexpr uint32_t kNoBlock = 0xFFFFFFFFU;

  // Ops [begin, end) of a block as a separate block. It must be possible to cut it at both.
  uint32_t SliceOf(const Block& content, uint32_t begin, uint32_t end);

  BlockTables tables_;
  std::vector<graph::Program> blocks_;
  std::unordered_map<std::vector<int64_t>, uint32_t, NumbersHash> block_ids_;  // never iterated
  std::unordered_map<BlockKey, uint32_t, NumbersHash> made_;                   // never iterated
  std::unordered_map<uint32_t, std::vector<uint32_t>> pieces_;  // by block; never iterated
  std::vector<uint32_t> waits_;                                 // by slot: blocks, or kNoBlock
};

// Slots for events of stages that outlive their block (graph/program/job_program.h), by their
// purpose: the same slot whenever the purpose recurs.
class EventSlots {
 public:
  enum class Use : uint8_t { kReduction, kGather, kCopiedOut };

  // Identifies the event within its use, as numbers.
  using Whose = std::array<int64_t, 2>;

  // The first of `count` consecutive slots.
  uint32_t Of(Use use, const Whose& whose, size_t count) {
    const auto [found, inserted] = first_.try_emplace({use, whose}, count_);
    count_ = static_cast<uint16_t>(count_ + (inserted ? count : 0));
    return found->second;
  }

  [[nodiscard]] uint16_t count() const { return count_; }

 private:
  std::map<std::pair<Use, Whose>, uint32_t> first_;
  uint16_t count_ = 0;
};

// The calls of stages of one kind, under construction.
class StageWriter {
 public:
  // Both outlive the writer. `marks` off: markers are left out.
  StageWriter(JobAssembly* assembly, EventSlots* slots, bool marks)
      : assembly_(assembly), slots_(slots), marks_(marks) {}

  void Call(uint32_t block) { calls_.push_back(block); }
  void Call(const std::vector<uint32_t>& blocks) {
    calls_.insert(calls_.end(), blocks.begin(), blocks.end());
  }
  void Emit(const OpList& ops);
  void Wait(uint32_t slot) { Call(assembly_->WaitFor(slot)); }
  template <typename Make>
  void Emit(BlockKind kind, BlockKey key, Make make) {
    Call(assembly_->BlockFor(kind, std::move(key), make));
  }
  void Marker(std::string_view name, bool begins);
  EventSlots& slots() { return *slots_; }
  [[nodiscard]] bool marks() const { return marks_; }

  JobAssembly& assembly() { return *assembly_; }

  [[nodiscard]] uint32_t call_count() const { return static_cast<uint32_t>(calls_.size()); }

  // What was called since the last TakeCalls().
  [[nodiscard]] std::vector<uint32_t> TakeCalls() { return std::exchange(calls_, {}); }

 private:
  JobAssembly* assembly_;
  EventSlots* slots_;
  bool marks_;
  std::vector<uint32_t> calls_;
};

}  // namespace prism::slicer
