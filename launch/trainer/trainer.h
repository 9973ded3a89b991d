// One rank of the training job: model chunks, data, optimizer, and the iteration over them. Gets
// its process groups from outside, so it runs on NCCL as well as on the backend of a test.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/edge.h>

#include "launch/trainer/batch.h"
#include "launch/trainer/model_chunk.h"
#include "launch/trainer/optimizer.h"
#include "launch/trainer/schedule.h"

namespace prism::launch {

struct IterationResult {
  double grad_norm = 0;
  std::optional<double> loss;  // mean over the global batch; on ranks of the last stage only
};

class Trainer : private ScheduleBody {
 public:
  // `config` and `groups` outlive the trainer.
  Trainer(const WorkloadConfig& config, const ParallelGroups& groups);
  ~Trainer() override = default;
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Iterations count from 0.
  IterationResult RunIteration(int32_t iteration);

  // Called before every forward, with the iteration and the pass.
  void SetBeforeForward(std::function<void(int32_t, Pass)> callback) {
    before_forward_ = std::move(callback);
  }

  // Asked for ScheduleBody::RoundsToSkip; without it none are left out.
  void SetRoundsToSkip(std::function<int32_t(int32_t)> callback) {
    rounds_to_skip_ = std::move(callback);
  }

 private:
  // What connects a forward pass to its backward pass: the end of the graph, and the activation it
  // began with. The output itself is freed (Megatron's deallocate_pipeline_outputs).
  struct Pending {
    torch::autograd::Edge end;
    at::Tensor input;  // undefined on the first virtual stage
    at::Tensor loss;   // defined on the last one
  };

  at::Tensor Forward(Pass pass, const at::Tensor& input) override;
  at::Tensor Backward(Pass pass, const at::Tensor& output_grad) override;
  int32_t RoundsToSkip(int32_t left) override {
    return rounds_to_skip_ && left > 0 ? rounds_to_skip_(left) : 0;
  }
  [[nodiscard]] std::string PassName(const char* direction, Pass pass) const;
  void SynchroniseGradients();
  [[nodiscard]] std::optional<double> ReduceLoss();

  const WorkloadConfig& config_;
  const ParallelGroups& groups_;
  std::vector<std::unique_ptr<ModelChunk>> chunks_;
  std::vector<ParameterStorage*> storages_;  // of all chunks
  std::unique_ptr<Optimizer> optimizer_;
  PeerExchange peers_;
  Batch batch_;
  std::vector<std::deque<Pending>> pending_;  // by chunk, oldest first
  at::Tensor loss_sum_;
  int32_t iteration_ = 0;
  std::function<void(int32_t, Pass)> before_forward_;
  std::function<int32_t(int32_t)> rounds_to_skip_;
};

}  // namespace prism::launch
