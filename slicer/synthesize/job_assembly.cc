#include "slicer/synthesize/job_assembly.h"

#include <utility>

#include <fmt/format.h>

namespace prism::slicer {
namespace {

// The content of a program.
std::vector<int64_t> KeyOf(const graph::Program& program) {
  std::vector<int64_t> key;
  key.reserve(3 * program.size() + 5 * program.collectives.size());
  for (uint32_t op = 0; op < program.size(); ++op) {
    key.push_back(int64_t{static_cast<uint8_t>(program.kind[op])} << 40 |
                  int64_t{program.flags[op]} << 32 | int64_t{program.stream[op]} << 16 |
                  int64_t{program.comm_slot[op]});
    key.push_back(int64_t{program.signature[op]} << 32 | int64_t{program.dep[op]});
    key.push_back(program.value[op]);
  }
  for (const graph::CollectiveShape& shape : program.collectives) {
    key.insert(key.end(), {static_cast<int64_t>(shape.kind), static_cast<int64_t>(shape.dtype),
                           static_cast<int64_t>(shape.reduce), shape.root, shape.bytes});
  }
  for (const graph::PeerGroup& group : program.peer_groups) {
    for (const graph::PeerTransfer& transfer : group.transfers) {
      key.insert(key.end(), {transfer.is_send ? 1 : 0, transfer.comm_slot, transfer.peer_slot,
                             transfer.bytes});
    }
    key.push_back(-1);
  }
  return key;
}

}  // namespace

uint32_t JobAssembly::AddBlock(graph::Program program) {
  blocks_.push_back(std::move(program));
  return static_cast<uint32_t>(blocks_.size() - 1);
}

uint32_t JobAssembly::BlockOf(const OpList& ops) {
  const auto [found, inserted] =
      block_ids_.try_emplace(KeyOf(ops.program()), static_cast<uint32_t>(blocks_.size()));
  if (inserted) {
    blocks_.push_back(ops.program());
  }
  return found->second;
}

uint32_t JobAssembly::SliceOf(uint32_t block, uint32_t begin, uint32_t end) {
  if (begin == 0 && end == blocks_[block].size()) {
    return block;
  }
  const auto [found, inserted] = slices_.try_emplace({block, begin, end}, 0);
  if (inserted) {
    OpList ops;
    ops.Copy(blocks_[block], begin, end);
    found->second = AddBlock(ops.program());
  }
  return found->second;
}

uint32_t JobAssembly::BlockFor(const std::string& key,
                               const std::function<graph::Program()>& make) {
  const auto [found, inserted] = made_.try_emplace(key, 0);
  if (inserted) {
    found->second = AddBlock(make());
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
  if (ops.program().size() > 0) {
    Call(assembly_->BlockOf(ops));
  }
}

void StageWriter::Marker(std::string_view name, bool begins) {
  if (!marks_) {
    return;
  }
  Emit(fmt::format("{} {}", begins ? "begin" : "end", name), [&] {
    OpList ops;
    ops.Marker(assembly_->tables().InternString(name), begins);
    return ops.program();
  });
}

}  // namespace prism::slicer
