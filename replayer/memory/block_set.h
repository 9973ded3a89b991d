// Free blocks ordered by size, then address: the caching allocator searches them for the best fit.
//
// A sorted sequence divided into chunks of bounded length. Allocators keep from tens to thousands
// of free blocks; moving a few hundred bytes inside a chunk is cheaper than following the nodes of
// a tree. One place is often asked for several times in a row, by requests that are cut off from
// one block and by frees that are merged into one: the place used last is tried before a search.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace prism::replayer {

class BlockSet {
 public:
  struct Entry {
    int64_t size = 0;
    uint64_t address = 0;
    uint32_t block = 0;

    // By size, then address; which block it is does not matter. Compared without branches, which
    // could not be predicted.
    friend bool operator==(const Entry& left, const Entry& right) {
      return left.size == right.size && left.address == right.address;
    }
    friend bool operator<(const Entry& left, const Entry& right) {
      const auto less = static_cast<unsigned>(left.size < right.size);
      const auto equal = static_cast<unsigned>(left.size == right.size);
      return (less | (equal & static_cast<unsigned>(left.address < right.address))) != 0;
    }
  };

  // A position in the sequence; valid until the set changes.
  struct Position {
    size_t chunk = 0;
    size_t index = 0;
  };

  void Insert(const Entry& entry);
  void Erase(const Entry& entry);  // which must be there
  void EraseAt(Position position);

  // The entry at a position becomes another: a block that is cut or grows often keeps its place.
  void Replace(Position position, const Entry& entry);

  // Where an entry is, which must be there.
  [[nodiscard]] Position Find(const Entry& entry) const;

  // The first entry not less than `entry`, or of at least that size.
  [[nodiscard]] Position LowerBound(const Entry& entry) const {
    return FirstNot([&](const Entry& other) { return other < entry; });
  }
  [[nodiscard]] Position FirstOf(int64_t size) const {
    return FirstNot([&](const Entry& other) { return other.size < size; });
  }

  [[nodiscard]] bool AtEnd(Position position) const { return position.chunk == chunks_.size(); }

  [[nodiscard]] const Entry& At(Position position) const {
    return chunks_[position.chunk][position.index];
  }

  [[nodiscard]] Position Next(Position position) const {
    return position.index + 1 < chunks_[position.chunk].size()
               ? Position{position.chunk, position.index + 1}
               : Position{position.chunk + 1, 0};
  }

  // 0 if there is no entry.
  [[nodiscard]] int64_t LargestSize() const {
    return chunks_.empty() ? 0 : chunks_.back().back().size;
  }

  // All entries in order.
  [[nodiscard]] std::vector<Entry> Entries() const;

 private:
  static constexpr size_t kChunkEntries = 128;

  // The first entry that is not less than what is looked for.
  template <typename Less>
  [[nodiscard]] Position FirstNot(Less less) const {
    if (IsFirstNot(last_, less)) {
      return last_;
    }
    size_t chunk = 0;
    while (chunk < chunks_.size() && less(chunks_[chunk].back())) {
      ++chunk;
    }
    if (chunk == chunks_.size()) {
      return {chunk, 0};
    }
    const Entry* const begin = chunks_[chunk].data();
    const Entry* first = begin;
    for (size_t count = chunks_[chunk].size(); count > 1;) {  // without branches
      const size_t half = count / 2;
      first += less(first[half - 1]) ? half : 0;
      count -= half;
    }
    return {chunk, static_cast<size_t>(first - begin)};
  }

  // False at the beginning of a later chunk.
  template <typename Less>
  [[nodiscard]] bool IsFirstNot(Position position, Less less) const {
    if (position.chunk >= chunks_.size() || (position.index == 0 && position.chunk > 0)) {
      return false;
    }
    const std::vector<Entry>& chunk = chunks_[position.chunk];
    return position.index < chunk.size() && !less(chunk[position.index]) &&
           (position.index == 0 || less(chunk[position.index - 1]));
  }

  std::vector<std::vector<Entry>> chunks_;  // none is empty
  Position last_;                           // where an entry was put
};

}  // namespace prism::replayer
