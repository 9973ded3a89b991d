#include "launch/trainer/grad_buffer.h"

#include <utility>

#include "graph/job/flat_buckets.h"
#include "launch/trainer/parameters.h"

namespace prism::launch {
GradBuffer::GradBuffer(const std::vector<Parameter*>& parameters,
                       const GradBufferOptions& options,
                       const ParallelGroups& groups,
                       GradScatter* scatter)
    : options_(options), groups_(groups), scatter_(scatter) {
  options_.shard = options_.shard && !replicas().alone();
  LayOut(parameters);
  values_ = at::zeros({elements_}, options_.values);
  for (const Placement& placement : placements_) {
    Parameter& parameter = *placement.parameter;
    parameter.value = values_.narrow(0, placement.begin, parameter.elements())
                          .view(parameter.shape)
                          .set_requires_grad(true);
  }
}

void GradBuffer::LayOut(const std::vector<Parameter*>& parameters) {
  graph::FlatBuckets flat(graph::BucketStyle(graph::TrainingStyle{}, options_.shard_gradients),
                          replicas().size());
  std::vector<int> expected;
  for (Parameter* parameter : parameters) {
    const graph::FlatBuckets::Place place = flat.Append(parameter->elements());
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
  const int64_t kept = scatters() ? elements_ / replicas().size() : elements_;
  gradients_ = at::zeros({kept}, options_.values.dtype(at::kFloat));
  for (const Placement& place : placements_) {
    HookGradient(*place.parameter, this, &accumulators_);
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

at::Tensor GradBuffer::Open(size_t place) {
  const Placement& placement = placements_[place];
  const std::vector<int64_t>& shape = placement.parameter->shape;
  const int64_t elements = placement.parameter->elements();
  if (!scatters()) {
    return gradients_.narrow(0, placement.begin, elements).view(shape);
  }
  Bucket& bucket = buckets_[placement.bucket];
  if (!bucket.whole.defined()) {
    bucket.whole = at::zeros({bucket.end - bucket.begin}, gradients_.options());
  }
  return bucket.whole.narrow(0, placement.begin - bucket.begin, elements).view(shape);
}

void GradBuffer::CountReady(size_t place) {
  Bucket& bucket = buckets_[placements_[place].bucket];
  if ((last_microbatch_ || scatters()) && ++bucket.ready == bucket.expected) {
    StartReduction(&bucket);
  }
}

// Gradients are divided by dp before the sum, as Megatron does to keep float32 sums in range.
// Tokens of all dp ranks have passed through experts, including experts that no other rank holds.
void GradBuffer::StartReduction(Bucket* bucket) {
  if (groups_.dp.alone()) {
    return;
  }
  if (scatters()) {
    bucket->ready = 0;
    at::Tensor of_bucket = std::exchange(bucket->whole, {});
    scatter_->Finish();
    of_bucket.mul_(1.0 / groups_.dp.size());
    scatter_->Start(replicas(), std::move(of_bucket), {GradShard(*bucket)});
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
  if (options_.kind.sequence_parallel) {
    for (const Bucket& bucket : buckets_) {
      AllReduce(groups_.tp, GradShard(bucket));
    }
  }
  if (options_.kind.tied) {
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

// This rank's part of a bucket's gradients; under ZeRO 2 the only part it has.
at::Tensor GradBuffer::GradShard(const Bucket& bucket) const {
  if (!scatters()) {
    return Shard(gradients_, bucket);
  }
  const int64_t ranks = replicas().size();
  return gradients_.narrow(0, bucket.begin / ranks, (bucket.end - bucket.begin) / ranks);
}

std::vector<OwnedShard> GradBuffer::OwnedShards() const {
  const double norm_weight = NormWeight(options_.kind, options_.shard, groups_);
  std::vector<OwnedShard> shards;
  for (const Bucket& bucket : buckets_) {
    shards.push_back({Shard(values_, bucket), GradShard(bucket), options_.kind.decay, norm_weight});
  }
  return shards;
}

}  // namespace prism::launch
