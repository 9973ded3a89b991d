// The parameters of one model chunk. Layers declare what they need; Allocate() then lays all of
// them out in flat buffers (grad_buffer.h), sets their first values and hands every layer its
// tensor through the Parameter it got at declaration.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "launch/workload/args.h"
#include "launch/workload/grad_buffer.h"

namespace prism::launch {

enum class Init : uint8_t { kNormal, kZero, kOne };

// A parameter as the undistributed model has it, and how tensor and expert parallelism split it.
struct ParameterSpec {
  std::string name;                 // the same for all layouts: seeds the values
  std::vector<int64_t> full_shape;  // of the undistributed parameter
  int split_dim = -1;               // dimension split over tp; -1: every tp rank has all of it
  Init init = Init::kNormal;
  double std = 0.02;
  bool decay = true;  // weight decay applies
  bool sequence_parallel =
      false;            // its gradient is a partial sum over tp under sequence parallelism
  bool expert = false;  // by expert in its first dimension, which is divided over ep
  bool tied = false;    // the embedding that first and last stage share
};

struct Parameter {
  ParameterSpec spec;
  std::vector<int64_t> shape;       // of this rank's part
  int uses = 1;                     // gradient contributions in one backward pass
  at::Tensor value;                 // view into a flat buffer; defined after Allocate()
  GradAccumulator* grad = nullptr;  // set when the gradients are allocated
};

class ParameterSet {
 public:
  // `config` and `groups` outlive the set.
  ParameterSet(const WorkloadConfig& config, const ParallelGroups& groups);

  // Stable for the life of the set.
  Parameter* Declare(ParameterSpec spec);

  // Once, after the last Declare.
  void Allocate();

  // Behind a backward pass: what it has reduced has arrived where gradients are sharded.
  void EndBackward() { scatter_.Finish(); }

  [[nodiscard]] std::vector<std::unique_ptr<GradBuffer>>& buffers() { return buffers_; }

 private:
  void Initialize(Parameter* parameter) const;

  const WorkloadConfig& config_;
  const ParallelGroups& groups_;
  std::deque<Parameter> parameters_;
  GradScatter scatter_;
  std::vector<std::unique_ptr<GradBuffer>> buffers_;
};

}  // namespace prism::launch
