#include "slicer/synthesize/job_assembly.h"

#include <utility>

namespace prism::slicer {
uint32_t JobAssembly::AddBlock(graph::Program program) {
  blocks_.push_back(std::move(program));
  return static_cast<uint32_t>(blocks_.size() - 1);
}

uint32_t JobAssembly::BlockOf(const OpList& ops) {
  const auto [found, inserted] =
      block_ids_.try_emplace(ops.Content(), static_cast<uint32_t>(blocks_.size()));
  if (inserted) {
    blocks_.push_back(ops.Program());
  }
  return found->second;
}

uint32_t JobAssembly::WaitFor(uint32_t slot) {
  if (slot >= waits_.size()) {
    waits_.resize(size_t{slot} + 1, kNoBlock);
  }
  if (waits_[slot] == kNoBlock) {
    OpList ops;
    ops.WaitSlot(graph::kStageComputeStream, slot);
    waits_[slot] = BlockOf(ops);
  }
  return waits_[slot];
}

uint32_t JobAssembly::SliceOf(uint32_t block, uint32_t begin, uint32_t end) {
  if (begin == 0 && end == blocks_[block].size()) {
    return block;
  }
  const auto [found, inserted] = slices_.try_emplace({block, begin, end}, 0);
  if (inserted) {
    OpList ops;
    ops.Copy(blocks_[block], begin, end);
    found->second = AddBlock(ops.Program());
  }
  return found->second;
}

void JobAssembly::MoveInto(graph::JobProgram* program) {
  tables_.MoveInto(program);
  program->blocks = std::move(blocks_);
}

void JobAssembly::MoveFrom(graph::JobProgram* program) {
  tables_.MoveFrom(program);
  blocks_ = std::move(program->blocks);
}

void StageWriter::Emit(const OpList& ops) {
  if (!ops.empty()) {
    Call(assembly_->BlockOf(ops));
  }
}

void StageWriter::Marker(std::string_view name, bool begins) {
  if (!marks_) {
    return;
  }
  const uint32_t id = assembly_->tables().InternString(name);
  Emit(BlockKind::kMarker, {id, begins ? 1 : 0}, [&] {
    OpList ops;
    ops.Marker(id, begins);
    return ops.Program();
  });
}

}  // namespace prism::slicer
