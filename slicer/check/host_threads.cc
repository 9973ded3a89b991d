#include "slicer/check/host_threads.h"

#include <algorithm>
#include <utility>

namespace prism::slicer {

void Merge(const Clock& from, Clock* to) {
  for (const auto& [stream, count] : from) {
    uint32_t& known = (*to)[stream];
    known = std::max(known, count);
  }
}

HostThread& HostThreads::Of(uint16_t number) {
  const auto found = others_.find(number);
  return found == others_.end() ? main_ : found->second;
}

void HostThreads::LeaveWord(uint64_t word, uint16_t number, uint32_t calls) {
  const HostThread& thread = Of(number);
  words_[word] = {.clock = {{thread.stream, calls}}, .known = thread.known};
}

Clock HostThreads::Hear(uint64_t word, uint16_t number) {
  const auto found = words_.find(word);
  if (found == words_.end()) {
    return {};
  }
  HostThread& thread = Of(number);
  Merge(found->second.known, &thread.known);
  Clock clock = found->second.clock;
  clock.erase(thread.stream);
  return clock;
}

bool HostThreads::CallInOrder(uint32_t order, uint16_t number) {
  HostThread& thread = Of(number);
  const LastCall call = {thread.stream, ++thread.known[thread.stream]};
  const auto [last, is_first] = last_.try_emplace(order, call);
  const LastCall before = std::exchange(last->second, call);
  return is_first || before.thread == call.thread || thread.known[before.thread] >= before.number;
}

}  // namespace prism::slicer
