#include "launch/trainer/trainer.h"

#include <algorithm>
#include <iterator>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

namespace prism::launch {

Trainer::Trainer(const WorkloadConfig& config, const ParallelGroups& groups)
    : config_(config),
      groups_(groups),
      peers_(config, groups.pp),
      batch_(config),
      pending_(static_cast<size_t>(config.job.parallel.vpp)) {
  {
    const Marker marker("parameters");
    for (int32_t chunk = 0; chunk < config.job.parallel.vpp; ++chunk) {
      chunks_.push_back(std::make_unique<ModelChunk>(config, groups, chunk));
    }
  }
  {
    const Marker marker("gradients");
    for (const auto& chunk : chunks_) {
      for (const auto& storage : chunk->parameters().storages()) {
        storage->AllocateGradients();
        storages_.push_back(storage.get());
      }
    }
  }
  {
    const Marker marker("optimizer state");
    std::vector<OwnedShard> shards;
    for (const ParameterStorage* storage : storages_) {
      std::ranges::move(storage->OwnedShards(), std::back_inserter(shards));
    }
    optimizer_ = std::make_unique<Optimizer>(shards, groups);
  }
  const Marker marker("buffers");
  for (const auto& chunk : chunks_) {
    chunk->AllocateBuffers();
  }
}

IterationResult Trainer::RunIteration(int32_t iteration) {
  iteration_ = iteration;
  batch_.Draw(iteration);
  for (ParameterStorage* storage : storages_) {
    storage->ZeroGradients();
  }
  loss_sum_ = at::Tensor();
  const ScheduleShape shape = {.stage = config_.pp_rank(),
                               .stages = config_.job.parallel.pp,
                               .chunks = config_.job.parallel.vpp,
                               .microbatches = static_cast<int32_t>(config_.job.microbatches())};
  RunSchedule(shape, peers_, this);
  SynchroniseGradients();
  IterationResult result;
  {
    const Marker marker("optimizer");
    result.grad_norm = optimizer_->Step();
    for (ParameterStorage* storage : storages_) {
      storage->StartGather();
    }
    for (ParameterStorage* storage : storages_) {
      storage->FinishGather();
    }
  }
  result.loss = ReduceLoss();
  return result;
}

std::string Trainer::PassName(const char* direction, Pass pass) const {
  return config_.job.parallel.vpp == 1 ? direction
                                       : direction + (" chunk " + std::to_string(pass.chunk));
}

at::Tensor Trainer::Forward(Pass pass, const at::Tensor& input) {
  if (before_forward_) {
    before_forward_(iteration_, pass);
  }
  const Marker microbatch("micro-batch " + std::to_string(pass.microbatch));
  const Marker marker(PassName("forward", pass));
  ModelChunk& chunk = *chunks_[static_cast<size_t>(pass.chunk)];
  Pending pending;
  pending.input = input;
  if (input.defined()) {
    input.set_requires_grad(true);
  }
  const at::Tensor output = chunk.Forward(input, batch_.Load(pass.microbatch, chunk));
  std::deque<Pending>& queue = pending_[static_cast<size_t>(pass.chunk)];
  if (!chunk.last()) {
    pending.end = torch::autograd::impl::gradient_edge(output);
    queue.push_back(std::move(pending));
    return output.detach();
  }
  pending.loss = output / static_cast<double>(config_.job.microbatches());
  const at::Tensor value = pending.loss.detach();
  loss_sum_ = loss_sum_.defined() ? loss_sum_ + value : value;
  queue.push_back(std::move(pending));
  return {};
}

at::Tensor Trainer::Backward(Pass pass, const at::Tensor& output_grad) {
  const Marker microbatch("micro-batch " + std::to_string(pass.microbatch));
  const Marker marker(PassName("backward", pass));
  ModelChunk& chunk = *chunks_[static_cast<size_t>(pass.chunk)];
  if (pass.microbatch == config_.job.microbatches() - 1) {
    for (const auto& storage : chunk.parameters().storages()) {
      storage->BeginLastMicrobatch();
    }
  }
  std::deque<Pending>& queue = pending_[static_cast<size_t>(pass.chunk)];
  const Pending pending = std::move(queue.front());
  queue.pop_front();
  chunk.BeginBackward();
  if (pending.loss.defined()) {
    torch::autograd::backward({pending.loss});
  } else {
    torch::autograd::Engine::get_default_engine().execute({pending.end}, {output_grad},
                                                          /*keep_graph=*/false,
                                                          /*create_graph=*/false,
                                                          /*accumulate_grad=*/true);
  }
  chunk.EndBackward();
  return pending.input.defined() ? pending.input.grad() : at::Tensor();
}

void Trainer::SynchroniseGradients() {
  const Marker marker("gradient sync");
  for (ParameterStorage* storage : storages_) {
    storage->FinishReduction();
  }
}

std::optional<double> Trainer::ReduceLoss() {
  if (!loss_sum_.defined()) {
    return std::nullopt;
  }
  AllReduce(groups_.dp, loss_sum_);
  return static_cast<double>(loss_sum_.item<float>()) / groups_.dp.size();
}

}  // namespace prism::launch
