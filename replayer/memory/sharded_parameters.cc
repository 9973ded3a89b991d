#include "replayer/memory/sharded_parameters.h"

#include <utility>

#include "replayer/memory/model_states.h"
#include "replayer/memory/workload_shards.h"

namespace prism::replayer {
namespace {

constexpr int64_t kStreams = 2;  // per chunk: one for gathers, one for scatters
constexpr int64_t kComputeStream = 0;
constexpr int64_t kFirstStream = 2;  // 0 is compute, 1 that of MemoryAccount's collectives

}  // namespace

bool IsSharded(const graph::JobSpec& job, const graph::TrainingStyle& style) {
  const int64_t replicas = int64_t{job.parallel.dp} * job.parallel.cp;
  return (style.data_parallel == graph::DataParallelKind::kFsdp && replicas > 1) ||
         ShardsByUnit(job, style);
}

bool AccumulatesGradients(const graph::JobSpec& job) {
  return job.parallel.pp > 1 && job.microbatches() > 1;
}

ShardedParameters::ShardedParameters(const graph::JobSpec& job,
                                     const graph::TrainingStyle& style,
                                     bool accumulates,
                                     const std::vector<ShardedChunk>& chunks,
                                     MemoryAccount* account)
    : value_bytes_(DataTypeBytes(job.compute_dtype)),
      gathered_bytes_(style.fp8_param_gather ? 1 : value_bytes_),
      reduced_bytes_(DataTypeBytes(style.gradient_type)),
      by_unit_(ShardsByUnit(job, style)),
      frozen_(style.frozen_weights),
      reshards_(style.reshard_after_forward),
      accumulates_(accumulates && !by_unit_),
      keeps_shards_(!HasTorchModules(style)),
      casts_shards_(HasTorchModules(style)),
      account_(account) {
  for (const ShardedChunk& shape : chunks) {
    Chunk chunk;
    chunk.shape = shape;
    chunk.groups.resize(shape.units.size() + 1);
    for (size_t place = 0; place < shape.units.size(); ++place) {
      const ShardedChunk::Unit& unit = shape.units[place];
      Group& group = chunk.groups[unit.of_root ? 0 : place + 1];
      group.elements += unit.elements;
      group.shard += unit.shard;
    }
    chunk.stream = kFirstStream + kStreams * static_cast<int64_t>(chunks_.size());
    chunks_.push_back(std::move(chunk));
  }
}

ShardedParameters::Group& ShardedParameters::GroupOf(int64_t chunk, int64_t place) {
  Chunk& of = chunks_[static_cast<size_t>(chunk)];
  const auto index = static_cast<size_t>(place);
  return of.groups[of.shape.units[index].of_root ? 0 : index + 1];
}

void ShardedParameters::Release(std::optional<MemoryAccount::Block>* block) {
  if (block->has_value()) {
    account_->Free(**block);
    block->reset();
  }
}

void ShardedParameters::Fetch(Chunk* chunk, Group* group) {
  if (group->elements > 0 && !group->flat.has_value() && !group->copies.has_value()) {
    const int64_t cast = casts_shards_ ? group->shard * gathered_bytes_ : 0;
    const int64_t stream = by_unit_ ? kComputeStream : chunk->stream;
    const MemoryAccount::Block own = account_->Allocate(cast, MemoryUse::kTemporaries, stream);
    group->flat =
        account_->Allocate(group->elements * gathered_bytes_, MemoryUse::kTemporaries, stream);
    account_->Free(own);
  }
}

void ShardedParameters::CopyOut(Group* group) {
  group->copies = account_->Allocate(group->elements * gathered_bytes_,
                                     by_unit_ ? MemoryUse::kTemporaries : MemoryUse::kParameters);
}

void ShardedParameters::Gather(Chunk* chunk, Group* group) {
  Fetch(chunk, group);
  if (group->flat.has_value()) {
    CopyOut(group);
  }
  Release(&group->flat);
}

// The flat buffer of a forward pass is kept until the next one has been copied out.
void ShardedParameters::BeginForward(int64_t chunk, int64_t place) {
  Chunk& of = chunks_[static_cast<size_t>(chunk)];
  if (by_unit_) {
    Gather(&of, &GroupOf(chunk, place));
    if (static_cast<size_t>(place) + 1 < of.shape.units.size()) {
      Fetch(&of, &GroupOf(chunk, place + 1));
    }
    return;
  }
  for (Group* group : {&of.groups.front(), &GroupOf(chunk, place)}) {
    if (group->copies.has_value() || group->elements == 0) {
      continue;
    }
    Fetch(&of, group);
    Release(&of.last_flat);
    CopyOut(group);
    of.last_flat = std::exchange(group->flat, {});
  }
}

void ShardedParameters::EndForward(int64_t chunk, int64_t place) {
  Chunk& of = chunks_[static_cast<size_t>(chunk)];
  const ShardedChunk::Unit& unit = of.shape.units[static_cast<size_t>(place)];
  if (!unit.of_root && !unit.stays && reshards_) {
    Release(&GroupOf(chunk, place).copies);
  }
}

void ShardedParameters::EndForward(int64_t chunk) {
  Release(&chunks_[static_cast<size_t>(chunk)].last_flat);
}

// The previous unit is prefetched meanwhile.
void ShardedParameters::BeginBackward(int64_t chunk, int64_t place) {
  Chunk& of = chunks_[static_cast<size_t>(chunk)];
  Group& group = GroupOf(chunk, place);
  Gather(&of, &group);
  if (place > 0 && !of.shape.units[static_cast<size_t>(place) - 1].of_root) {
    Fetch(&of, &GroupOf(chunk, place - 1));
  }
  if (by_unit_ && group.gradients.empty()) {
    group.gradients.push_back(
        account_->Allocate(group.elements * reduced_bytes_, MemoryUse::kTemporaries));
  }
}

// Summed in the type of the reduction if they have to wait for other micro-batches.
void ShardedParameters::MakeGradients(int64_t chunk, int64_t place) {
  if (by_unit_ || frozen_) {
    return;
  }
  Chunk& of = chunks_[static_cast<size_t>(chunk)];
  const int64_t elements = of.shape.units[static_cast<size_t>(place)].elements;
  Group& group = GroupOf(chunk, place);
  const MemoryAccount::Block own =
      account_->Allocate(elements * value_bytes_, MemoryUse::kGradients);
  if (!accumulates_) {
    group.gradients.push_back(own);
    return;
  }
  if (of.summed.insert(place).second) {
    group.gradients.push_back(account_->Allocate(elements * reduced_bytes_, MemoryUse::kGradients));
  }
  account_->Free(own);
}

std::optional<int64_t> ShardedParameters::PassingGradientBytes(int64_t chunk, int64_t place) const {
  if (by_unit_ || frozen_) {
    return 0;
  }
  const Chunk& of = chunks_[static_cast<size_t>(chunk)];
  const bool adds = accumulates_ && of.summed.contains(place);
  return adds ? std::optional(of.shape.units[static_cast<size_t>(place)].elements * value_bytes_)
              : std::nullopt;
}

void ShardedParameters::EndBackward(int64_t chunk, int64_t place) {
  Chunk& of = chunks_[static_cast<size_t>(chunk)];
  if (!of.shape.units[static_cast<size_t>(place)].of_root && !accumulates_) {
    Scatter(&of, &GroupOf(chunk, place));
  }
}

void ShardedParameters::EndBackward(int64_t chunk, bool last) {
  Chunk& of = chunks_[static_cast<size_t>(chunk)];
  if (!accumulates_) {
    Scatter(&of, &of.groups.front());
  } else if (last) {
    for (Group& group : of.groups) {
      Scatter(&of, &group);
    }
    of.summed.clear();
  }
  Release(&of.last_scatter);
}

void ShardedParameters::BeginIteration() {
  for (Chunk& chunk : chunks_) {
    for (Group& group : chunk.groups) {
      Release(&group.scattered);
    }
  }
}

// The result of a later micro-batch is added to what is already there.
void ShardedParameters::Scatter(Chunk* chunk, Group* group) {
  if (group->elements == 0) {
    return;
  }
  Release(&group->copies);
  if (frozen_) {
    return;
  }
  Release(&chunk->last_scatter);
  chunk->last_scatter = account_->Allocate(
      (group->elements + (by_unit_ ? group->shard : 0)) * reduced_bytes_, MemoryUse::kTemporaries);
  for (const MemoryAccount::Block& block : group->gradients) {
    account_->Free(block);
  }
  group->gradients.clear();
  if (keeps_shards_) {
    return;
  }
  const MemoryAccount::Block arrived =
      account_->Allocate(group->shard * reduced_bytes_, MemoryUse::kGradients, chunk->stream + 1);
  if (group->scattered.has_value()) {
    account_->Free(arrived);
  } else {
    group->scattered = arrived;
  }
}

}  // namespace prism::replayer
