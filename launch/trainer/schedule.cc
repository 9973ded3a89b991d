#include "launch/trainer/schedule.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

namespace prism::launch {
namespace {

// 1F1B: `stages - stage - 1` forwards to fill the pipeline, then pairs, then the remaining
// backwards.
void RunOneForwardOneBackward(const ScheduleShape& shape,
                              const PeerExchange& peers,
                              ScheduleBody* body) {
  const bool first = shape.stage == 0;
  const bool last = shape.stage == shape.stages - 1;
  const int32_t warmup = std::min(shape.stages - shape.stage - 1, shape.microbatches);
  const int32_t steady = shape.microbatches - warmup;
  int32_t backward = 0;

  for (int32_t forward = 0; forward < warmup; ++forward) {
    const at::Tensor input = peers.Run({.from_previous = !first}).from_previous;
    peers.Run({.to_next = body->Forward({0, forward}, input)});
  }
  at::Tensor input;
  if (steady > 0) {
    input = peers.Run({.from_previous = !first}).from_previous;
  }
  for (int32_t i = 0; i < steady; ++i) {
    const int32_t skipped = body->RoundsToSkip(steady - 1 - i);  // the last one may differ
    i += skipped;
    backward += skipped;
    at::Tensor output = body->Forward({0, warmup + i}, std::exchange(input, {}));
    const at::Tensor output_grad =
        peers.Run({.to_next = std::move(output), .from_next = !last}).from_next;
    at::Tensor input_grad = body->Backward({0, backward++}, output_grad);
    const bool more = i + 1 < steady;
    input = peers.Run({.to_previous = std::move(input_grad), .from_previous = more && !first})
                .from_previous;
  }
  while (backward < shape.microbatches) {
    const at::Tensor output_grad = peers.Run({.from_next = !last}).from_next;
    peers.Run({.to_previous = body->Backward({0, backward++}, output_grad)});
  }
}

// The interleaved schedule numbers all passes of a stage: pass k of `microbatches * chunks` belongs
// to chunk and micro-batch by position in groups of `stages * chunks` passes (Megatron's
// get_model_chunk_id). Backward passes go through the chunks from the last to the first.
class Interleaved {
 public:
  Interleaved(const ScheduleShape& shape, const PeerExchange& peers, ScheduleBody* body)
      : shape_(shape),
        peers_(peers),
        body_(body),
        total_(shape.microbatches * shape.chunks),
        inputs_(static_cast<size_t>(shape.chunks)),
        output_grads_(static_cast<size_t>(shape.chunks)) {}

  void Run() {
    const bool all_warmup = shape_.microbatches == shape_.stages;
    const int32_t fill =
        (shape_.stages - shape_.stage - 1) * 2 + (shape_.chunks - 1) * shape_.stages;
    const int32_t warmup = all_warmup ? total_ : std::min(fill, total_);
    Keep(&inputs_, 0, peers_.Run({.from_previous = !first()}).from_previous);
    for (int32_t k = 0; k < warmup; ++k) {
      WarmUp(k, k == warmup - 1 && !all_warmup);
    }
    const int32_t steady = total_ - warmup;
    const int32_t round = shape_.stages * shape_.chunks;
    for (int32_t k = 0; k < steady; ++k) {
      if (k % round == 0) {
        k += round * body_->RoundsToSkip((steady - k) / round - 1);
      }
      Steady(k, warmup);
    }
    if (all_warmup) {
      Keep(&output_grads_, shape_.chunks - 1, peers_.Run({.from_next = !last()}).from_next);
    }
    for (int32_t k = total_ - warmup; k < total_; ++k) {
      CoolDown(k);
    }
  }

 private:
  // Waiting activations or gradients by chunk, oldest first.
  using Queues = std::vector<std::deque<at::Tensor>>;

  [[nodiscard]] bool first() const { return shape_.stage == 0; }

  [[nodiscard]] bool last() const { return shape_.stage == shape_.stages - 1; }

  [[nodiscard]] Pass ForwardPass(int32_t k) const {
    const int32_t group = shape_.stages * shape_.chunks;
    return {k % group / shape_.stages, k / group * shape_.stages + k % shape_.stages};
  }

  [[nodiscard]] Pass BackwardPass(int32_t k) const {
    Pass pass = ForwardPass(k);
    pass.chunk = shape_.chunks - 1 - pass.chunk;
    return pass;
  }

  static void Keep(Queues* queues, int32_t chunk, at::Tensor tensor) {
    if (tensor.defined()) {
      (*queues)[static_cast<size_t>(chunk)].push_back(std::move(tensor));
    }
  }

  // Undefined if none is waiting: the first (last) virtual stage receives nothing.
  static at::Tensor Take(Queues* queues, int32_t chunk) {
    std::deque<at::Tensor>& queue = (*queues)[static_cast<size_t>(chunk)];
    if (queue.empty()) {
      return {};
    }
    at::Tensor tensor = std::move(queue.front());
    queue.pop_front();
    return tensor;
  }

  at::Tensor Forward(int32_t k) {
    const Pass pass = ForwardPass(k);
    return body_->Forward(pass, Take(&inputs_, pass.chunk));
  }

  at::Tensor Backward(int32_t k) {
    const Pass pass = BackwardPass(k);
    return body_->Backward(pass, Take(&output_grads_, pass.chunk));
  }

  // The input of pass k, if it comes from another stage.
  [[nodiscard]] bool ReceivesInput(int32_t k) const {
    return k < total_ && !(first() && ForwardPass(k).chunk == 0);
  }

  void WarmUp(int32_t k, bool opens_steady) {
    Exchange exchange;
    exchange.to_next = Forward(k);
    exchange.from_previous = ReceivesInput(k + 1);
    exchange.from_next = opens_steady && !last();
    Received received = peers_.Run(exchange);
    if (exchange.from_previous) {
      Keep(&inputs_, ForwardPass(k + 1).chunk, std::move(received.from_previous));
    }
    Keep(&output_grads_, shape_.chunks - 1, std::move(received.from_next));
  }

  // Where the ring closes, the sender of what arrives now is `stages - 1` passes behind: stage 0
  // gets the input for the chunk after the one that the last stage has just run; the same in
  // backward (Megatron's steady state).
  void Steady(int32_t k, int32_t warmup) {
    const int32_t forward = k + warmup;
    // The chunks of passes repeat with this period; added if a difference may be negative.
    const int32_t period = shape_.stages * shape_.chunks;
    Exchange exchange;
    exchange.to_next = Forward(forward);
    exchange.to_previous = Backward(k);
    int32_t input_chunk = 0;
    bool receives_input = true;
    if (first()) {
      const int32_t sent = ForwardPass(forward + period - (shape_.stages - 1)).chunk;
      receives_input = sent != shape_.chunks - 1;
      input_chunk = sent + 1;
    } else if (forward + 1 < total_) {
      input_chunk = ForwardPass(forward + 1).chunk;
    }
    int32_t grad_chunk = 0;
    bool receives_grad = true;
    if (last()) {
      const int32_t sent = BackwardPass(k + period - (shape_.stages - 1)).chunk;
      receives_grad = sent != 0;
      grad_chunk = sent - 1;
    } else {
      grad_chunk = BackwardPass(k + 1).chunk;
    }
    exchange.from_previous = receives_input && forward + 1 < total_;
    exchange.from_next = receives_grad;
    Received received = peers_.Run(exchange);
    if (exchange.from_previous) {
      Keep(&inputs_, input_chunk, std::move(received.from_previous));
    }
    if (exchange.from_next) {
      Keep(&output_grads_, grad_chunk, std::move(received.from_next));
    }
  }

  void CoolDown(int32_t k) {
    Exchange exchange;
    exchange.to_previous = Backward(k);
    const bool more = k + 1 < total_;
    const int32_t next_chunk = more ? BackwardPass(k + 1).chunk : 0;
    exchange.from_next = more && !(last() && next_chunk == shape_.chunks - 1);
    Received received = peers_.Run(exchange);
    Keep(&output_grads_, next_chunk, std::move(received.from_next));
  }

  ScheduleShape shape_;
  const PeerExchange& peers_;
  ScheduleBody* body_;
  int32_t total_;
  Queues inputs_;
  Queues output_grads_;
};

}  // namespace

void RunSchedule(const ScheduleShape& shape, const PeerExchange& peers, ScheduleBody* body) {
  if (shape.chunks > 1) {
    Interleaved(shape, peers, body).Run();
  } else {
    RunOneForwardOneBackward(shape, peers, body);
  }
}

}  // namespace prism::launch
