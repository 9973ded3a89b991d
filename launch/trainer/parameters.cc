#include "launch/trainer/parameters.h"

#include <functional>
#include <map>
#include <numeric>
#include <ranges>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>

#include "graph/base/fnv.h"
#include "launch/trainer/grad_buffer.h"

namespace prism::launch {
namespace {

ParameterKind KindOf(const ParameterSpec& spec) {
  return {spec.expert, spec.tied, spec.split_dim >= 0, spec.sequence_parallel, spec.decay};
}

// The seed for the values of a name on the CPU, whatever the layout.
uint64_t SeedOf(const std::string& name, uint64_t seed) {
  return FnvHash(name, kFnvSeed ^ seed);
}

}  // namespace

ParameterSet::ParameterSet(const WorkloadConfig& config, const ParallelGroups& groups)
    : config_(config), groups_(groups) {
}

int64_t Parameter::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

void HookGradient(Parameter& parameter,
                  GradSink* sink,
                  std::vector<std::unique_ptr<GradAccumulator>>* accumulators) {
  accumulators->push_back(std::make_unique<GradAccumulator>(sink, accumulators->size()));
  parameter.grad = accumulators->back().get();
  parameter.grad->HookInto(parameter.value);
}

void ParameterSet::BeginUnit() {
  places_.push_back(units_++);
}

void ParameterSet::ReturnToUnit(size_t unit) {
  places_.push_back(unit);
}

Parameter* ParameterSet::Declare(ParameterSpec spec) {
  Parameter parameter;
  parameter.unit = places_.back();
  parameter.shape = spec.full_shape;
  if (spec.split_dim >= 0) {
    parameter.shape[static_cast<size_t>(spec.split_dim)] /= config_.job.parallel.tp;
  }
  if (spec.expert) {
    parameter.shape[0] /= config_.job.parallel.ep;
  }
  spec.sequence_parallel = spec.sequence_parallel && config_.sequence_parallel();
  parameter.spec = std::move(spec);
  parameters_.push_back(std::move(parameter));
  return &parameters_.back();
}

at::TensorOptions ParameterSet::tensor_options() const {
  return at::TensorOptions(config_.device == DeviceKind::kCpu ? at::Device(at::kCPU)
                                                              : at::Device(at::kCUDA, 0))
      .dtype(config_.job.compute_dtype == DataType::kFloat32 ? at::kFloat : at::kBFloat16);
}

void ParameterSet::Allocate(bool keeps_last) {
  if (config_.job.zero_stage == 3 && !groups_.dp.alone()) {
    AllocateShards(keeps_last);
    sharded_->Initialize([this](Parameter* parameter) { Initialize(parameter); });
    return;
  }
  AllocateBuffers();
  for (Parameter& parameter : parameters_) {
    Initialize(&parameter);
  }
}

void ParameterSet::AllocateBuffers() {
  std::map<ParameterKind, std::vector<Parameter*>> kinds;
  for (Parameter& parameter : std::views::reverse(parameters_)) {
    kinds[KindOf(parameter.spec)].push_back(&parameter);
  }
  for (const auto& [kind, members] : kinds) {
    GradBufferOptions options;
    options.kind = kind;
    options.shard = config_.job.zero_stage >= 1;
    options.shard_gradients = config_.job.zero_stage >= 2;
    options.values = tensor_options();
    storages_.push_back(std::make_unique<GradBuffer>(members, options, groups_, &scatter_));
  }
}

void ParameterSet::AllocateShards(bool keeps_last) {
  std::vector<std::map<ParameterKind, std::vector<Parameter*>>> units(units_);
  for (Parameter& parameter : parameters_) {
    units[parameter.unit][KindOf(parameter.spec)].push_back(&parameter);
  }
  std::vector<std::vector<ShardedUnit::Members>> members(units_);
  for (size_t unit = 0; unit < units_; ++unit) {
    for (auto& [kind, parameters] : units[unit]) {
      members[unit].push_back({kind, std::move(parameters)});
    }
  }
  const ShardedParameters::Options options = {tensor_options(), keeps_last};
  auto sharded = std::make_unique<ShardedParameters>(members, places_, options, groups_, &scatter_);
  sharded_ = sharded.get();
  storages_.push_back(std::move(sharded));
}

// On the CPU values must equal those of the undistributed model: the full tensor is drawn and
// sliced. On a device only the kernels matter, and each rank fills its part.
void ParameterSet::Initialize(Parameter* parameter) const {
  const at::NoGradGuard no_grad;
  const ParameterSpec& spec = parameter->spec;
  if (spec.init != Init::kNormal) {
    parameter->value.fill_(spec.init == Init::kOne ? 1.0 : 0.0);
    return;
  }
  if (config_.device == DeviceKind::kCuda) {
    parameter->value.normal_(0.0, spec.std);
    return;
  }
  at::Generator generator = at::detail::createCPUGenerator(SeedOf(spec.name, config_.job.seed));
  at::Tensor full = at::empty(spec.full_shape, at::kFloat).normal_(0.0, spec.std, generator);
  if (spec.split_dim >= 0) {
    const int64_t part = parameter->shape[static_cast<size_t>(spec.split_dim)];
    full = full.narrow(spec.split_dim, part * config_.tp_rank(), part);
  }
  if (spec.expert) {
    full = full.narrow(0, parameter->shape[0] * config_.ep_rank(), parameter->shape[0]);
  }
  parameter->value.copy_(full);
}

}  // namespace prism::launch
