#include "replayer/memory/block_set.h"

#include <algorithm>
#include <iterator>

#include "graph/base/check.h"

namespace prism::replayer {
namespace {

// The first of `count` > 0 sorted entries not less than `entry`, one of which is. Without branches.
const BlockSet::Entry* LowerBoundIn(const BlockSet::Entry* first,
                                    size_t count,
                                    const BlockSet::Entry& entry) {
  while (count > 1) {
    const size_t half = count / 2;
    first += first[half - 1] < entry ? half : 0;
    count -= half;
  }
  return first;
}

}  // namespace

BlockSet::Position BlockSet::LowerBound(const Entry& entry) const {
  size_t chunk = 0;
  while (chunk < chunks_.size() && chunks_[chunk].back() < entry) {
    ++chunk;
  }
  if (chunk == chunks_.size()) {
    return {chunk, 0};
  }
  const Entry* first = chunks_[chunk].data();
  const Entry* found = LowerBoundIn(first, chunks_[chunk].size(), entry);
  return {chunk, static_cast<size_t>(found - first)};
}

BlockSet::Position BlockSet::Find(const Entry& entry) const {
  const Position position = LowerBound(entry);
  PRISM_CHECK(!AtEnd(position) && At(position).block == entry.block);
  return position;
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
      chunks_.emplace_back().reserve(kChunkEntries + 1);
      chunks_.back().push_back(entry);
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
  size_t index = position.index;
  for (; index > 0 && entry < chunk[index - 1]; --index) {
    chunk[index] = chunk[index - 1];
  }
  for (; index + 1 < chunk.size() && chunk[index + 1] < entry; ++index) {
    chunk[index] = chunk[index + 1];
  }
  chunk[index] = entry;
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
