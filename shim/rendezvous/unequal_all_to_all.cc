#include "shim/rendezvous/unequal_all_to_all.h"

#include <numeric>

#include "shim/rendezvous/gloo_calls.h"
#include "shim/rendezvous/host_buffer.h"

namespace prism::shim {
namespace {

constexpr uint64_t kChannel = uint64_t{2} << 32U;  // 0 collectives, 1 << 32 + tag transfers

// The bytes of each rank's part.
std::vector<size_t> PartBytes(const SplitTensor& split, int size) {
  const int64_t rows = split.tensor.size(0);
  std::vector<int64_t> counts = split.counts;
  if (counts.empty()) {
    TORCH_CHECK(rows % size == 0, "tensor's dim 0 does not divide equally across group size");
    counts.assign(static_cast<size_t>(size), rows / size);
  }
  TORCH_CHECK(counts.size() == static_cast<size_t>(size),
              "number of tensor splits not equal to group size");
  TORCH_CHECK(std::accumulate(counts.begin(), counts.end(), int64_t{0}) == rows,
              "split sizes do not match total dim 0 size");
  const size_t row_bytes = rows == 0 ? 0 : split.tensor.nbytes() / static_cast<size_t>(rows);
  std::vector<size_t> bytes;
  for (const int64_t count : counts) {
    bytes.push_back(static_cast<size_t>(count) * row_bytes);
  }
  return bytes;
}

void AppendTransfer(ExchangeOperation operation,
                    std::byte* at,
                    size_t bytes,
                    size_t peer,
                    std::vector<CpuCall>* calls) {
  CpuCall call = Moved(operation, bytes, static_cast<int64_t>(peer));
  call.channel = kChannel;
  if (operation == ExchangeOperation::kSend) {
    call.send = at;
  } else {
    call.recv = at;
  }
  if (bytes > 0) {
    calls->push_back(call);
  }
}

void AppendTransfers(const HostBuffer& buffer,
                     const std::vector<size_t>& parts,
                     ExchangeOperation operation,
                     std::vector<CpuCall>* calls) {
  auto* at = static_cast<std::byte*>(buffer.data());
  for (size_t peer = 0; peer < parts.size(); ++peer) {
    AppendTransfer(operation, at, parts[peer], peer, calls);
    at += parts[peer];
  }
}

void AppendTransfers(const std::vector<HostBuffer>& buffers,
                     ExchangeOperation operation,
                     std::vector<CpuCall>* calls) {
  for (size_t peer = 0; peer < buffers.size(); ++peer) {
    AppendTransfer(operation, static_cast<std::byte*>(buffers[peer].data()), buffers[peer].bytes(),
                   peer, calls);
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Work> StartUnequalAllToAll(CpuGroup& group,
                                                    const SplitTensor& output,
                                                    const SplitTensor& input) {
  const std::vector<size_t> output_parts = PartBytes(output, group.size());
  const std::vector<size_t> input_parts = PartBytes(input, group.size());
  const HostBuffer target(output.tensor);
  const HostBuffer source(input.tensor);
  return StartCollective(group, c10d::OpType::ALLTOALL_BASE, {output.tensor},
                         [=](const Collective& collective) {
                           std::vector<CpuCall> calls;
                           AppendTransfers(source, input_parts, ExchangeOperation::kSend, &calls);
                           AppendTransfers(target, output_parts, ExchangeOperation::kRecv, &calls);
                           collective.group.Run(calls);
                           target.Publish();
                         });
}

c10::intrusive_ptr<c10d::Work> StartListedAllToAll(CpuGroup& group,
                                                   const std::vector<at::Tensor>& outputs,
                                                   const std::vector<at::Tensor>& inputs) {
  const std::vector<HostBuffer> targets(outputs.begin(), outputs.end());
  const std::vector<HostBuffer> sources(inputs.begin(), inputs.end());
  return StartCollective(group, c10d::OpType::ALLTOALL, outputs, [=](const Collective& collective) {
    std::vector<CpuCall> calls;
    AppendTransfers(sources, ExchangeOperation::kSend, &calls);
    AppendTransfers(targets, ExchangeOperation::kRecv, &calls);
    collective.group.Run(calls);
    for (const HostBuffer& target : targets) {
      target.Publish();
    }
  });
}

}  // namespace prism::shim
