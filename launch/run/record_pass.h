// The slice: every recorded rank runs its program once at the target's world size, alone, and its
// op stream becomes a fragment. Each worker process takes its share; fragments come together on
// process 0.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/fragment.h"
#include "launch/run/run_context.h"

namespace prism::launch {

// This process's share of the ranks, up to `slots` sandbox processes at a time. Step() does what
// can be done now.
class RecordPass {
 public:
  RecordPass(const RunContext& context, size_t slots);
  ~RecordPass();

  void Add(const std::vector<Rank>& ranks);

  // Starts, drains and finishes processes. True when something happened. Failures: kRunFailed
  // naming the rank, how its program ended and its last lines; for a full device the rank, the op
  // and the bytes.
  Result<bool> Step();

  // Says on stderr which ranks are being recorded, with their stacks.
  void ReportStacks();

  // Sleeps shortly, until there may be something to do.
  void Wait();

  [[nodiscard]] bool done() const;

  // Fragments finished since the last call.
  std::vector<graph::Fragment> TakeFragments() { return std::move(fragments_); }

 private:
  struct Slot;

  Status StartNext();
  [[nodiscard]] bool HasSeenAll(const Slot& slot) const;
  Result<bool> StepSlot(Slot& slot);
  Status FinishSlot(Slot& slot);

  const RunContext& context_;
  std::vector<Rank> ranks_;
  size_t next_ = 0;
  size_t slot_count_;
  size_t waits_ = 0;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<graph::Fragment> fragments_;
};

// The ranks of `ranks` that worker `worker` of `workers` takes: every workers-th.
std::vector<Rank> ShareOf(const std::vector<Rank>& ranks, int worker, int workers);

}  // namespace prism::launch
