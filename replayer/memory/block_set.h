// Free blocks ordered by size, then address: the caching allocator searches them for the best fit.
//
// A sorted sequence divided into chunks of bounded length. Allocators keep from tens to thousands
// of free blocks; moving a few hundred bytes inside a chunk is cheaper than following the nodes of
// a tree.
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

  // The first entry not less than `entry`.
  [[nodiscard]] Position LowerBound(const Entry& entry) const;

  [[nodiscard]] bool AtEnd(Position position) const { return position.chunk == chunks_.size(); }

  [[nodiscard]] const Entry& At(Position position) const {
    return chunks_[position.chunk][position.index];
  }

  [[nodiscard]] Position Next(Position position) const;

  // 0 if there is no entry.
  [[nodiscard]] int64_t LargestSize() const {
    return chunks_.empty() ? 0 : chunks_.back().back().size;
  }

  // All entries in order.
  [[nodiscard]] std::vector<Entry> Entries() const;

 private:
  static constexpr size_t kChunkEntries = 128;

  std::vector<std::vector<Entry>> chunks_;  // none is empty
};

}  // namespace prism::replayer
