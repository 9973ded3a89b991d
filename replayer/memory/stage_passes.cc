#include "replayer/memory/stage_passes.h"

#include <algorithm>
#include <utility>

namespace prism::replayer {

StagePasses::StagePasses(const StageUnits& units,
                         int64_t chunks,
                         BesidePasses beside,
                         MemoryAccount* account)
    : units_(units),
      beside_(std::move(beside)),
      account_(account),
      in_flight_(static_cast<size_t>(chunks)),
      to_defer_(beside_.deferred_heads) {
}

void StagePasses::Run(const std::vector<ChunkPass>& passes, bool everything) {
  everything_ = everything;
  std::vector<int64_t> to_come(in_flight_.size());  // remaining backward passes, by chunk
  for (const ChunkPass& pass : passes) {
    to_come[static_cast<size_t>(pass.chunk)] += pass.forward ? 0 : 1;
  }
  std::optional<PassRepeats> pairs = everything ? std::nullopt : PairsOf(passes);
  for (auto pass = passes.begin(); pass != passes.end(); ++pass) {
    if (pass->forward) {
      Forward(pass->chunk);
      continue;
    }
    Backward(pass->chunk, --to_come[static_cast<size_t>(pass->chunk)] == 0);
    if (pairs.has_value()) {
      pass += 2 * pairs->PairsToLeaveOut(in_flight_.front());
    }
  }
  FreeAll(&deferred_, account_);
}

// Null if anything other than the passes themselves decides what is allocated.
std::optional<PassRepeats> StagePasses::PairsOf(const std::vector<ChunkPass>& passes) const {
  const bool alike = in_flight_.size() == 1 && beside_.offloaded == nullptr &&
                     beside_.sharded == nullptr && to_defer_ == 0;
  const auto backward =
      std::ranges::count_if(passes, [](const ChunkPass& pass) { return !pass.forward; });
  return alike ? std::optional(PassRepeats(backward, account_)) : std::nullopt;
}

bool StagePasses::Leaves(int64_t chunk, int64_t place) const {
  return beside_.offloaded != nullptr && units_.IsLayer(chunk, place);
}

// Temporary tensors that are freed before anything else is allocated.
void StagePasses::Pass(const std::vector<Tensor>& tensors, const PassingTensors& passing) {
  if (tensors.empty() || (!everything_ && account_->Pass(passing, MemoryUse::kTemporaries))) {
    return;
  }
  AllocateAll(tensors, MemoryUse::kTemporaries, account_, &temporaries_);
  FreeAll(&temporaries_, account_);
}

void StagePasses::Forward(int64_t chunk) {
  ShardedParameters* sharded = beside_.sharded;
  BlocksInFlight& in_flight = in_flight_[static_cast<size_t>(chunk)];
  in_flight.emplace_back(static_cast<size_t>(units_.CountOf(chunk)));
  for (int64_t place = 0; place < units_.CountOf(chunk); ++place) {
    if (sharded != nullptr) {
      sharded->BeginForward(chunk, place);
    }
    MemoryBlocks& saved = in_flight.back()[static_cast<size_t>(place)];
    ForwardOf(units_.At(chunk, place), units_.IsHead(chunk, place), &saved);
    if (Leaves(chunk, place)) {
      beside_.offloaded->Leave(std::exchange(saved, {}));
    }
    if (sharded != nullptr) {
      sharded->EndForward(chunk, place);
    }
  }
  if (sharded != nullptr) {
    sharded->EndForward(chunk);
  }
}

// PyTorch's own loss, which is used with FSDP, allocates last what it keeps of the logits.
void StagePasses::ForwardOf(const StageUnit& unit, bool is_head, MemoryBlocks* saved) {
  if (is_head && beside_.sharded != nullptr && !beside_.sharded->by_unit()) {
    AllocateAll(unit.tensors.forward, MemoryUse::kTemporaries, account_, &temporaries_);
    AllocateAll(unit.tensors.saved, MemoryUse::kActivations, account_, saved);
    FreeAll(&temporaries_, account_);
    return;
  }
  AllocateAll(unit.tensors.saved, MemoryUse::kActivations, account_, saved);
  Pass(unit.tensors.forward, unit.forward);
}

// Gradients of a unit's parameters, beside the temporary tensors of its backward pass.
void StagePasses::MakeGradients(const StageUnit& unit, int64_t chunk, int64_t place) {
  if (beside_.sharded == nullptr) {
    Pass(unit.tensors.backward, unit.backward);
    return;
  }
  const std::optional<int64_t> passing = beside_.sharded->PassingGradientBytes(chunk, place);
  if (passing.has_value() && !everything_) {
    PassingTensors together = unit.backward;
    together.Add(*passing, account_->config());
    if (account_->Pass(together, std::nullopt)) {
      return;
    }
  }
  AllocateAll(unit.tensors.backward, MemoryUse::kTemporaries, account_, &temporaries_);
  beside_.sharded->MakeGradients(chunk, place);
  FreeAll(&temporaries_, account_);
}

// For the chunk's oldest micro-batch; `last`: the last of the iteration.
void StagePasses::Backward(int64_t chunk, bool last) {
  BlocksInFlight& in_flight = in_flight_[static_cast<size_t>(chunk)];
  ShardedParameters* sharded = beside_.sharded;
  MemoryBlocks whole_gradients;
  for (int64_t place = units_.CountOf(chunk) - 1; place >= 0; --place) {
    const bool left = Leaves(chunk, place);
    if (left) {
      beside_.offloaded->Begin();
    }
    const StageUnit& unit = units_.At(chunk, place);
    const bool gathers_first = sharded != nullptr && sharded->by_unit();
    if (gathers_first) {
      sharded->BeginBackward(chunk, place);
    }
    Pass(unit.tensors.loss, unit.loss);
    if (whole_gradients.empty() && !units_.IsHead(chunk, place)) {
      AllocateAll(units_.whole_gradients(), MemoryUse::kTemporaries, account_, &whole_gradients);
    }
    if (sharded != nullptr && !gathers_first) {
      sharded->BeginBackward(chunk, place);
    }
    MakeGradients(unit, chunk, place);
    FreeAll(&in_flight.front()[static_cast<size_t>(place)], account_);
    if (left) {
      beside_.offloaded->End();
    }
    if (units_.IsHead(chunk, place) && to_defer_ > 0) {
      AllocateAll(beside_.of_deferred_head, MemoryUse::kActivations, account_, &deferred_);
      --to_defer_;
    }
    if (sharded != nullptr) {
      sharded->EndBackward(chunk, place);
    }
  }
  if (sharded != nullptr) {
    sharded->EndBackward(chunk, last);
  }
  FreeAll(&whole_gradients, account_);
  in_flight.pop_front();
}

}  // namespace prism::replayer
