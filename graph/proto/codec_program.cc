// Ops ↔ chunks.
#include <algorithm>

#include "graph/base/check.h"
#include "graph/proto/codec.h"
#include "graph/proto/convert.h"

namespace prism::graph {
namespace {

bool ColumnsAgree(const Program& program) {
  const size_t size = program.kind.size();
  return program.flags.size() == size && program.stream.size() == size &&
         program.comm_slot.size() == size && program.signature.size() == size &&
         program.dep.size() == size && program.value.size() == size;
}

bool ColumnsAgree(const proto::Ops& ops) {
  const auto size = static_cast<int>(ops.kind().size());
  return static_cast<int>(ops.flags().size()) == size && ops.stream_size() == size &&
         ops.comm_slot_size() == size && ops.signature_size() == size &&
         ops.dep_distance_size() == size && ops.value_size() == size;
}

// Size of the table that `signature` indexes for ops of this kind; unbounded for other kinds.
uint64_t SignatureLimit(OpKind kind, const TableSizes& sizes, const Program& program) {
  switch (kind) {
    case OpKind::kKernel:
      return sizes.signatures;
    case OpKind::kCollective:
      return program.collectives.size();
    case OpKind::kPeerGroup:
      return program.peer_groups.size();
    case OpKind::kMarker:
      return sizes.strings;
    default:
      return uint64_t{1} << 32U;
  }
}

Status AppendOp(const proto::Ops& ops, int at, const TableSizes& sizes, Program* program) {
  const uint32_t index = program->size();
  OpKind kind = OpKind::kKernel;
  PRISM_RETURN_IF_ERROR(ReadEnum(static_cast<unsigned char>(ops.kind()[static_cast<size_t>(at)]),
                                 static_cast<OpKind>(kOpKindCount - 1), &kind));
  const uint32_t stream = ops.stream(at);
  PRISM_RETURN_IF_ERROR(CheckIndex(stream, program->stream_count, "stream"));
  // Slot + 1 in the file, 0 for none: kNoSlot again when decremented as 16 bits.
  const uint32_t slot = ops.comm_slot(at);
  if (slot != 0 || kind == OpKind::kCollective) {
    PRISM_RETURN_IF_ERROR(
        CheckIndex(uint64_t{slot} - 1, program->comm_slot_count, "communicator slot"));
  }
  const uint32_t signature = ops.signature(at);
  PRISM_RETURN_IF_ERROR(CheckIndex(signature, SignatureLimit(kind, sizes, *program), "signature"));
  const uint32_t distance = ops.dep_distance(at);
  if (distance > index) {
    return BadFile(fmt::format("depends on an op {} before it", distance));
  }
  program->Append({.kind = kind,
                   .flags = static_cast<uint8_t>(ops.flags()[static_cast<size_t>(at)]),
                   .stream = static_cast<uint16_t>(stream),
                   .comm_slot = static_cast<uint16_t>(slot - 1),
                   .signature = signature,
                   .dep = distance == 0 ? kNoDep : index - distance,
                   .value = ops.value(at)});
  return OkStatus();
}

}  // namespace

Run EncodeOps(const Program& program, size_t begin) {
  PRISM_CHECK(ColumnsAgree(program));
  const size_t end = std::min<size_t>(program.size(), begin + kMaxOpsPerChunk);
  const auto count = static_cast<int>(end - begin);
  proto::Ops ops;
  ops.mutable_kind()->reserve(end - begin);
  ops.mutable_flags()->reserve(end - begin);
  ops.mutable_stream()->Reserve(count);
  ops.mutable_comm_slot()->Reserve(count);
  ops.mutable_signature()->Reserve(count);
  ops.mutable_dep_distance()->Reserve(count);
  ops.mutable_value()->Reserve(count);
  for (size_t op = begin; op < end; ++op) {
    const uint32_t dep = program.dep[op];
    PRISM_CHECK(dep == kNoDep || dep < op);
    ops.mutable_kind()->push_back(static_cast<char>(program.kind[op]));
    ops.mutable_flags()->push_back(static_cast<char>(program.flags[op]));
    ops.add_stream(program.stream[op]);
    ops.add_comm_slot(program.comm_slot[op] == kNoSlot ? 0U : program.comm_slot[op] + 1U);
    ops.add_signature(program.signature[op]);
    ops.add_dep_distance(dep == kNoDep ? 0U : static_cast<uint32_t>(op - dep));
    ops.add_value(program.value[op]);
  }
  return {.payload = ops.SerializeAsString(), .end = end};
}

Status DecodeOps(std::string_view payload, const TableSizes& sizes, Program* program) {
  proto::Ops ops;
  PRISM_RETURN_IF_ERROR(Parse(payload, &ops));
  if (!ColumnsAgree(ops)) {
    return BadFile("columns differ in length");
  }
  const auto count = static_cast<int>(ops.kind().size());
  if (count == 0 || ops.kind().size() > kMaxOpsPerChunk) {
    return BadFile(fmt::format("holds {} ops, 1 to {} are allowed", count, kMaxOpsPerChunk));
  }
  for (int at = 0; at < count; ++at) {
    const Status status = AppendOp(ops, at, sizes, program);
    if (!status.ok()) {
      return status.WithContext(fmt::format("op {}", program->size()));
    }
  }
  return OkStatus();
}

}  // namespace prism::graph
