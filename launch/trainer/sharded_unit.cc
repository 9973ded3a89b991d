#include "launch/trainer/sharded_unit.h"

#include <utility>

#include "graph/job/flat_buckets.h"
#include "launch/trainer/parameters.h"

namespace prism::launch {
namespace {

// A whole tensor is one storage whose memory is allocated and freed: what autograd has saved of it,
// and every view, sees the current memory (FSDP2's alloc_storage and free_storage).
void AllocateMemory(const at::Tensor& tensor) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  const size_t bytes = tensor.nbytes();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

void FreeMemory(const at::Tensor& tensor) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(at::DataPtr(nullptr, tensor.device()));
  storage->set_nbytes(0);
}

}  // namespace

ShardedUnit::ShardedUnit(const std::vector<Members>& members,
                         const at::TensorOptions& values,
                         const ParallelGroups& groups)
    : groups_(groups) {
  for (const Members& of_kind : members) {
    std::vector<int64_t> sizes;
    for (const Parameter* parameter : of_kind.parameters) {
      sizes.push_back(parameter->elements());
    }
    Piece piece;
    piece.kind = of_kind.kind;
    piece.begin = shard_size_;
    piece.elements = graph::PaddedShard(sizes, ranks());
    piece.values = at::empty({ranks() * piece.elements}, values);
    piece.data = piece.values.variable_data();
    int64_t begin = 0;
    for (Parameter* parameter : of_kind.parameters) {
      parameter->value = piece.values.narrow(0, begin, parameter->elements())
                             .view(parameter->shape)
                             .set_requires_grad(true);
      places_.push_back({parameter, ranks() * piece.begin + begin});
      begin += parameter->elements();
    }
    FreeMemory(piece.values);  // views could only be made with memory allocated
    shard_size_ += piece.elements;
    pieces_.push_back(std::move(piece));
  }
}

void ShardedUnit::Initialize(const std::function<void(Parameter*)>& initialize) {
  const at::NoGradGuard no_grad;
  for (Piece& piece : pieces_) {
    AllocateMemory(piece.values);
    piece.data.zero_();
  }
  for (const Place& place : places_) {
    initialize(place.parameter);
  }
  std::vector<at::Tensor> parts;
  for (const Piece& piece : pieces_) {
    parts.push_back(piece.data.narrow(0, piece.elements * groups_.dp.index(), piece.elements));
  }
  shard_ = at::cat(parts);
  Reshard();
}

bool ShardedUnit::gathered() const {
  return pieces_.front().values.storage().nbytes() > 0;
}

void ShardedUnit::StartGather() {
  if (gathered() || arriving_.defined()) {
    return;
  }
  arriving_ = at::empty({ranks() * shard_size_}, shard_.options());
  gather_ = prism::launch::StartAllGather(groups_.dp, arriving_, shard_);
}

void ShardedUnit::Unshard() {
  if (gathered()) {
    return;
  }
  StartGather();
  Wait(gather_);
  gather_ = nullptr;
  const at::NoGradGuard no_grad;
  const at::Tensor by_rank = arriving_.view({ranks(), shard_size_});
  for (Piece& piece : pieces_) {
    AllocateMemory(piece.values);
    piece.data.view({ranks(), piece.elements})
        .copy_(by_rank.narrow(1, piece.begin, piece.elements));
  }
  arriving_ = at::Tensor();
}

void ShardedUnit::Reshard() {
  for (const Piece& piece : pieces_) {
    FreeMemory(piece.values);
  }
}

void ShardedUnit::HookGradients() {
  for (const Place& place : places_) {
    HookGradient(*place.parameter, this, &accumulators_);
  }
}

void ShardedUnit::OpenGradients() {
  if (!gradients_.defined()) {
    gradients_ = at::zeros({ranks() * shard_size_}, shard_.options().dtype(at::kFloat));
  }
}

at::Tensor ShardedUnit::Open(size_t place) {
  const Place& at = places_[place];
  return gradients_.narrow(0, at.begin, at.parameter->elements()).view(at.parameter->shape);
}

// The caller decides where the unit's backward pass ends.
void ShardedUnit::CountReady(size_t /*place*/) {
}

void ShardedUnit::StartReduction(GradScatter* scatter) {
  const at::NoGradGuard no_grad;
  at::Tensor by_rank = at::empty({ranks(), shard_size_}, gradients_.options());
  const at::Tensor share = at::scalar_tensor(1.0 / static_cast<double>(ranks()), at::kDouble);
  std::vector<at::Tensor> shards;
  for (const Piece& piece : pieces_) {
    at::Tensor part = by_rank.narrow(1, piece.begin, piece.elements);
    const at::Tensor whole =
        gradients_.narrow(0, ranks() * piece.begin, ranks() * piece.elements).view(part.sizes());
    at::mul_out(part, share, whole);
    shards.push_back(piece.grad_shard);
  }
  gradients_ = at::Tensor();
  scatter->Start(groups_.dp, by_rank.view(-1), std::move(shards));
}

at::Tensor ShardedUnit::ValueShard(size_t index) const {
  return shard_.narrow(0, pieces_[index].begin, pieces_[index].elements);
}

}  // namespace prism::launch
