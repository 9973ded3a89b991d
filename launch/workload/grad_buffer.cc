#include "launch/workload/grad_buffer.h"

#include <memory>
#include <utility>

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "graph/flat_buckets.h"
#include "launch/workload/parameters.h"

namespace prism::launch {
namespace {

int64_t Count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    count *= size;
  }
  return count;
}

// Moves a gradient that autograd has computed into the flat buffer and frees it.
class AccumulateHook : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit AccumulateHook(GradAccumulator* accumulator) : accumulator_(accumulator) {}

  void operator()(const at::Tensor& parameter) override {
    accumulator_->Add(parameter.grad());
    parameter.mutable_grad() = at::Tensor();
  }

 private:
  GradAccumulator* accumulator_;
};

}  // namespace

GradAccumulator::GradAccumulator(GradBuffer* buffer, at::Tensor main_grad, size_t bucket)
    : buffer_(buffer), main_grad_(std::move(main_grad)), bucket_(bucket) {
}

void GradAccumulator::Add(const at::Tensor& grad) {
  main_grad_.add_(grad);
  buffer_->CountReady(bucket_);
}

void GradAccumulator::AddProduct(const at::Tensor& output_grad, const at::Tensor& input) {
  at::Tensor target = main_grad_.view({-1, input.size(-1)});
  if (input.scalar_type() == at::kFloat) {
    target.addmm_(output_grad.t(), input);
  } else {
    at::addmm_out(target, target, output_grad.t(), input, at::kFloat);
  }
  buffer_->CountReady(bucket_);
}

void GradAccumulator::AddProducts(const at::Tensor& output_grads, const at::Tensor& inputs) {
  at::Tensor target = main_grad_.view({inputs.size(0), -1, inputs.size(-1)});
  if (inputs.scalar_type() == at::kFloat) {
    target.baddbmm_(output_grads.transpose(1, 2), inputs);
  } else {
    at::baddbmm_out(target, target, output_grads.transpose(1, 2), inputs, at::kFloat);
  }
  buffer_->CountReady(bucket_);
}

GradBuffer::GradBuffer(const std::vector<Parameter*>& parameters,
                       const GradBufferOptions& options,
                       const ParallelGroups& groups)
    : options_(options), groups_(groups) {
  options_.shard = options_.shard && !replicas().alone();
  LayOut(parameters);
  values_ = at::zeros({elements_}, at::TensorOptions(options_.device).dtype(options_.dtype));
  for (const Placement& placement : placements_) {
    Parameter& parameter = *placement.parameter;
    parameter.value = values_.narrow(0, placement.begin, Count(parameter.shape))
                          .view(parameter.shape)
                          .set_requires_grad(true);
  }
}

void GradBuffer::LayOut(const std::vector<Parameter*>& parameters) {
  graph::FlatBuckets flat(graph::TrainingStyle{}, replicas().size());
  std::vector<int> expected;
  for (Parameter* parameter : parameters) {
    const graph::FlatBuckets::Place place = flat.Append(Count(parameter->shape));
    placements_.push_back({parameter, place.begin, place.bucket});
    expected.resize(place.bucket + 1);
    expected[place.bucket] += parameter->uses;
  }
  flat.Finish();
  elements_ = flat.elements();
  for (size_t i = 0; i < expected.size(); ++i) {
    Bucket bucket;
    bucket.begin = flat.buckets()[i].begin;
    bucket.end = flat.buckets()[i].end;
    bucket.expected = expected[i];
    buckets_.push_back(std::move(bucket));
  }
}

void GradBuffer::AllocateGradients() {
  gradients_ = at::zeros({elements_}, at::TensorOptions(options_.device).dtype(at::kFloat));
  for (const Placement& placement : placements_) {
    Parameter& parameter = *placement.parameter;
    const at::Tensor main_grad =
        gradients_.narrow(0, placement.begin, Count(parameter.shape)).view(parameter.shape);
    accumulators_.push_back(std::make_unique<GradAccumulator>(this, main_grad, placement.bucket));
    parameter.grad = accumulators_.back().get();
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameter.value, std::make_unique<AccumulateHook>(parameter.grad));
  }
}

void GradBuffer::ZeroGradients() {
  gradients_.zero_();
  last_microbatch_ = false;
  for (Bucket& bucket : buckets_) {
    bucket.ready = 0;
  }
}

void GradBuffer::BeginLastMicrobatch() {
  last_microbatch_ = true;
}

void GradBuffer::CountReady(size_t bucket) {
  if (last_microbatch_ && ++buckets_[bucket].ready == buckets_[bucket].expected) {
    StartReduction(&buckets_[bucket]);
  }
}

// The mean over dp is taken before the sum, as Megatron does to keep float32 sums in range. Tokens
// of all dp ranks have passed experts, those that no other rank holds as well.
void GradBuffer::StartReduction(Bucket* bucket) {
  if (groups_.dp.alone()) {
    return;
  }
  at::Tensor whole = gradients_.narrow(0, bucket->begin, bucket->end - bucket->begin);
  whole.mul_(1.0 / groups_.dp.size());
  bucket->reduction = options_.shard
                          ? StartReduceScatter(replicas(), Shard(gradients_, *bucket), whole)
                          : StartAllReduce(replicas(), whole);
}

void GradBuffer::FinishReduction() {
  for (Bucket& bucket : buckets_) {
    Wait(bucket.reduction);
    bucket.reduction = nullptr;
  }
  if (options_.sequence_parallel) {
    for (const at::Tensor& shard : GradShards()) {
      AllReduce(groups_.tp, shard);
    }
  }
  if (options_.tied) {
    AllReduce(groups_.embedding, gradients_);
  }
}

void GradBuffer::StartGather() {
  if (!options_.shard) {
    return;
  }
  for (Bucket& bucket : buckets_) {
    at::Tensor whole = values_.narrow(0, bucket.begin, bucket.end - bucket.begin);
    bucket.gather = StartAllGather(replicas(), whole, Shard(values_, bucket));
  }
}

void GradBuffer::FinishGather() {
  for (Bucket& bucket : buckets_) {
    Wait(bucket.gather);
    bucket.gather = nullptr;
  }
}

at::Tensor GradBuffer::Shard(const at::Tensor& buffer, const Bucket& bucket) const {
  const int64_t length = bucket.end - bucket.begin;
  if (!options_.shard) {
    return buffer.narrow(0, bucket.begin, length);
  }
  const int64_t part = length / replicas().size();
  return buffer.narrow(0, bucket.begin + part * replicas().index(), part);
}

std::vector<at::Tensor> GradBuffer::ValueShards() const {
  std::vector<at::Tensor> shards;
  for (const Bucket& bucket : buckets_) {
    shards.push_back(Shard(values_, bucket));
  }
  return shards;
}

std::vector<at::Tensor> GradBuffer::GradShards() const {
  std::vector<at::Tensor> shards;
  for (const Bucket& bucket : buckets_) {
    shards.push_back(Shard(gradients_, bucket));
  }
  return shards;
}

// Parameters that are not divided are in the sum once per tp rank, and without shards once per ep
// rank where they are no experts; of the two copies of a tied embedding only the first stage's
// counts.
double GradBuffer::norm_weight() const {
  if (options_.tied && groups_.embedding.size() > 1 && groups_.embedding.index() != 0) {
    return 0.0;
  }
  const int32_t over_ep = options_.expert || options_.shard ? 1 : groups_.ep.size();
  return 1.0 / (over_ep * (options_.split ? 1 : groups_.tp.size()));
}

}  // namespace prism::launch
