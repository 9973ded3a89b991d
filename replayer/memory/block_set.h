// Free blocks ordered by size, then address: the caching allocator searches them for the best fit.
#pragma once

#include <cstdint>
#include <iterator>
#include <set>
#include <vector>

namespace prism::replayer {

class BlockSet {
 public:
  struct Entry {
    int64_t size = 0;
    uint64_t address = 0;
    uint32_t block = 0;

    // By size, then address; which block it is does not matter.
    friend bool operator==(const Entry& left, const Entry& right) {
      return left.size == right.size && left.address == right.address;
    }
    friend bool operator<(const Entry& left, const Entry& right) {
      return left.size != right.size ? left.size < right.size : left.address < right.address;
    }
  };

  using Position = std::set<Entry>::const_iterator;

  void Insert(const Entry& entry) { entries_.insert(entry); }
  void Erase(const Entry& entry) { EraseAt(Find(entry)); }  // which must be there
  void EraseAt(Position position) { entries_.erase(position); }

  // The entry at a position becomes another.
  void Replace(Position position, const Entry& entry);

  // Where an entry is, which must be there.
  [[nodiscard]] Position Find(const Entry& entry) const;

  // The first entry of at least that size.
  [[nodiscard]] Position FirstOf(int64_t size) const {
    return entries_.lower_bound({.size = size});
  }

  [[nodiscard]] bool AtEnd(Position position) const { return position == entries_.end(); }
  [[nodiscard]] static const Entry& At(Position position) { return *position; }
  [[nodiscard]] static Position Next(Position position) { return std::next(position); }

  // All entries in order.
  [[nodiscard]] std::vector<Entry> Entries() const { return {entries_.begin(), entries_.end()}; }

 private:
  std::set<Entry> entries_;
};

}  // namespace prism::replayer
