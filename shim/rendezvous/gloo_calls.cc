#include "shim/rendezvous/gloo_calls.h"

#include <optional>
#include <sstream>
#include <utility>

#include <c10/util/Exception.h>

namespace prism::shim {
namespace {

constexpr uint64_t kCollectiveQueue = 0;

thread_local int64_t next_timeout_ms = 0;  // of the next collective; 0: its group's

std::optional<Element> KnownElement(at::ScalarType type) {
  switch (type) {
    case at::kChar:
      return Element::kInt8;
    case at::kByte:
    case at::kBool:
      return Element::kUint8;
    case at::kInt:
      return Element::kInt32;
    case at::kLong:
      return Element::kInt64;
    case at::kHalf:
      return Element::kFloat16;
    case at::kBFloat16:
      return Element::kBfloat16;
    case at::kFloat:
      return Element::kFloat32;
    case at::kDouble:
      return Element::kFloat64;
    default:
      return std::nullopt;
  }
}

Element ElementOf(at::ScalarType type) {
  const std::optional<Element> element = KnownElement(type);
  TORCH_CHECK(element, "Invalid scalar type ", type, " for a reduction with Gloo");
  return *element;
}

ReduceKind KindOf(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return ReduceKind::kSum;
    case c10d::ReduceOp::PRODUCT:
      return ReduceKind::kProd;
    case c10d::ReduceOp::MIN:
      return ReduceKind::kMin;
    case c10d::ReduceOp::MAX:
      return ReduceKind::kMax;
    case c10d::ReduceOp::BAND:
      return ReduceKind::kBitAnd;
    case c10d::ReduceOp::BOR:
      return ReduceKind::kBitOr;
    case c10d::ReduceOp::BXOR:
      return ReduceKind::kBitXor;
    case c10d::ReduceOp::AVG:
      TORCH_CHECK(false, "Cannot use ReduceOp.AVG with Gloo");
    default:
      TORCH_CHECK(false, "Cannot use this ReduceOp with Gloo");
  }
}

ExchangeOperation OperationOf(c10d::OpType type) {
  using c10d::OpType;
  switch (type) {
    case OpType::BARRIER:
      return ExchangeOperation::kBarrier;
    case OpType::BROADCAST:
      return ExchangeOperation::kBroadcast;
    case OpType::REDUCE:
      return ExchangeOperation::kReduce;
    case OpType::GATHER:
      return ExchangeOperation::kGather;
    case OpType::SCATTER:
      return ExchangeOperation::kScatter;
    case OpType::ALLTOALL:
    case OpType::ALLTOALL_BASE:
      return ExchangeOperation::kAllToAll;
    case OpType::ALLGATHER:
    case OpType::_ALLGATHER_BASE:
    case OpType::ALLGATHER_COALESCED:
      return ExchangeOperation::kAllGather;
    case OpType::REDUCE_SCATTER:
    case OpType::_REDUCE_SCATTER_BASE:
      return ExchangeOperation::kReduceScatter;
    default:
      return ExchangeOperation::kAllReduce;
  }
}

// Of what a collective fills: the larger of its buffers, but where results are scattered.
size_t BytesOf(ExchangeOperation operation, const std::vector<at::Tensor>& outputs, int size) {
  size_t bytes = 0;
  for (const at::Tensor& output : outputs) {
    bytes += output.is_sparse() ? 0 : output.nbytes();
  }
  const bool is_scattered =
      operation == ExchangeOperation::kReduceScatter || operation == ExchangeOperation::kScatter;
  return is_scattered ? bytes * static_cast<size_t>(size) : bytes;
}

// What members have to agree about.
std::string AgreedSize(ExchangeOperation operation,
                       const std::vector<at::Tensor>& outputs,
                       int size) {
  const bool is_by_member = operation == ExchangeOperation::kBarrier ||
                            operation == ExchangeOperation::kGather ||
                            operation == ExchangeOperation::kAllToAll;
  const bool is_known = !is_by_member && !outputs.empty() && !outputs.front().is_sparse();
  return is_known ? SizeText(static_cast<int64_t>(BytesOf(operation, outputs, size)),
                             outputs.front().scalar_type())
                  : SizeText(-1, at::kByte);
}

}  // namespace

std::string SizeText(int64_t bytes, at::ScalarType type) {
  const std::optional<Element> element = bytes < 0 ? std::nullopt : KnownElement(type);
  std::ostringstream text;
  text << bytes << ":" << (element ? ElementName(*element) : "");
  return text.str();
}

CpuCall Moved(ExchangeOperation operation, size_t bytes, int64_t root) {
  CpuCall call = {};
  call.operation = static_cast<uint8_t>(operation);
  call.element = static_cast<uint8_t>(Element::kUint8);
  call.root = static_cast<int32_t>(root);
  call.count = bytes;
  return call;
}

CpuCall Reduced(ExchangeOperation operation,
                const at::Tensor& tensor,
                const c10d::ReduceOp& op,
                int64_t root) {
  CpuCall call = Moved(operation, static_cast<size_t>(tensor.numel()), root);
  call.element = static_cast<uint8_t>(ElementOf(tensor.scalar_type()));
  call.reduce = static_cast<uint8_t>(KindOf(op));
  return call;
}

void CheckOne(const char* method, const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, "ProcessGroupGloo::", method,
              ": requires a single-element tensor list");
}

void Collective::Run(CpuCall call, const void* send, void* recv) const {
  call.sequence = sequence;
  call.send = send;
  call.recv = recv;
  group.Run({call});
}

void SetNextTimeout(std::chrono::milliseconds timeout) {
  next_timeout_ms = timeout.count();
}

c10::intrusive_ptr<c10d::Work> StartCollective(CpuGroup& group,
                                               c10d::OpType type,
                                               std::vector<at::Tensor> outputs,
                                               CollectiveBody body,
                                               int64_t root) {
  CpuWork::Description description;
  description.rank = group.rank();
  description.type = type;
  description.sequence = group.NextSequence();
  description.outputs = std::move(outputs);
  const ExchangeOperation operation = OperationOf(type);
  std::ostringstream call;
  call << ExchangeOperationName(operation) << ":" << root << ":"
       << std::exchange(next_timeout_ms, 0) << ":"
       << AgreedSize(operation, description.outputs, group.size());
  description.tell_wait = group.Tell("", call.str());
  const Collective collective = {group, description.sequence};
  group.Spend(operation, BytesOf(operation, description.outputs, group.size()));
  auto work = c10::make_intrusive<CpuWork>(
      std::move(description), [collective, body = std::move(body)] { body(collective); });
  group.Submit(kCollectiveQueue, work);
  return work;
}

}  // namespace prism::shim
