#include "shim/channel/value_book.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "graph/base/divide.h"

namespace prism::channel {
namespace {

constexpr size_t kAlignment = 8;

size_t Padded(size_t bytes) {
  return RoundUp(bytes, kAlignment);
}

}  // namespace

void AppendValue(const ValueHead& head, std::span<const std::byte> value, std::string* book) {
  book->append(reinterpret_cast<const char*>(&head), sizeof(head));
  book->append(reinterpret_cast<const char*>(value.data()), value.size());
  book->append(Padded(value.size()) - value.size(), '\0');
}

void CountIterationsFrom(int32_t steady_iteration, std::string* values) {
  size_t at = 0;
  while (at + sizeof(ValueHead) <= values->size()) {
    ValueHead head;
    std::memcpy(&head, values->data() + at, sizeof(head));
    head.iteration -= steady_iteration;
    std::memcpy(values->data() + at, &head, sizeof(head));
    at += sizeof(head) + Padded(head.payload_bytes);
  }
}

ValueBook::ExactKey ValueBook::ExactKeyOf(const ValueHead& head) {
  return {head.communicator, head.source, head.target, head.operation};
}

// Sends are equivalent if they go equally far.
ValueBook::ShapeKey ValueBook::ShapeKeyOf(const ValueHead& head) {
  const int32_t place = head.target < 0 ? head.source : head.target - head.source;
  return {head.shape, place, head.operation};
}

ValueBook::ValueBook(std::span<const std::byte> bytes) {
  std::map<const Stream*, ShapeKey> shapes;
  size_t at = 0;
  while (at + sizeof(ValueHead) <= bytes.size()) {
    ValueHead head;
    std::memcpy(&head, bytes.data() + at, sizeof(head));
    at += sizeof(head);
    if (bytes.size() - at < head.payload_bytes) {
      break;
    }
    Stream& stream = streams_[ExactKeyOf(head)];
    stream.giver = head.giver;
    stream.values.emplace(head.sequence, bytes.subspan(at, head.payload_bytes));
    if (head.iteration == 0 && !stream.has_steady) {
      stream.has_steady = true;
      stream.steady_begin = head.sequence;
    } else if (head.iteration == 1 && stream.has_steady && stream.period == 0) {
      stream.period = head.sequence - stream.steady_begin;
    }
    if (head.shape != 0 && shapes.emplace(&stream, ShapeKeyOf(head)).second) {
      by_shape_[ShapeKeyOf(head)].push_back(&stream);
    }
    at += Padded(head.payload_bytes);
  }
}

std::optional<std::span<const std::byte>> ValueBook::Stream::At(uint64_t sequence) const {
  if (const auto found = values.find(sequence); found != values.end()) {
    return found->second;
  }
  if (period == 0 || sequence < steady_begin + period) {
    return std::nullopt;
  }
  const auto found = values.find(steady_begin + (sequence - steady_begin) % period);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

FoundValue ValueBook::Find(const ValueHead& call) const {
  const auto fits = [&call](const std::optional<std::span<const std::byte>>& value) {
    return value.has_value() && (value->empty() || value->size() == call.payload_bytes);
  };
  if (const auto exact = streams_.find(ExactKeyOf(call)); exact != streams_.end()) {
    if (const auto value = exact->second.At(call.sequence); fits(value)) {
      return {ValueOrigin::kRecorded, *value};
    }
  }
  FoundValue best;
  int64_t best_distance = 0;
  const auto alike = by_shape_.find(ShapeKeyOf(call));
  if (call.shape == 0 || alike == by_shape_.end()) {
    return best;
  }
  for (const Stream* stream : alike->second) {
    const int64_t distance = std::abs(int64_t{stream->giver} - call.giver);
    const auto value = stream->At(call.sequence);
    const bool nearer = best.origin == ValueOrigin::kNone || distance < best_distance;
    if (nearer && fits(value)) {
      best = {ValueOrigin::kPeer, *value};
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace prism::channel
