#include "replayer/network/flow_queue.h"

#include <algorithm>
#include <utility>

#include "graph/base/check.h"

namespace prism::replayer {

namespace {

constexpr size_t kArity = 4;  // of the heap: touches fewer cache lines than a binary one
// More than the last bits of a quotient, less than a nanosecond of any plausible time.
constexpr double kRoundingAside = 1 - 1e-15;

}  // namespace

FlowQueue::FlowQueue(std::vector<double> capacities) : solver_(std::move(capacities)) {
}

FlowId FlowQueue::Begin(const FlowRequest& request, TimeNs now) {
  const FlowId flow = solver_.Add(request.links, request.bound);
  if (flow >= flights_.size()) {
    flights_.resize(flow + size_t{1});
  }
  flights_[flow] = {.bytes = request.bytes,
                    .rate = 0,
                    .since = now,
                    .end = kNever,
                    .owner = request.owner,
                    .place = static_cast<uint32_t>(heap_.size())};
  heap_.push_back({kNever, flow});
  return flow;
}

void FlowQueue::Settle(TimeNs now) {
  for (const FlowId flow : solver_.Solve()) {
    Reschedule(flow, now);
  }
  SettleFront();
}

void FlowQueue::Reschedule(FlowId flow, TimeNs now) {
  Flight& flight = flights_[flow];
  flight.bytes -= flight.rate * 1e-9 * static_cast<double>(now - flight.since);
  flight.bytes = std::max(flight.bytes, 0.0);
  flight.since = now;
  flight.rate = solver_.rate(flow);
  PRISM_CHECK(flight.rate > 0);
  flight.end = now + NsFromSeconds(flight.bytes / flight.rate * kRoundingAside);
  if (flight.end < heap_[flight.place].end) {
    heap_[flight.place].end = flight.end;
    SiftUp(flight.place);
  }
}

// Until the first entry is where it belongs.
void FlowQueue::SettleFront() {
  while (!heap_.empty() && heap_.front().end < flights_[heap_.front().flow].end) {
    heap_.front().end = flights_[heap_.front().flow].end;
    SiftDown(0);
  }
}

void FlowQueue::EndNext(std::vector<uint32_t>* owners) {
  const TimeNs now = NextEnd();
  ending_.clear();
  while (NextEnd() == now && !heap_.empty()) {
    ending_.push_back(heap_.front().flow);
    EraseFront();
    SettleFront();
  }
  std::ranges::sort(ending_);
  for (const FlowId flow : ending_) {
    owners->push_back(flights_[flow].owner);
    solver_.Remove(flow);
  }
  ended_ += static_cast<int64_t>(ending_.size());
}

void FlowQueue::Place(size_t at, const Entry& entry) {
  heap_[at] = entry;
  flights_[entry.flow].place = static_cast<uint32_t>(at);
}

void FlowQueue::SiftUp(size_t at) {
  const Entry entry = heap_[at];
  while (at > 0 && entry.end < heap_[(at - 1) / kArity].end) {
    Place(at, heap_[(at - 1) / kArity]);
    at = (at - 1) / kArity;
  }
  Place(at, entry);
}

// The earliest child is chosen by conditional moves: no branch predictor could foresee which it is.
void FlowQueue::SiftDown(size_t at) {
  const Entry entry = heap_[at];
  for (size_t first = at * kArity + 1; first < heap_.size(); first = at * kArity + 1) {
    const size_t last = std::min(first + kArity, heap_.size());
    size_t least = first;
    TimeNs end = heap_[first].end;
    for (size_t child = first + 1; child < last; ++child) {
      const bool earlier = heap_[child].end < end;
      least = earlier ? child : least;
      end = earlier ? heap_[child].end : end;
    }
    if (end >= entry.end) {
      break;
    }
    Place(at, heap_[least]);
    at = least;
  }
  Place(at, entry);
}

void FlowQueue::EraseFront() {
  heap_.front() = heap_.back();
  heap_.pop_back();
  if (!heap_.empty()) {
    SiftDown(0);
  }
}

}  // namespace prism::replayer
