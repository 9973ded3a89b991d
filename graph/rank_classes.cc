#include "graph/rank_classes.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "graph/base/check.h"
#include "graph/base/mix.h"
#include "graph/rank_slots.h"

namespace prism::graph {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// The words of many signatures, concatenated; signature i is at begin[i] .. begin[i + 1].
struct Signatures {
  std::vector<uint64_t> words;
  std::vector<size_t> begin = {0};

  void Clear() {
    words.clear();
    begin.assign(1, 0);
  }

  void Close() { begin.push_back(words.size()); }

  [[nodiscard]] std::span<const uint64_t> of(size_t item) const {
    return std::span(words).subspan(begin[item], begin[item + 1] - begin[item]);
  }
};

// Items of one kind (ranks or communicators) with their current class. The invariant that makes
// partial rounds exact: after each Split the items of a class had equal signatures; an item none of
// whose neighbours got a new class since then still has that signature, and one with such a
// neighbour has a signature that contains a class number never used before.
class Partition {
 public:
  explicit Partition(size_t item_count) : class_of_(item_count, 0), size_(1, 0) {
    size_[0] = static_cast<uint32_t>(item_count);
  }

  [[nodiscard]] uint32_t class_of(size_t item) const { return class_of_[item]; }

  // Alone in its class: no signature can split it any more.
  [[nodiscard]] bool IsAlone(size_t item) const { return size_[class_of_[item]] == 1; }

  [[nodiscard]] const std::vector<uint32_t>& classes() const { return class_of_; }

  // Splits the classes of `dirty` (ascending items) by signature i of dirty[i]. Items of a class
  // that are not dirty keep its number; where all are dirty the largest part keeps it. Returns the
  // items whose number changed, ascending.
  std::vector<uint32_t> Split(const std::vector<uint32_t>& dirty, const Signatures& signatures) {
    Group(dirty, signatures);
    const std::vector<uint32_t> number = NumberGroups();
    std::vector<uint32_t> changed;
    for (size_t i = 0; i < dirty.size(); ++i) {
      const uint32_t fresh = number[group_of_[i]];
      if (fresh != class_of_[dirty[i]]) {
        class_of_[dirty[i]] = fresh;
        changed.push_back(dirty[i]);
      }
    }
    for (uint32_t group = 0; group < groups_.size(); ++group) {
      if (number[group] != groups_[group].old_class) {
        size_[groups_[group].old_class] -= groups_[group].size;
      }
    }
    return changed;
  }

 private:
  struct PartOfClass {
    uint32_t old_class = 0;
    uint32_t leader = 0;  // index into dirty
    uint32_t size = 0;
    uint32_t next = kNone;  // next group with the same hash
  };

  // Gives each group its class number. The scratch by class is cleared afterwards, not before: a
  // round may touch few of very many classes.
  std::vector<uint32_t> NumberGroups() {
    dirty_in_class_.resize(size_.size(), 0);
    largest_.resize(size_.size(), kNone);
    for (uint32_t group = 0; group < groups_.size(); ++group) {
      const uint32_t old = groups_[group].old_class;
      dirty_in_class_[old] += groups_[group].size;
      if (largest_[old] == kNone || groups_[group].size > groups_[largest_[old]].size) {
        largest_[old] = group;
      }
    }
    std::vector<uint32_t> number(groups_.size());
    for (uint32_t group = 0; group < groups_.size(); ++group) {
      const uint32_t old = groups_[group].old_class;
      if (dirty_in_class_[old] == size_[old] && largest_[old] == group) {
        number[group] = old;
        continue;
      }
      number[group] = static_cast<uint32_t>(size_.size());
      size_.push_back(groups_[group].size);
    }
    for (const PartOfClass& group : groups_) {
      dirty_in_class_[group.old_class] = 0;
      largest_[group.old_class] = kNone;
    }
    return number;
  }

  // Groups dirty items by (class, signature). Hashes only find candidates; equality is compared.
  void Group(const std::vector<uint32_t>& dirty, const Signatures& signatures) {
    groups_.clear();
    group_of_.resize(dirty.size());
    std::unordered_map<uint64_t, uint32_t> first_with_hash;  // looked up, never iterated
    for (uint32_t i = 0; i < dirty.size(); ++i) {
      const std::span<const uint64_t> words = signatures.of(i);
      const uint32_t old = class_of_[dirty[i]];
      uint64_t hash = MixBits(old ^ words.size());
      for (const uint64_t word : words) {
        hash = MixBits(hash ^ word);
      }
      const auto fresh = static_cast<uint32_t>(groups_.size());
      const auto [found, inserted] = first_with_hash.try_emplace(hash, fresh);
      uint32_t group = found->second;
      uint32_t last = kNone;
      while (!inserted && group != kNone && !Same(groups_[group], old, words, signatures)) {
        last = group;
        group = groups_[group].next;
      }
      if (inserted || group == kNone) {
        group = fresh;
        groups_.push_back({.old_class = old, .leader = i});
        if (last != kNone) {
          groups_[last].next = fresh;
        }
      }
      group_of_[i] = group;
      ++groups_[group].size;
    }
  }

  static bool Same(const PartOfClass& group,
                   uint32_t old_class,
                   std::span<const uint64_t> words,
                   const Signatures& signatures) {
    return group.old_class == old_class && std::ranges::equal(signatures.of(group.leader), words);
  }

  std::vector<uint32_t> class_of_;
  std::vector<uint32_t> size_;       // by class
  std::vector<PartOfClass> groups_;  // of the current Split
  std::vector<uint32_t> group_of_;   // by index into dirty
  // Scratch of NumberGroups, by class.
  std::vector<uint32_t> dirty_in_class_;
  std::vector<uint32_t> largest_;
};

// Flat lists by item, filled in two passes (count, then place).
struct Adjacency {
  std::vector<uint32_t> begin;
  std::vector<uint32_t> item;
  std::vector<uint16_t> label;

  [[nodiscard]] size_t size(size_t of) const { return begin[of + 1] - begin[of]; }
};

// For each target in `ids`: who names it, and in which slot.
Adjacency Reverse(const std::vector<uint32_t>& begin,
                  const std::vector<uint32_t>& ids,
                  size_t target_count) {
  Adjacency reverse;
  reverse.begin.assign(target_count + 1, 0);
  reverse.item.resize(ids.size());
  reverse.label.resize(ids.size());
  for (const uint32_t target : ids) {
    ++reverse.begin[target + 1];
  }
  for (size_t i = 0; i < target_count; ++i) {
    reverse.begin[i + 1] += reverse.begin[i];
  }
  std::vector<uint32_t> next(reverse.begin.begin(), reverse.begin.end() - 1);
  for (uint32_t from = 0; from + 1 < begin.size(); ++from) {
    for (uint32_t i = begin[from]; i < begin[from + 1]; ++i) {
      const uint32_t place = next[ids[i]]++;
      reverse.item[place] = from;
      reverse.label[place] = static_cast<uint16_t>(i - begin[from]);
    }
  }
  return reverse;
}

// Collects distinct items, hands them out ascending.
class ItemSet {
 public:
  explicit ItemSet(size_t item_count) : in_(item_count, 0) {}

  void Add(uint32_t item) {
    if (in_[item] == 0) {
      in_[item] = 1;
      items_.push_back(item);
    }
  }

  std::vector<uint32_t> Take() {
    std::ranges::sort(items_);
    for (const uint32_t item : items_) {
      in_[item] = 0;
    }
    return std::exchange(items_, {});
  }

 private:
  std::vector<char> in_;
  std::vector<uint32_t> items_;
};

class Refinement {
 public:
  explicit Refinement(const Graph& graph)
      : table_(graph.ranks),
        ranks_(graph.ranks.size()),
        comms_(graph.communicators.size()),
        users_of_comm_(Reverse(table_.comm_begin, table_.comm_ids, graph.communicators.size())),
        named_by_(Reverse(table_.peer_begin, table_.peer_ids, graph.ranks.size())),
        reverse_slot_(ReversePeerSlots(table_)),
        dirty_ranks_(graph.ranks.size()),
        dirty_comms_(graph.communicators.size()) {}

  void Run(const Graph& graph,
           const std::vector<uint32_t>& rank_colour,
           const std::vector<uint32_t>& comm_colour) {
    Start(graph, rank_colour, comm_colour);
    for (uint32_t comm = 0; comm < graph.communicators.size(); ++comm) {
      dirty_comms_.Add(comm);
    }
    for (uint32_t rank = 0; rank < table_.size(); ++rank) {
      dirty_ranks_.Add(rank);
    }
    while (true) {
      MarkMembers(SplitCommunicators());
      const std::vector<uint32_t> changed = SplitRanks();
      if (changed.empty()) {
        return;
      }
      for (const uint32_t rank : changed) {
        MarkNeighbours(rank);
      }
    }
  }

  [[nodiscard]] const std::vector<uint32_t>& rank_classes() const { return ranks_.classes(); }

  [[nodiscard]] const std::vector<uint32_t>& comm_classes() const { return comms_.classes(); }

 private:
  void Start(const Graph& graph,
             const std::vector<uint32_t>& rank_colour,
             const std::vector<uint32_t>& comm_colour) {
    std::vector<uint32_t> all(table_.size());
    signatures_.Clear();
    for (uint32_t rank = 0; rank < table_.size(); ++rank) {
      all[rank] = rank;
      signatures_.words.push_back(table_.role[rank]);
      signatures_.words.push_back(rank_colour[rank]);
      signatures_.Close();
    }
    ranks_.Split(all, signatures_);
    all.resize(graph.communicators.size());
    signatures_.Clear();
    for (uint32_t comm = 0; comm < all.size(); ++comm) {
      all[comm] = comm;
      signatures_.words.push_back(comm_colour[comm]);
      signatures_.words.push_back(graph.communicators.members_of(CommId(comm)).size());
      signatures_.Close();
    }
    comms_.Split(all, signatures_);
  }

  // Signature of a communicator: how often each (class, slot) occurs among its users.
  std::vector<uint32_t> SplitCommunicators() {
    std::vector<uint32_t> dirty = dirty_comms_.Take();
    std::erase_if(dirty, [&](uint32_t comm) { return comms_.IsAlone(comm); });
    signatures_.Clear();
    std::vector<uint64_t> users;
    for (const uint32_t comm : dirty) {
      users.clear();
      for (uint32_t i = users_of_comm_.begin[comm]; i < users_of_comm_.begin[comm + 1]; ++i) {
        const uint64_t user_class = ranks_.class_of(users_of_comm_.item[i]);
        users.push_back((user_class << 16U) | users_of_comm_.label[i]);
      }
      std::ranges::sort(users);
      for (size_t i = 0; i < users.size();) {
        const size_t run = i;
        while (i < users.size() && users[i] == users[run]) {
          ++i;
        }
        signatures_.words.push_back(users[run]);
        signatures_.words.push_back(i - run);
      }
      signatures_.Close();
    }
    return comms_.Split(dirty, signatures_);
  }

  std::vector<uint32_t> SplitRanks() {
    std::vector<uint32_t> dirty = dirty_ranks_.Take();
    std::erase_if(dirty, [&](uint32_t rank) { return ranks_.IsAlone(rank); });
    signatures_.Clear();
    for (const uint32_t rank : dirty) {
      for (uint32_t i = table_.comm_begin[rank]; i < table_.comm_begin[rank + 1]; ++i) {
        signatures_.words.push_back(comms_.class_of(table_.comm_ids[i]));
      }
      for (uint32_t i = table_.peer_begin[rank]; i < table_.peer_begin[rank + 1]; ++i) {
        const uint64_t peer_class = ranks_.class_of(table_.peer_ids[i]);
        signatures_.words.push_back((peer_class << 16U) | reverse_slot_[i]);
      }
      signatures_.Close();
    }
    return ranks_.Split(dirty, signatures_);
  }

  void MarkMembers(const std::vector<uint32_t>& changed_comms) {
    for (const uint32_t comm : changed_comms) {
      for (uint32_t i = users_of_comm_.begin[comm]; i < users_of_comm_.begin[comm + 1]; ++i) {
        dirty_ranks_.Add(users_of_comm_.item[i]);
      }
    }
  }

  void MarkNeighbours(uint32_t rank) {
    for (uint32_t i = table_.comm_begin[rank]; i < table_.comm_begin[rank + 1]; ++i) {
      dirty_comms_.Add(table_.comm_ids[i]);
    }
    for (uint32_t i = named_by_.begin[rank]; i < named_by_.begin[rank + 1]; ++i) {
      dirty_ranks_.Add(named_by_.item[i]);
    }
  }

  const RankTable& table_;
  Partition ranks_;
  Partition comms_;
  Adjacency users_of_comm_;  // communicator → (rank, slot)
  Adjacency named_by_;       // rank → (rank that has it as a peer, slot)
  // ReversePeerSlots. Two ranks whose peers hold them in different slots are addressed by different
  // ops, so the slot is part of the signature.
  std::vector<uint16_t> reverse_slot_;
  ItemSet dirty_ranks_;
  ItemSet dirty_comms_;
  Signatures signatures_;
};

// Numbers classes by their lowest member; returns the representatives.
std::vector<uint32_t> Renumber(const std::vector<uint32_t>& classes,
                               std::vector<uint32_t>& numbered) {
  std::vector<uint32_t> number(classes.size() + 1, kNone);
  std::vector<uint32_t> representative;
  numbered.resize(classes.size());
  for (uint32_t item = 0; item < classes.size(); ++item) {
    const uint32_t old = classes[item];
    if (old >= number.size()) {
      number.resize(old + 1, kNone);
    }
    if (number[old] == kNone) {
      number[old] = static_cast<uint32_t>(representative.size());
      representative.push_back(item);
    }
    numbered[item] = number[old];
  }
  return representative;
}

}  // namespace

RankClasses RefineRanks(const Graph& graph,
                        const std::vector<uint32_t>& rank_colour,
                        const std::vector<uint32_t>& comm_colour) {
  PRISM_CHECK_EQ(rank_colour.size(), graph.ranks.size());
  PRISM_CHECK_EQ(comm_colour.size(), graph.communicators.size());
  Refinement refinement(graph);
  refinement.Run(graph, rank_colour, comm_colour);
  RankClasses result;
  result.representative = Renumber(refinement.rank_classes(), result.class_of);
  result.comm_representative = Renumber(refinement.comm_classes(), result.comm_class_of);
  result.size.assign(result.representative.size(), 0);
  for (const uint32_t rank_class : result.class_of) {
    ++result.size[rank_class];
  }
  return result;
}

}  // namespace prism::graph
