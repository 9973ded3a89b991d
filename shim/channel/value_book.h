// A book of values: what recorded ranks sent to others, for ranks that run later without them.
//
// The bytes are the same in messages and in the memory that a process maps: consecutive entries,
// each a ValueHead and its value, padded to eight bytes. The entries of one rank are in the order
// in which it sent them. A run appends rank by rank, so that an earlier state of a book is a prefix
// of it.
//
// Look-up: the value of exactly that giver and call, else of the same call in a communicator with
// the same place elsewhere in the job (from the giver with the nearest rank number, which in most
// layouts is in the same pipeline stage). Calls past the end of a recording repeat its steady
// iteration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "shim/channel/messages.h"

namespace prism::channel {

void AppendValue(const ValueHead& head, std::span<const std::byte> value, std::string* book);

// Subtracts the steady iteration's number everywhere, since the recorder knows it only at the end.
void CountIterationsFrom(int32_t steady_iteration, std::string* values);

enum class ValueOrigin : uint8_t { kNone, kRecorded, kPeer };

struct FoundValue {
  ValueOrigin origin = ValueOrigin::kNone;
  std::span<const std::byte> value = {};  // empty: the giver sent bytes that were never written
};

class ValueBook {
 public:
  // The bytes must outlive the book. The book ends at the first entry that does not parse.
  explicit ValueBook(std::span<const std::byte> bytes);

  // `call` as in ValueHead; giver: the absent rank's global number; iteration is ignored.
  [[nodiscard]] FoundValue Find(const ValueHead& call) const;

 private:
  // What one rank sent in one communicator, to all or to one target.
  struct Stream {
    int32_t giver = 0;
    std::map<uint64_t, std::span<const std::byte>> values;  // by sequence
    uint64_t steady_begin = 0;                              // first of the steady iteration
    uint64_t period = 0;                                    // sequences in an iteration; 0: unknown
    bool has_steady = false;

    [[nodiscard]] std::optional<std::span<const std::byte>> At(uint64_t sequence) const;
  };
  using ExactKey = std::tuple<uint64_t, int32_t, int32_t, uint8_t>;
  using ShapeKey = std::tuple<uint64_t, int32_t, uint8_t>;

  static ExactKey ExactKeyOf(const ValueHead& head);
  static ShapeKey ShapeKeyOf(const ValueHead& head);

  std::map<ExactKey, Stream> streams_;
  std::map<ShapeKey, std::vector<const Stream*>> by_shape_;
};

}  // namespace prism::channel
