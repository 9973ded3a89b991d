#include "slicer/synthesize/job_assembly.h"

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

const std::vector<uint32_t>& JobAssembly::PiecesOf(uint32_t block, const Block& content) {
  std::vector<uint32_t>& pieces = pieces_[block];
  if (!pieces.empty()) {
    return pieces;
  }
  uint32_t begin = 0;
  for (const GradientReady& ready : content.ready) {
    if (ready.may_cut && ready.op > begin) {
      pieces.push_back(SliceOf(content, begin, ready.op));
      begin = ready.op;
    }
  }
  if (begin == 0) {
    pieces.push_back(block);
  } else if (begin < content.program.size()) {
    pieces.push_back(SliceOf(content, begin, content.program.size()));
  }
  return pieces;
}

uint32_t JobAssembly::SliceOf(const Block& content, uint32_t begin, uint32_t end) {
  OpList ops;
  ops.Copy(content.program, begin, end);
  return AddBlock(ops.Program());
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
