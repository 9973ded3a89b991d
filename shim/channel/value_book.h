// A book of values: what recorded ranks gave to others, for ranks that run later without them.
//
// Bytes, the same in messages and in the memory that a process maps: entries one after the other,
// each a ValueHead and its value, padded to eight bytes. The entries of one rank are in the order
// in which it gave them. A run appends rank by rank, so that an earlier state of a book is a prefix
// of it.
//
// Look-up: the value of the very giver and call, else that of the same call in a communicator that
// lies alike elsewhere in the job (of the giver with the nearest rank number, which in most layouts
// is of the same pipeline stage). Calls past the end of a recording repeat its steady iteration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "shim/channel/messages.h"

namespace prism::channel {

void AppendValue(const ValueHead& head, std::span<const std::byte> value, std::string* book);

// The recorder knows only at its end which iteration was the steady one: subtracts it everywhere.
void CountIterationsFrom(int32_t steady_iteration, std::string* values);

enum class ValueOrigin : uint8_t { kNone, kRecorded, kPeer };

struct FoundValue {
  ValueOrigin origin = ValueOrigin::kNone;
  std::span<const std::byte> value = {};
};

class ValueBook {
 public:
  // The bytes outlive the book. What does not parse ends the book there.
  explicit ValueBook(std::span<const std::byte> bytes);

  // `call` as ValueHead has it; giver: the absent rank's global number; iteration is not looked at.
  [[nodiscard]] FoundValue Find(const ValueHead& call) const;

 private:
  // What one rank gave in one communicator, to all or to one target.
  struct Stream {
    int32_t giver = 0;
    std::map<uint64_t, std::span<const std::byte>> values;  // by sequence
    uint64_t steady_begin = 0;                              // first of the steady iteration
    uint64_t period = 0;                                    // sequences in an iteration; 0 unknown
    bool has_steady = false;

    [[nodiscard]] std::span<const std::byte> At(uint64_t sequence) const;
  };
  using ExactKey = std::tuple<uint64_t, int32_t, int32_t, uint8_t>;
  using ShapeKey = std::tuple<uint64_t, int32_t, uint8_t>;

  static ExactKey ExactKeyOf(const ValueHead& head);
  static ShapeKey ShapeKeyOf(const ValueHead& head);

  std::map<ExactKey, Stream> streams_;
  std::map<ShapeKey, std::vector<const Stream*>> by_shape_;
};

}  // namespace prism::channel
