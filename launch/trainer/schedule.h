// Megatron's pipeline schedules: one forward one backward (1F1B), and its interleaved form with
// several model chunks per stage. With one stage both are plain gradient accumulation.
#pragma once

#include <cstdint>

#include <ATen/ATen.h>

#include "launch/trainer/peer_exchange.h"

namespace prism::launch {

struct ScheduleShape {
  int32_t stage = 0;
  int32_t stages = 1;
  int32_t chunks = 1;
  int32_t microbatches = 1;
};

// One micro-batch through one model chunk.
struct Pass {
  int32_t chunk = 0;
  int32_t microbatch = 0;
};

// What the schedule drives. The body keeps whatever connects a forward pass to its backward pass.
class ScheduleBody {
 public:
  virtual ~ScheduleBody() = default;

  // Activation in (undefined on the first virtual stage), activation out (undefined on the last).
  // Keeps no reference to the activation, so that its memory can be freed once it has been sent.
  virtual at::Tensor Forward(Pass pass, const at::Tensor& input) = 0;

  // Gradient of the output in (undefined on the last virtual stage), of the input out (undefined on
  // the first).
  virtual at::Tensor Backward(Pass pass, const at::Tensor& output_grad) = 0;

  // The schedule would do the same `left` more times, with later micro-batches: how many of them
  // may be left out.
  virtual int32_t RoundsToSkip(int32_t left) = 0;

 protected:
  ScheduleBody() = default;
  ScheduleBody(const ScheduleBody&) = default;
  ScheduleBody& operator=(const ScheduleBody&) = default;
};

// Runs one iteration's forward and backward passes. Interleaved when shape.chunks > 1; then
// microbatches is a multiple of stages.
void RunSchedule(const ScheduleShape& shape, const PeerExchange& peers, ScheduleBody* body);

}  // namespace prism::launch
