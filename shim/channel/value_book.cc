#include "shim/channel/value_book.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "graph/base/divide.h"

namespace prism::channel {
namespace {

constexpr size_t kAlignment = 8;

size_t Padded(size_t bytes) {
  return RoundUp(bytes, kAlignment);
}

template <typename Change>
void ChangeHeads(std::string* values, const Change& change) {
  size_t at = 0;
  while (at + sizeof(ValueHead) <= values->size()) {
    ValueHead head;
    std::memcpy(&head, values->data() + at, sizeof(head));
    change(head);
    std::memcpy(values->data() + at, &head, sizeof(head));
    at += sizeof(head) + Padded(head.payload_bytes);
  }
}

bool Fits(const std::optional<std::span<const std::byte>>& value, const ValueHead& call) {
  return value.has_value() && (value->empty() || value->size() == call.payload_bytes);
}

}  // namespace

void AppendValue(const ValueHead& head, std::span<const std::byte> value, std::string* book) {
  book->append(reinterpret_cast<const char*>(&head), sizeof(head));
  book->append(reinterpret_cast<const char*>(value.data()), value.size());
  book->append(Padded(value.size()) - value.size(), '\0');
}

void CountIterationsFrom(int32_t steady_iteration, std::string* values) {
  ChangeHeads(values, [&](ValueHead& head) { head.iteration -= steady_iteration; });
}

void MarkSpeculative(std::string* values) {
  ChangeHeads(values, [](ValueHead& head) { head.speculative = 1; });
}

void MarkOdd(int32_t from_iteration, std::string* values) {
  ChangeHeads(values,
              [&](ValueHead& head) { head.odd = head.iteration >= from_iteration ? 1 : head.odd; });
}

ValueBook::ExactKey ValueBook::ExactKeyOf(const ValueHead& head) {
  return {head.communicator, head.source, head.target, head.operation};
}

// Sends are equivalent if they go equally far. `communicator`: its place or shape.
ValueBook::AlikeKey ValueBook::AlikeKeyOf(uint64_t communicator, const ValueHead& head) {
  const int32_t way = head.target < 0 ? head.source : head.target - head.source;
  return {communicator, way, head.operation};
}

ValueBook::ValueBook(std::span<const std::byte> bytes) : bytes_(bytes) {
  size_t at = 0;
  while (at + sizeof(ValueHead) <= bytes.size()) {
    ValueHead head;
    std::memcpy(&head, bytes.data() + at, sizeof(head));
    at += sizeof(head);
    if (bytes.size() - at < head.payload_bytes) {
      break;
    }
    const auto [entry, is_new] = streams_.try_emplace(ExactKeyOf(head));
    Stream& stream = entry->second;
    stream.producer = head.producer;
    stream.Add(head, bytes.subspan(at, head.payload_bytes));
    if (is_new && (head.shape != 0 || head.place != 0)) {
      by_place_[AlikeKeyOf(head.place, head)].push_back(&stream);
      by_shape_[AlikeKeyOf(head.shape, head)].push_back(&stream);
    }
    at += Padded(head.payload_bytes);
  }
}

void ValueBook::Stream::Add(const ValueHead& head, std::span<const std::byte> value) {
  if (head.sequence <= latest) {
    has_steady = false;  // recorded again, perhaps for fewer iterations
    period = 0;
    values.erase(values.lower_bound(head.sequence), values.end());
    steering.erase(steering.lower_bound(head.sequence), steering.end());
    speculative_begin = std::numeric_limits<uint32_t>::max();
    odd_begin = std::numeric_limits<uint32_t>::max();
  }
  latest = head.sequence;
  values.insert_or_assign(head.sequence, value);
  if (head.steers != 0) {
    steering.insert_or_assign(head.sequence, value);
  }
  if (head.odd != 0) {
    odd_begin = std::min(odd_begin, head.sequence);
  }
  if (head.speculative != 0) {
    speculative_begin = std::min(speculative_begin, head.sequence);
  }
  if (head.iteration == 0 && !has_steady) {
    has_steady = true;
    steady_begin = head.sequence;
    period = 0;
  } else if (head.iteration == 1 && has_steady && period == 0) {
    period = head.sequence - steady_begin;
  }
}

std::optional<std::span<const std::byte>> ValueBook::Stream::At(uint32_t sequence) const {
  if (const auto found = values.find(sequence); found != values.end()) {
    return found->second;
  }
  if (period == 0 || sequence < steady_begin + period || sequence > odd_begin) {
    return std::nullopt;
  }
  const auto found = values.find(steady_begin + (sequence - steady_begin) % period);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

FoundValue ValueBook::Find(const ValueHead& call) const {
  if (const auto exact = streams_.find(ExactKeyOf(call)); exact != streams_.end()) {
    if (const auto value = exact->second.At(call.sequence); Fits(value, call)) {
      return {ValueOrigin::kRecorded, *value, call.sequence >= exact->second.speculative_begin};
    }
  }
  const FoundValue found = FindNearest(by_place_, call.place, call);
  return found.origin == ValueOrigin::kNone ? FindNearest(by_shape_, call.shape, call) : found;
}

std::vector<std::pair<int32_t, std::span<const std::byte>>> ValueBook::Contributions(
    const ValueHead& call, bool any_size) const {
  std::vector<std::pair<int32_t, std::span<const std::byte>>> found;
  constexpr int32_t kLowest = std::numeric_limits<int32_t>::min();
  for (auto at = streams_.lower_bound({call.communicator, kLowest, kLowest, 0});
       at != streams_.end() && std::get<0>(at->first) == call.communicator; ++at) {
    if (std::get<3>(at->first) != call.operation) {
      continue;
    }
    if (const auto value = at->second.At(call.sequence);
        value.has_value() && !value->empty() && (any_size || Fits(value, call))) {
      found.emplace_back(std::get<1>(at->first), *value);
    }
  }
  return found;
}

// Of each call the two values that come last are enough: one of them differs from any other.
std::map<int32_t, size_t> ValueBook::OthersContributions() const {
  struct Last {
    std::span<const std::byte> value;
    size_t end = 0;
  };
  struct Call {
    Last last;
    Last other;  // that differs from it
    std::vector<std::pair<int32_t, std::span<const std::byte>>> own;
  };
  std::map<std::tuple<uint64_t, uint8_t, uint32_t>, Call> calls;
  for (const auto& [key, stream] : streams_) {
    for (const auto& [sequence, value] : stream.steering) {
      Call& call = calls[{std::get<0>(key), std::get<3>(key), sequence}];
      const Last here = {value, static_cast<size_t>(value.data() - bytes_.data()) + value.size()};
      call.own.emplace_back(stream.producer, value);
      if (call.last.end == 0 || std::ranges::equal(call.last.value, value)) {
        call.last = {value, std::max(call.last.end, here.end)};
      } else if (here.end > call.last.end) {
        call.other = std::exchange(call.last, here);
      } else if (here.end > call.other.end) {
        call.other = here;
      }
    }
  }
  std::map<int32_t, size_t> ends;
  for (const auto& [key, call] : calls) {
    for (const auto& [producer, value] : call.own) {
      const bool is_last = std::ranges::equal(call.last.value, value);
      size_t& end = ends[producer];
      end = std::max(end, is_last ? call.other.end : call.last.end);
    }
  }
  return ends;
}

bool ValueBook::HasOtherContributions(std::span<const std::byte> values) const {
  const ValueBook own(values);
  for (const auto& [key, stream] : own.streams_) {
    for (const auto& [sequence, value] : stream.steering) {
      ValueHead call = {};
      call.communicator = std::get<0>(key);
      call.operation = std::get<3>(key);
      call.sequence = sequence;
      call.payload_bytes = static_cast<uint32_t>(value.size());
      int64_t nearest = -1;
      bool is_same = true;
      for (const auto& [member, contributed] : Contributions(call, false)) {
        const int64_t distance = std::abs(int64_t{member} - std::get<1>(key));
        if (nearest < 0 || distance < nearest) {
          nearest = distance;
          is_same = std::ranges::equal(contributed, value);
        }
      }
      if (!is_same) {
        return true;
      }
    }
  }
  return false;
}

FoundValue ValueBook::FindNearest(const Alike& alike,
                                  uint64_t communicator,
                                  const ValueHead& call) {
  FoundValue best;
  int64_t best_distance = 0;
  const auto found = alike.find(AlikeKeyOf(communicator, call));
  if (communicator == 0 || found == alike.end()) {
    return best;
  }
  for (const Stream* stream : found->second) {
    const int64_t distance = std::abs(int64_t{stream->producer} - call.producer);
    const auto value = stream->At(call.sequence);
    const bool nearer = best.origin == ValueOrigin::kNone || distance < best_distance;
    if (nearer && Fits(value, call)) {
      best = {ValueOrigin::kPeer, *value};
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace prism::channel
