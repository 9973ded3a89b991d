// The parameters of one model chunk. Layers declare what they need; Allocate() then lays all of
// them out in flat buffers (grad_buffer.h), or shards of units (sharded_parameters.h), initialises
// their values and gives every layer its tensor through the Parameter returned at declaration.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "launch/trainer/args.h"
#include "launch/trainer/grad_accumulator.h"
#include "launch/trainer/grad_scatter.h"
#include "launch/trainer/parameter_storage.h"
#include "launch/trainer/sharded_parameters.h"

namespace prism::launch {

enum class Init : uint8_t { kNormal, kZero, kOne };

// A parameter as the undistributed model has it, and how tensor and expert parallelism split it.
struct ParameterSpec {
  std::string name;                 // the same for all layouts: seeds the values
  std::vector<int64_t> full_shape;  // of the undistributed parameter
  int split_dim = -1;               // dimension split over tp; -1: whole on every tp rank
  Init init = Init::kNormal;
  double std = 0.02;
  bool decay = true;  // weight decay applies
  bool sequence_parallel =
      false;            // its gradient is a partial sum over tp under sequence parallelism
  bool expert = false;  // by expert in its first dimension, which is divided over ep
  bool tied = false;    // the embedding shared by the first and last stage
};

struct Parameter {
  ParameterSpec spec;
  size_t unit = 0;                  // of the chunk, for ZeRO 3
  std::vector<int64_t> shape;       // of this rank's part
  int uses = 1;                     // gradient contributions in one backward pass
  at::Tensor value;                 // view into a flat buffer; defined after Allocate()
  GradAccumulator* grad = nullptr;  // set when the gradients are allocated

  [[nodiscard]] int64_t elements() const;
};

// Passes on the parameter's gradients to the next place of `sink`, whose accumulators these are: as
// many as places so far.
void HookGradient(Parameter& parameter,
                  GradSink* sink,
                  std::vector<std::unique_ptr<GradAccumulator>>* accumulators);

class ParameterSet {
 public:
  // `config` and `groups` outlive the set.
  ParameterSet(const WorkloadConfig& config, const ParallelGroups& groups);

  // What is declared next belongs to a new unit, or to an earlier one: the unit at the next place
  // of the chunk, in forward order. Units are what ZeRO 3 gathers.
  void BeginUnit();
  void ReturnToUnit(size_t unit);
  [[nodiscard]] size_t place() const { return places_.size() - 1; }

  // The pointer is valid for the lifetime of the set.
  Parameter* Declare(ParameterSpec spec);

  // Once, after the last Declare. `keeps_last`: of ShardedParameters.
  void Allocate(bool keeps_last);

  // Of values.
  [[nodiscard]] at::TensorOptions tensor_options() const;

  // Null if parameters are whole between passes.
  [[nodiscard]] ShardedParameters* sharded() const { return sharded_; }

  // After a backward pass: with sharded gradients, what it has reduced has arrived.
  void EndBackward() { scatter_.Finish(); }

  [[nodiscard]] const std::vector<std::unique_ptr<ParameterStorage>>& storages() const {
    return storages_;
  }

 private:
  void AllocateBuffers();
  void AllocateShards(bool keeps_last);
  void Initialize(Parameter* parameter) const;

  const WorkloadConfig& config_;
  const ParallelGroups& groups_;
  std::deque<Parameter> parameters_;
  GradScatter scatter_;
  std::vector<size_t> places_;  // units
  size_t units_ = 0;
  std::vector<std::unique_ptr<ParameterStorage>> storages_;
  ShardedParameters* sharded_ = nullptr;
};

}  // namespace prism::launch
