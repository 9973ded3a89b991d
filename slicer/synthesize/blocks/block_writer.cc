#include "slicer/synthesize/blocks/block_writer.h"

#include <algorithm>
#include <limits>
#include <string>

#include "graph/base/check.h"
#include "graph/describe.h"
#include "graph/program/program_cuts.h"

namespace prism::slicer {
namespace {

using graph::CollectiveKind;
using graph::CollectiveShape;
using graph::OpKind;
using graph::ReduceOp;

constexpr uint16_t kCompute = graph::kStageComputeStream;

}  // namespace

graph::TensorShape Tensor(DataType dtype, std::vector<int64_t> dims) {
  return {dtype, std::move(dims)};
}

void BlockWriter::Kernel(std::string_view op,
                         std::string_view kernel,
                         Tensors inputs,
                         uint32_t blocks) {
  graph::KernelSignature signature;
  signature.name = StringId(tables_->InternString(kernel));
  signature.framework_op = StringId(tables_->InternString(op));
  signature.inputs = std::move(inputs);
  if (blocks > 0) {
    signature.grid = {blocks, 1, 1};
  }
  AppendKernel(std::move(signature));
}

void BlockWriter::KernelAgain(uint32_t op, uint32_t times) {
  graph::OpRow row;
  row.kind = OpKind::kKernel;
  row.stream = kCompute;
  row.signature = block_.program.signature[op];
  Append(row);
  row.flags = graph_ == Launch::kWithPrevious ? uint8_t{graph::kLaunchedWithPrevious} : uint8_t{0};
  block_.program.AppendTimes(times - 1, row);
}

void BlockWriter::Repeat(uint32_t first, int64_t times) {
  const graph::Program& program = block_.program;
  const uint32_t length = program.size() - first;
  for (int64_t left = times * length; left > 0; --left) {
    const uint32_t op = program.size() - length;
    graph::OpRow row = graph::RowOf(program, op);
    if (row.dep != graph::kNoDep) {
      PRISM_CHECK(row.dep >= first);
      row.dep += length;
    }
    block_.program.Append(row);
  }
}

// Halved until every part can be indexed.
void BlockWriter::Iterate(std::string_view op, std::string_view kernel, Tensors inputs) {
  constexpr int64_t kMaxBytes = std::numeric_limits<int32_t>::max();
  int64_t largest = 0;
  for (const graph::TensorShape& input : inputs) {
    largest = std::max(largest, input.Bytes());
  }
  const uint32_t first = size();
  Kernel(op, kernel, std::move(inputs));
  for (uint32_t parts = 1; largest > kMaxBytes * parts; parts *= 2) {
    KernelAgain(first, parts);
  }
}

void BlockWriter::Fused(std::string_view name, Tensors accesses) {
  Kernel("fused::" + std::string(name), name, std::move(accesses));
}

// cuBLAS stores matrices by column: it computes Dᵀ = op(B)ᵀ · op(A)ᵀ, so the columns of D become m
// and the right factor comes first. A row-major factor is already its transpose.
void BlockWriter::Matmul(std::string_view op,
                         std::string_view library,
                         const Product& product,
                         Tensors inputs) {
  graph::KernelSignature signature;
  signature.name = StringId(tables_->InternString(library));
  signature.framework_op = StringId(tables_->InternString(op));
  signature.inputs = std::move(inputs);
  signature.matmul = {product.columns,
                      product.rows,
                      product.depth,
                      product.batch,
                      product.input,
                      product.output,
                      product.transposed_right,
                      product.transposed_left};
  AppendKernel(std::move(signature));
}

void BlockWriter::Copy(int64_t bytes, uint8_t flags) {
  graph::OpRow row;
  row.kind = OpKind::kMemcpy;
  row.flags = flags;
  row.stream = kCompute;
  row.value = bytes;
  Append(row);
}

void BlockWriter::Memset(int64_t bytes) {
  graph::OpRow row;
  row.kind = OpKind::kMemset;
  row.stream = kCompute;
  row.value = bytes;
  Append(row);
}

void BlockWriter::StreamSync() {
  graph::OpRow row;
  row.kind = OpKind::kStreamSync;
  row.stream = kCompute;
  Append(row);
}

void BlockWriter::Collective(graph::GroupAxis axis, const CollectiveShape& shape) {
  AppendCollective(axis, kCompute, shape);
  AppendEvent(OpKind::kEventRecord, kCompute);
  AppendEvent(OpKind::kEventRecord, kCompute);
}

PendingCollective BlockWriter::Start(graph::GroupAxis axis, const CollectiveShape& shape) {
  const uint16_t stream = graph::StageStream(axis);
  const uint32_t before = AppendEvent(OpKind::kEventRecord, kCompute);
  AppendEvent(OpKind::kEventWait, stream, before);
  AppendCollective(axis, stream, shape);
  const PendingCollective pending = {AppendEvent(OpKind::kEventRecord, stream)};
  AppendEvent(OpKind::kEventRecord, stream);
  return pending;
}

void BlockWriter::Wait(PendingCollective pending) {
  if (pending.event != graph::kNoDep) {
    AppendEvent(OpKind::kEventWait, kCompute, pending.event);
  }
}

void BlockWriter::HostGap(DurationNs duration_ns) {
  if (duration_ns > 0) {
    graph::OpRow row;
    row.kind = OpKind::kHostGap;
    row.value = duration_ns;
    Append(row);
  }
}

void BlockWriter::Ready(uint32_t parameter) {
  block_.ready.push_back({.op = block_.program.size(), .parameter = parameter});
}

Block BlockWriter::Finish() {
  block_.program.stream_count = graph::kStageStreamCount;
  if (!block_.ready.empty()) {
    const std::vector<bool> places = graph::CutPlaces(block_.program);
    for (GradientReady& ready : block_.ready) {
      ready.may_cut = places[ready.op];
    }
  }
  return std::exchange(block_, {});
}

uint32_t BlockWriter::Append(graph::OpRow row) {
  if (graph_ == Launch::kWithPrevious) {
    row.flags |= graph::kLaunchedWithPrevious;
  } else if (graph_ == Launch::kFirst) {
    graph_ = Launch::kWithPrevious;
  }
  return block_.program.Append(row);
}

void BlockWriter::AppendKernel(graph::KernelSignature signature) {
  graph::OpRow row;
  row.kind = OpKind::kKernel;
  row.stream = kCompute;
  row.signature = tables_->InternSignature(std::move(signature));
  Append(row);
}

void BlockWriter::AppendCollective(graph::GroupAxis axis,
                                   uint16_t stream,
                                   const CollectiveShape& shape) {
  std::vector<CollectiveShape>& shapes = block_.program.collectives;
  const auto found = std::ranges::find(shapes, shape);
  graph::OpRow row;
  row.kind = OpKind::kCollective;
  row.stream = stream;
  row.comm_slot = graph::SlotOf(axis);
  row.signature = static_cast<uint32_t>(found - shapes.begin());
  if (found == shapes.end()) {
    shapes.push_back(shape);
  }
  Append(row);
}

uint32_t BlockWriter::AppendEvent(OpKind kind, uint16_t stream, uint32_t dep) {
  graph::OpRow row;
  row.kind = kind;
  row.stream = stream;
  row.dep = dep;
  return Append(row);
}

CollectiveShape AllReduceOf(DataType dtype, int64_t count) {
  return {CollectiveKind::kAllReduce, dtype, ReduceOp::kSum, -1, count * DataTypeBytes(dtype)};
}

CollectiveShape AllGatherOf(DataType dtype, int64_t gathered_count) {
  return {CollectiveKind::kAllGather, dtype, ReduceOp::kNone, -1,
          gathered_count * DataTypeBytes(dtype)};
}

CollectiveShape ReduceScatterOf(DataType dtype, int64_t whole_count) {
  return {CollectiveKind::kReduceScatter, dtype, ReduceOp::kSum, -1,
          whole_count * DataTypeBytes(dtype)};
}

CollectiveShape AllToAllOf(DataType dtype, int64_t sent_count) {
  return {CollectiveKind::kAllToAll, dtype, ReduceOp::kNone, -1, sent_count * DataTypeBytes(dtype)};
}

}  // namespace prism::slicer
