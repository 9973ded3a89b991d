#include "slicer/synthesize/job_assembly.h"

#include <utility>

#include <fmt/format.h>

namespace prism::slicer {
namespace {

void AppendNumber(int64_t number, std::string* text) {
  text->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// The content of a program as bytes.
std::string KeyOf(const graph::Program& program) {
  std::string key;
  key.reserve(program.size() * 7 * sizeof(int64_t));
  for (uint32_t op = 0; op < program.size(); ++op) {
    AppendNumber(static_cast<int64_t>(program.kind[op]), &key);
    AppendNumber(program.flags[op], &key);
    AppendNumber(program.stream[op], &key);
    AppendNumber(program.comm_slot[op], &key);
    AppendNumber(program.signature[op], &key);
    AppendNumber(program.dep[op], &key);
    AppendNumber(program.value[op], &key);
  }
  for (const graph::CollectiveShape& shape : program.collectives) {
    AppendNumber(static_cast<int64_t>(shape.kind), &key);
    AppendNumber(static_cast<int64_t>(shape.dtype), &key);
    AppendNumber(static_cast<int64_t>(shape.reduce), &key);
    AppendNumber(shape.root, &key);
    AppendNumber(shape.bytes, &key);
  }
  for (const graph::PeerGroup& group : program.peer_groups) {
    for (const graph::PeerTransfer& transfer : group.transfers) {
      AppendNumber(transfer.is_send ? 1 : 0, &key);
      AppendNumber(transfer.comm_slot, &key);
      AppendNumber(transfer.peer_slot, &key);
      AppendNumber(transfer.bytes, &key);
    }
    AppendNumber(-1, &key);
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
