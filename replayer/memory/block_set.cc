#include "replayer/memory/block_set.h"

#include <algorithm>
#include <iterator>

#include "graph/base/check.h"

namespace prism::replayer {

BlockSet::Position BlockSet::LowerBound(const Entry& entry) const {
  const auto chunk = std::partition_point(
      chunks_.begin(), chunks_.end(),
      [&](const std::vector<Entry>& candidate) { return candidate.back() < entry; });
  if (chunk == chunks_.end()) {
    return {chunks_.size(), 0};
  }
  const auto found = std::lower_bound(chunk->begin(), chunk->end(), entry);
  return {static_cast<size_t>(chunk - chunks_.begin()),
          static_cast<size_t>(found - chunk->begin())};
}

BlockSet::Position BlockSet::Next(Position position) const {
  return position.index + 1 < chunks_[position.chunk].size()
             ? Position{position.chunk, position.index + 1}
             : Position{position.chunk + 1, 0};
}

void BlockSet::Insert(const Entry& entry) {
  Position position = LowerBound(entry);
  if (AtEnd(position)) {
    if (chunks_.empty()) {
      chunks_.push_back({entry});
      return;
    }
    position = {chunks_.size() - 1, chunks_.back().size()};
  }
  std::vector<Entry>& chunk = chunks_[position.chunk];
  chunk.insert(chunk.begin() + static_cast<ptrdiff_t>(position.index), entry);
  if (chunk.size() > kChunkEntries) {
    const auto middle = chunk.begin() + kChunkEntries / 2;
    std::vector<Entry> upper(middle, chunk.end());
    chunk.erase(middle, chunk.end());
    chunks_.insert(chunks_.begin() + static_cast<ptrdiff_t>(position.chunk) + 1, std::move(upper));
  }
}

void BlockSet::Erase(const Entry& entry) {
  const Position position = LowerBound(entry);
  PRISM_CHECK(!AtEnd(position) && At(position).block == entry.block);
  EraseAt(position);
}

void BlockSet::EraseAt(Position position) {
  std::vector<Entry>& chunk = chunks_[position.chunk];
  chunk.erase(chunk.begin() + static_cast<ptrdiff_t>(position.index));
  if (chunk.empty()) {
    chunks_.erase(chunks_.begin() + static_cast<ptrdiff_t>(position.chunk));
  }
}

std::vector<BlockSet::Entry> BlockSet::Entries() const {
  std::vector<Entry> entries;
  for (const std::vector<Entry>& chunk : chunks_) {
    entries.insert(entries.end(), chunk.begin(), chunk.end());
  }
  return entries;
}

}  // namespace prism::replayer
