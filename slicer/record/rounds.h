// Rounds of one iteration: a program that knows that it will do the same several more times says so
// at the end of each (channel::RoundBody). Once two in a row did the same, the others need not run.
//
// The same is: equal ops, with dependencies and numbers in names of ranges equally far on, no
// dependency from before the two rounds, as many bytes allocated in blocks of the same sizes, and
// nothing that happens once (device memory, communicators, values sent, counters).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shim/channel/messages.h"
#include "slicer/record/recorded_iteration.h"

namespace prism::slicer {

class Rounds {
 public:
  // A record of the iteration, once its ops are known.
  void See(const channel::Record& record);

  // A round ends here, and the next begins; `strings` are the names so far, `allocated` bytes are.
  // Whether it and the one before did the same.
  bool End(const Iteration& iteration, const std::vector<std::string>& strings, int64_t allocated);

  // After End: the ops of the round that has ended and of the one before.
  [[nodiscard]] std::span<const CanonicalOp> before(const Iteration& iteration) const {
    return OpsOf(before_, iteration);
  }
  [[nodiscard]] std::span<const CanonicalOp> last(const Iteration& iteration) const {
    return OpsOf(last_, iteration);
  }

  // The records of that round for which something else than the op is counted.
  [[nodiscard]] std::span<const channel::Record> counted() const { return last_.counted; }

 private:
  struct Round {
    size_t begin = 0;  // ops of the iteration
    size_t end = 0;
    std::vector<int64_t> blocks;  // bytes of those that were allocated
    int64_t allocated = -1;       // bytes at its end
    bool has_begun = false;       // with the end of another
    bool repeats = true;          // nothing in it happens once
    std::vector<channel::Record> counted;
  };
  static std::span<const CanonicalOp> OpsOf(const Round& round, const Iteration& iteration) {
    return std::span(iteration.ops).subspan(round.begin, round.end - round.begin);
  }
  [[nodiscard]] bool LastTwoDidSame(const Iteration& iteration,
                                    const std::vector<std::string>& strings) const;

  Round before_;
  Round last_;
  Round current_;
};

// The name that stands `later` rounds after `last`, given the one a round before it: numbers at the
// ends of both go on. "" if the two differ in more.
std::string LaterName(const std::string& before, const std::string& last, int32_t later);

}  // namespace prism::slicer
