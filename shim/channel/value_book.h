// A book of values: what recorded ranks (producers) sent to others, for ranks that run later
// without them.
//
// The bytes are the same in messages and in the memory that a process maps: consecutive entries,
// each a ValueHead and its value, padded to eight bytes. The entries of one rank are in the order
// in which it sent them. A run appends rank by rank, so that an earlier state of a book is a prefix
// of it. What a rank sent when it was recorded again takes the place of what it sent before.
//
// Look-up: the value of exactly that producer and call, else of the same call in a communicator
// elsewhere in the job, one with the same place if there is one, else of the same shape (from the
// producer with the nearest rank number, which in most layouts is in the same pipeline stage).
// Calls past the end of a recording repeat its steady iteration, up to the first odd one. From the
// first speculative value of a producer in a communicator on, all of that recording are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shim/channel/messages.h"

namespace prism::channel {

void AppendValue(const ValueHead& head, std::span<const std::byte> value, std::string* book);

// Subtracts the steady iteration's number everywhere, since the recorder knows it only at the end.
void CountIterationsFrom(int32_t steady_iteration, std::string* values);

// All of them.
void MarkSpeculative(std::string* values);

// Those from that iteration on, counted from the start: the last one was odd.
void MarkOdd(int32_t from_iteration, std::string* values);

enum class ValueOrigin : uint8_t { kNone, kRecorded, kPeer };

struct FoundValue {
  ValueOrigin origin = ValueOrigin::kNone;
  std::span<const std::byte> value = {};  // empty: the producer sent bytes that were never written
  bool speculative = false;               // ValueHead's
};

class ValueBook {
 public:
  // The bytes must outlive the book. The book ends at the first entry that does not parse.
  explicit ValueBook(std::span<const std::byte> bytes);

  // `call` as in ValueHead; producer: the absent rank's global number; iteration is ignored.
  [[nodiscard]] FoundValue Find(const ValueHead& call) const;

  // What members contributed to that call of that communicator, if it was as large, or else with
  // `any_size`: by rank in it, ascending; `source` is ignored.
  [[nodiscard]] std::vector<std::pair<int32_t, std::span<const std::byte>>> Contributions(
      const ValueHead& call, bool any_size) const;

  // By producer of contributions that steer: where in the book the last one is that another rank
  // contributed to the same call and that differs from its own.
  [[nodiscard]] std::map<int32_t, size_t> OthersContributions() const;

  // Whether a rank that sent these contributed something else than the members that stand for it
  // where it is absent (shim/nccl/exchange.h) to a call that the book has.
  [[nodiscard]] bool HasOtherContributions(std::span<const std::byte> values) const;

 private:
  // What one rank sent in one communicator, to all or to one target.
  struct Stream {
    int32_t producer = 0;
    std::map<uint32_t, std::span<const std::byte>> values;    // by sequence
    std::map<uint32_t, std::span<const std::byte>> steering;  // those of ValueHead::steers
    uint32_t latest = 0;                                      // sequence added last
    uint32_t steady_begin = 0;                                // first of the steady iteration
    uint32_t period = 0;  // sequences in an iteration; 0: unknown
    bool has_steady = false;
    uint32_t odd_begin = std::numeric_limits<uint32_t>::max();  // first of an odd iteration
    uint32_t speculative_begin =
        std::numeric_limits<uint32_t>::max();  // first speculative sequence

    void Add(const ValueHead& head, std::span<const std::byte> value);
    [[nodiscard]] std::optional<std::span<const std::byte>> At(uint32_t sequence) const;
  };
  using ExactKey = std::tuple<uint64_t, int32_t, int32_t, uint8_t>;
  using AlikeKey = std::tuple<uint64_t, int32_t, uint8_t>;
  using Alike = std::map<AlikeKey, std::vector<const Stream*>>;

  static ExactKey ExactKeyOf(const ValueHead& head);
  static AlikeKey AlikeKeyOf(uint64_t communicator, const ValueHead& head);
  static FoundValue FindNearest(const Alike& alike, uint64_t communicator, const ValueHead& call);

  std::span<const std::byte> bytes_;
  std::map<ExactKey, Stream> streams_;
  Alike by_place_;
  Alike by_shape_;
};

}  // namespace prism::channel
