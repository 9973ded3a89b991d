// Process groups for ranks that are threads of one process, on host memory: the exchange code that
// the NCCL replacement uses between sandbox processes, as a libtorch Backend.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "launch/trainer/parallel_groups.h"
#include "shim/nccl/exchange.h"

namespace prism::launch {

// Finished when created: calls of the backend block.
class FinishedWork : public c10d::Work {
 public:
  bool isCompleted() override { return true; }

  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }
};

class ExchangeBackend : public c10d::Backend {
 public:
  ExchangeBackend(const GroupSpec& spec, shim::Exchange* exchange)
      : Backend(spec.index, spec.size),
        identity_(std::hash<std::string>()(spec.name + "/" + std::to_string(spec.start)) | 1U),
        exchange_(exchange),
        present_(static_cast<size_t>(spec.size)) {
    std::iota(present_.begin(), present_.end(), 0);
  }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    shim::ExchangeCall call = NextCall(tensors[0].numel());
    call.reduction.kind =
        options.reduceOp == c10d::ReduceOp::MAX ? shim::ReduceKind::kMax : shim::ReduceKind::kSum;
    return Finish(exchange_->Collective(shim::ExchangeOperation::kAllReduce, call, Data(tensors[0]),
                                        Data(tensors[0])));
  }

  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output,
                                                 at::Tensor& input,
                                                 const c10d::AllgatherOptions&) override {
    return Finish(exchange_->Collective(shim::ExchangeOperation::kAllGather,
                                        NextCall(input.numel()), Data(input), Data(output)));
  }

  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor& output,
                                                      at::Tensor& input,
                                                      const c10d::ReduceScatterOptions&) override {
    return Finish(exchange_->Collective(shim::ExchangeOperation::kReduceScatter,
                                        NextCall(output.numel()), Data(input), Data(output)));
  }

  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output,
                                               at::Tensor& input,
                                               std::vector<int64_t>&,
                                               std::vector<int64_t>&,
                                               const c10d::AllToAllOptions&) override {
    return Finish(exchange_->Collective(shim::ExchangeOperation::kAllToAll,
                                        NextCall(input.numel() / size_), Data(input),
                                        Data(output)));
  }

  void startCoalescing() override { transfers_.clear(); }

  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int peer, int) override {
    transfers_.push_back({NextCall(tensors[0].numel()), Data(tensors[0]), nullptr});
    transfers_.back().call.root = peer;
    return nullptr;
  }

  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int peer, int) override {
    transfers_.push_back({NextCall(tensors[0].numel()), nullptr, Data(tensors[0])});
    transfers_.back().call.root = peer;
    return nullptr;
  }

  c10::intrusive_ptr<c10d::Work> endCoalescing() override {
    return Finish(exchange_->Transfers(transfers_));
  }

 private:
  static void* Data(const at::Tensor& tensor) {
    TORCH_CHECK(tensor.is_contiguous() && tensor.scalar_type() == at::kFloat);
    return tensor.mutable_data_ptr();
  }

  shim::ExchangeCall NextCall(int64_t count) {
    shim::ExchangeCall call;
    call.group = {identity_, size_, rank_, present_};
    call.sequence = sequence_++;
    call.count = static_cast<size_t>(count);
    call.element = shim::Element::kFloat32;
    return call;
  }

  static c10::intrusive_ptr<c10d::Work> Finish(const shim::ExchangeStatus& status) {
    TORCH_CHECK(status.ok(), status.message);
    return c10::make_intrusive<FinishedWork>();
  }

  uint64_t identity_;
  shim::Exchange* exchange_;
  std::vector<int32_t> present_;
  uint64_t sequence_ = 0;
  std::vector<shim::ExchangeTransfer> transfers_;
};

}  // namespace prism::launch
