#include "launch/trainer/peer_exchange.h"

namespace prism::launch {

PeerExchange::PeerExchange(const WorkloadConfig& config, const Group& group)
    : group_(group),
      shape_({config.sequence() / (config.sequence_parallel() ? config.job.parallel.tp : 1),
              config.job.micro_batch_size, config.job.model.hidden}),
      options_(
          at::TensorOptions(config.device == DeviceKind::kCpu ? at::Device(at::kCPU)
                                                              : at::Device(at::kCUDA, 0))
              .dtype(config.job.compute_dtype == DataType::kFloat32 ? at::kFloat : at::kBFloat16)) {
}

at::Tensor PeerExchange::NewActivation() const {
  return at::empty(shape_, options_);
}

Received PeerExchange::Run(const Exchange& exchange) const {
  Received received;
  const bool sends = exchange.to_previous.defined() || exchange.to_next.defined();
  if (!sends && !exchange.from_previous && !exchange.from_next) {
    return received;
  }
  const int32_t previous = (group_.index() + group_.size() - 1) % group_.size();
  const int32_t next = (group_.index() + 1) % group_.size();
  const auto send = [this](const at::Tensor& tensor, int32_t peer) {
    std::vector<at::Tensor> tensors = {tensor.contiguous()};
    group_.backend->send(tensors, peer, 0);
  };
  const auto receive = [this](at::Tensor* tensor, int32_t peer) {
    *tensor = NewActivation();
    std::vector<at::Tensor> tensors = {*tensor};
    group_.backend->recv(tensors, peer, 0);
  };
  // Forward direction first: with two stages both neighbours are the same rank, and transfers
  // between a pair match in order.
  group_.backend->startCoalescing();
  if (exchange.to_next.defined()) {
    send(exchange.to_next, next);
  }
  if (exchange.from_previous) {
    receive(&received.from_previous, previous);
  }
  if (exchange.to_previous.defined()) {
    send(exchange.to_previous, previous);
  }
  if (exchange.from_next) {
    receive(&received.from_next, next);
  }
  Wait(group_.backend->endCoalescing());
  return received;
}

}  // namespace prism::launch
