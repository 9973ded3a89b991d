#include "replayer/network/flow_queue.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/base/check.h"

namespace prism::replayer {

namespace {

constexpr size_t kArity = 4;  // of the heap: fewer cache lines a level than with two
// More than the last bits of a quotient, less than a nanosecond of any time that is likely.
constexpr double kRoundingAside = 1 - 1e-15;
constexpr uint32_t kNowhere = 0xFFFFFFFFU;

}  // namespace

FlowQueue::FlowQueue(std::vector<double> capacities) : solver_(std::move(capacities)) {
}

FlowId FlowQueue::Begin(const FlowRequest& request, TimeNs now) {
  const FlowId flow = solver_.Add(request.links, request.bound);
  if (flow >= bytes_.size()) {
    const size_t size = flow + size_t{1};
    bytes_.resize(size);
    rate_.resize(size);
    since_.resize(size);
    end_.resize(size);
    owner_.resize(size);
    place_.resize(size);
  }
  bytes_[flow] = request.bytes;
  rate_[flow] = 0;
  since_[flow] = now;
  end_[flow] = kNever;
  owner_[flow] = request.owner;
  heap_.push_back(flow);
  place_[flow] = static_cast<uint32_t>(heap_.size() - 1);
  return flow;
}

void FlowQueue::Settle(TimeNs now) {
  for (const FlowId flow : solver_.Solve()) {
    Reschedule(flow, now);
  }
}

void FlowQueue::Reschedule(FlowId flow, TimeNs now) {
  bytes_[flow] -= rate_[flow] * 1e-9 * static_cast<double>(now - since_[flow]);
  bytes_[flow] = std::max(bytes_[flow], 0.0);
  since_[flow] = now;
  rate_[flow] = solver_.rate(flow);
  PRISM_CHECK(rate_[flow] > 0);
  end_[flow] = now + NsFromSeconds(bytes_[flow] / rate_[flow] * kRoundingAside);
  SiftUp(place_[flow]);
  SiftDown(place_[flow]);
}

void FlowQueue::EndNext(std::vector<uint32_t>* owners) {
  const TimeNs now = NextEnd();
  ending_.clear();
  while (!heap_.empty() && end_[heap_.front()] == now) {
    ending_.push_back(heap_.front());
    Erase(heap_.front());
  }
  for (const FlowId flow : ending_) {
    owners->push_back(owner_[flow]);
    solver_.Remove(flow);
  }
  ended_ += static_cast<int64_t>(ending_.size());
}

void FlowQueue::Place(size_t at, FlowId flow) {
  heap_[at] = flow;
  place_[flow] = static_cast<uint32_t>(at);
}

void FlowQueue::SiftUp(size_t at) {
  const FlowId flow = heap_[at];
  while (at > 0 && Before(flow, heap_[(at - 1) / kArity])) {
    Place(at, heap_[(at - 1) / kArity]);
    at = (at - 1) / kArity;
  }
  Place(at, flow);
}

void FlowQueue::SiftDown(size_t at) {
  const FlowId flow = heap_[at];
  while (true) {
    const size_t first = at * kArity + 1;
    size_t least = heap_.size();
    for (size_t child = first; child < std::min(first + kArity, heap_.size()); ++child) {
      if (least == heap_.size() || Before(heap_[child], heap_[least])) {
        least = child;
      }
    }
    if (least == heap_.size() || !Before(heap_[least], flow)) {
      Place(at, flow);
      return;
    }
    Place(at, heap_[least]);
    at = least;
  }
}

void FlowQueue::Erase(FlowId flow) {
  const size_t at = std::exchange(place_[flow], kNowhere);
  const FlowId last = heap_.back();
  heap_.pop_back();
  if (last == flow) {
    return;
  }
  Place(at, last);
  SiftUp(at);
  SiftDown(place_[last]);
}

}  // namespace prism::replayer
