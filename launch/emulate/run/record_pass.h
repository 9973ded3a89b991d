// The slice: every recorded rank runs its program once at the target's world size, by itself, and
// its op stream becomes a fragment. Workers share the ranks; fragments are collected on
// process 0.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/fragment.h"
#include "launch/emulate/run/followed_rank.h"
#include "launch/emulate/run/rank_starter.h"
#include "launch/emulate/run/recorded_slice.h"
#include "launch/emulate/run/run_context.h"
#include "launch/emulate/sandbox/shared_memory.h"

namespace prism::launch {

// How long ranks are recorded, and checked.
struct PassLength {
  RecordedLength recorded;
  CheckLength check;
};

// How many workers record.
struct RecordingShare {
  size_t workers = 0;  // of the run
  size_t of_host = 0;  // of them, on the host of the one that is told so
};

// This process's share of the ranks, up to `slots` sandbox processes at a time. Step() does what
// can be done now.
class RecordPass {
 public:
  // What a worker has for its passes, all of which must outlive them.
  struct Means {
    const RunContext& context;
    RankStarter& starter;
    CheckBudget& budget;
  };

  RecordPass(const Means& means, size_t slots);
  ~RecordPass();

  // `values`: the book of what ranks recorded before have sent. Ranks added before must be done.
  Status Add(const std::vector<Rank>& ranks, std::string_view values, const PassLength& length);

  // Starts, drains and finishes processes. True when something happened. Failures: kRunFailed
  // naming the rank, how its program ended and its last lines; for a full device the rank, the op
  // and the bytes.
  Result<bool> Step();

  // Says on stderr which ranks are being recorded, with their stacks.
  void ReportStacks();

  // Sleeps briefly, until a process may have done something. False if none runs.
  bool Wait();

  [[nodiscard]] bool done() const;

  // Ranks finished since the last call.
  std::vector<RecordedRank> TakeRecorded() { return std::move(recorded_); }

  // Whether it was not the program of a rank that failed, but its recording.
  [[nodiscard]] bool program_ended_well() const { return program_ended_well_; }

  // Ranks stopped since the last call: of a user's program, which may have failed for want of what
  // absent ranks would have sent.
  std::vector<StoppedRank> TakeStopped() { return std::move(stopped_); }

 private:
  struct Slot;

  // Still to be recorded. `otherwise` applies if the program does not repeat with the steps per
  // iteration asked for: it was then recorded with one step per iteration.
  struct Wanted {
    Rank rank;
    RecordedLength length;
    std::optional<RecordedRank> otherwise = {};
    bool is_second_try = false;
  };

  // A rank that is started by itself, and once more, forked: does it do the same?
  struct TwoTries {
    Rank rank;
    std::optional<RecordedRank> alone = {};
    // Null if the second try failed.
    std::optional<std::optional<graph::Fragment>> forked = {};
  };

  Status StartNext();
  [[nodiscard]] bool HasSeenAll(const Slot& slot) const;
  [[nodiscard]] bool IsDone(Slot& slot) const;
  Status See(Slot& slot, const channel::Record& record, std::span<const std::byte> payload);
  Result<bool> StepSlot(Slot& slot);
  void EndCalls(Slot& slot, bool exited);
  Status EndProgram(Slot& slot);
  Status FinishSlot(Slot& slot);
  void FinishSecondTry(Slot& slot);
  void Keep(RecordedRank recorded);
  void CompareTries();
  void LeaveOutSecondTry();
  [[nodiscard]] bool MayStartNext();

  const RunContext& context_;
  RankStarter& starter_;
  CheckBudget& budget_;
  CheckLength check_;
  bool program_ended_well_ = false;
  std::deque<Wanted> wanted_;
  std::optional<TwoTries> tries_;
  size_t slot_count_;
  size_t waits_ = 0;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<RecordedRank> recorded_;
  std::vector<StoppedRank> stopped_;
  std::unique_ptr<SharedMemory> values_;  // null: the book is empty
  uint64_t values_bytes_ = 0;
};

// The ranks that the `i`-th of `workers` takes: every workers-th.
std::vector<Rank> ShareOf(const std::vector<Rank>& ranks, size_t i, size_t workers);

}  // namespace prism::launch
