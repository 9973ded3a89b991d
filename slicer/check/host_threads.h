// The threads of a process that call other ranks, by what its notes say of them: the main one, for
// which autograd's work, and others of Python's. Each has a stream for what blocks it.
//
// A thread knows of what others have done if it was started by them, joined them, or took from an
// event, a queue or a future what they had put there: they leave a word, and it hears it. Two
// threads of which neither knows of the other's calls make theirs in an order by chance.
#pragma once

#include <cstdint>
#include <map>

#include "graph/base/time.h"

namespace prism::slicer {

// By stream: how many of its calls have to end.
using Clock = std::map<uint16_t, uint32_t>;

void Merge(const Clock& from, Clock* to);

struct HostThread {
  uint16_t stream = 0;
  Clock waited = {};      // what it has waited for
  Clock known = {};       // by thread, as its stream: how many calls were made, to its knowledge
  DurationNs gap_ns = 0;  // that it slept since its last blocking call
  bool is_untimed = false;
  bool is_daemon = false;
};

class HostThreads {
 public:
  // Of a record.
  HostThread& Of(uint16_t number);

  [[nodiscard]] bool Knows(uint16_t number) const { return others_.contains(number); }

  // The records of that number are those of a new thread.
  void Begin(uint16_t number, const HostThread& thread) { others_[number] = thread; }

  // What the thread has done, of its blocking calls so many.
  void LeaveWord(uint64_t word, uint16_t number, uint32_t calls);

  // What has to have ended before the thread goes on.
  Clock Hear(uint64_t word, uint16_t number);

  // The thread makes a call among those that come in order; false if another thread makes some of
  // them and it is chance which comes first.
  bool CallInOrder(uint32_t order, uint16_t number);

 private:
  struct Word {
    Clock clock;
    Clock known;
  };
  struct LastCall {
    uint16_t thread = 0;
    uint32_t number = 0;
  };

  HostThread main_;
  std::map<uint16_t, HostThread> others_;  // by their number in records
  std::map<uint64_t, Word> words_;
  std::map<uint32_t, LastCall> last_;
};

}  // namespace prism::slicer
