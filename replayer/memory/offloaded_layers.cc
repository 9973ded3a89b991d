#include "replayer/memory/offloaded_layers.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

namespace prism::replayer {

OffloadedLayers::OffloadedLayers(const StageUnits& units,
                                 UnitTensors layer,
                                 const std::vector<ChunkPass>& passes,
                                 int64_t prefetch,
                                 MemoryAccount* account)
    : layer_(std::move(layer)), account_(account) {
  ReadPasses(units, passes);
  fetches_ = graph::FetchesOf(touches_, prefetch);
  fetched_.resize(touches_.size());
}

void OffloadedLayers::Leave(MemoryBlocks saved) {
  FreeAll(&leaving_, account_);
  leaving_ = std::move(saved);
  leaving_piece_ = touches_[touch_++].piece;
  most_on_host_ = std::max(most_on_host_, ++on_host_);
}

void OffloadedLayers::Begin() {
  for (const uint32_t piece : fetches_[touch_]) {
    if (piece == leaving_piece_) {
      FreeAll(&leaving_, account_);
    }
    AllocateAll(layer_.saved, MemoryUse::kActivations, account_, &fetched_[piece]);
  }
  --on_host_;
}

void OffloadedLayers::End() {
  FreeAll(&leaving_, account_);
  FreeAll(&fetched_[touches_[touch_++].piece], account_);
}

// A backward pass takes the chunk's oldest micro-batch.
void OffloadedLayers::ReadPasses(const StageUnits& units, const std::vector<ChunkPass>& passes) {
  std::map<std::pair<int64_t, int64_t>, std::deque<uint32_t>> waiting;  // by chunk and place
  uint32_t pieces = 0;
  for (const ChunkPass& pass : passes) {
    const int64_t count = units.CountOf(pass.chunk);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = pass.forward ? i : count - 1 - i;
      if (!units.IsLayer(pass.chunk, place)) {
        continue;
      }
      std::deque<uint32_t>& pieces_there = waiting[{pass.chunk, place}];
      if (pass.forward) {
        pieces_there.push_back(pieces++);
        touches_.push_back({pieces_there.back(), false, true});
      } else {
        touches_.push_back({pieces_there.front(), true, false});
        pieces_there.pop_front();
      }
    }
  }
}

}  // namespace prism::replayer
