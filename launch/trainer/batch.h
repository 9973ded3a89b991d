// Token ids of an iteration: a seeded draw that depends only on the position of a sequence in the
// global batch, so every layout trains on the same data.
#pragma once

#include <cstdint>

#include <ATen/ATen.h>

#include "launch/trainer/args.h"
#include "launch/trainer/model_chunk.h"

namespace prism::launch {

class Batch {
 public:
  // Host memory for one iteration, pinned for a CUDA device. `config` outlives the batch.
  explicit Batch(const WorkloadConfig& config);

  // Draws the tokens of an iteration. The device must be done with the previous ones.
  void Draw(int32_t iteration);

  // Copies a micro-batch to the device: inputs on the first stage, targets on the last.
  [[nodiscard]] MicrobatchTokens Load(int64_t microbatch, const ModelChunk& chunk) const;

 private:
  const WorkloadConfig& config_;
  at::Device device_;
  at::Tensor inputs_;   // [micro-batches, batch, sequence]
  at::Tensor targets_;  // the tokens one further
};

}  // namespace prism::launch
