#include "launch/trainer/batch.h"

#include "graph/base/mix.h"

namespace prism::launch {
namespace {

// SplitMix64: one step from a counter to a well-mixed number.
uint64_t Mix(uint64_t counter) {
  return MixBits((counter + 1) * kSplitMixStep);
}

}  // namespace

Batch::Batch(const WorkloadConfig& config)
    : config_(config),
      device_(config.device == DeviceKind::kCpu ? at::Device(at::kCPU) : at::Device(at::kCUDA, 0)) {
  const graph::JobSpec& job = config.job;
  const bool pinned = config.device == DeviceKind::kCuda;
  const auto options = at::TensorOptions(at::kLong).pinned_memory(pinned);
  inputs_ = at::empty({job.microbatches(), job.micro_batch_size, config.sequence()}, options);
  targets_ = at::empty({job.microbatches(), job.micro_batch_size, config.sequence()}, options);
}

// Sequence i of the global batch goes to dp rank (i / micro-batch size) mod dp, as in Megatron's
// sampler.
void Batch::Draw(int32_t iteration) {
  const graph::JobSpec& job = config_.job;
  const auto vocab = static_cast<uint64_t>(job.model.vocab);
  const auto length = static_cast<uint64_t>(job.seq_len);
  const auto begin = static_cast<uint64_t>(config_.cp_rank() * config_.sequence());
  const uint64_t end = begin + static_cast<uint64_t>(config_.sequence());
  auto* input = inputs_.mutable_data_ptr<int64_t>();
  auto* target = targets_.mutable_data_ptr<int64_t>();
  for (int64_t microbatch = 0; microbatch < job.microbatches(); ++microbatch) {
    for (int64_t sample = 0; sample < job.micro_batch_size; ++sample) {
      const int64_t sequence =
          (microbatch * job.parallel.dp + config_.dp_rank()) * job.micro_batch_size + sample;
      const uint64_t start = job.seed + (static_cast<uint64_t>(iteration) *
                                             static_cast<uint64_t>(job.global_batch_size) +
                                         static_cast<uint64_t>(sequence)) *
                                            (length + 1);
      for (uint64_t token = begin; token < end; ++token) {
        *input++ = static_cast<int64_t>(Mix(start + token) % vocab);
        *target++ = static_cast<int64_t>(Mix(start + token + 1) % vocab);
      }
    }
  }
}

MicrobatchTokens Batch::Load(int64_t microbatch, const ModelChunk& chunk) const {
  MicrobatchTokens tokens;
  if (chunk.first()) {
    tokens.inputs = inputs_[microbatch].to(device_, /*non_blocking=*/true);
  }
  if (chunk.last()) {
    tokens.targets = targets_[microbatch].to(device_, /*non_blocking=*/true);
  }
  return tokens;
}

}  // namespace prism::launch
