#include "replayer/memory/block_set.h"

#include <algorithm>

#include "graph/base/check.h"

namespace prism::replayer {
BlockSet::Position BlockSet::Find(const Entry& entry) const {
  const Position position = LowerBound(entry);
  PRISM_CHECK(!AtEnd(position) && At(position).block == entry.block);
  return position;
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
  last_ = position;
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
  EraseAt(Find(entry));
}

void BlockSet::Replace(Position position, const Entry& entry) {
  std::vector<Entry>& chunk = chunks_[position.chunk];
  const bool in_chunk = (position.chunk == 0 || chunks_[position.chunk - 1].back() < entry) &&
                        (position.chunk + 1 == chunks_.size() || entry < chunk.back());
  if (!in_chunk) {
    EraseAt(position);
    Insert(entry);
    return;
  }
  const auto old = chunk.begin() + static_cast<ptrdiff_t>(position.index);
  auto place = old;
  if (old != chunk.begin() && entry < *(old - 1)) {
    place = std::lower_bound(chunk.begin(), old, entry);
    std::move_backward(place, old, old + 1);
  } else if (old + 1 != chunk.end() && *(old + 1) < entry) {
    place = std::lower_bound(old + 1, chunk.end(), entry) - 1;
    std::move(old + 1, place + 1, old);
  }
  *place = entry;
  last_ = {position.chunk, static_cast<size_t>(place - chunk.begin())};
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
