// Records what the ranks of a program do with each other (slicer/check/calls.h), each by itself at
// the target's world size, from its first group to its exit or as far as asked for.
//
// The first rank comes alone: it decides how far all are followed, and tells of ranks that the
// program treats in a way of their own (slicer/check/told_ranks.h), which are recorded too unless
// the user chose. The others are given what it sent to absent ranks, and those that failed, or were
// given others' integers, once more what all sent.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "launch/emulate/run/rank_starter.h"
#include "launch/emulate/run/run_context.h"
#include "launch/emulate/sandbox/shared_memory.h"
#include "launch/emulate/store/store_server.h"
#include "launch/process/progress.h"
#include "slicer/check/calls.h"

namespace prism::launch {

// How far ranks are followed that do not end before.
struct CallsLength {
  double seconds = 60;  // from a rank's first record on
  int32_t steps = 0;    // that are complete; 0: until every kind of step was seen twice
};

class CallsPass {
 public:
  // All must outlive it.
  CallsPass(const RunContext& context, RankStarter& starter, Progress& progress);
  ~CallsPass();

  // By rank. Fails if no rank could be followed.
  Result<std::vector<slicer::RankCalls>> Record(const std::vector<Rank>& ranks,
                                                const CallsLength& length);

  // Ranks besides others that got so far, and sent what is in the book: as many as there is time
  // for, without those that were given others' integers.
  struct Others {
    CallsLength length;
    std::string_view book;
    double seconds = 0;                        // for all ranks
    const slicer::RankCalls* first = nullptr;  // that tells of ranks; null: none does
    std::vector<Rank> known = {};              // recorded before
  };
  Result<std::vector<slicer::RankCalls>> RecordMore(std::vector<Rank> ranks, const Others& others);

 private:
  struct Slot;
  struct Recorded {
    slicer::RankCalls calls;
    std::string values;    // that it sent to absent ranks: a part of a value book
    bool guessed = false;  // was given others' integers
    WrittenKeys keys = {};
    Status end = {};
  };
  struct Wanted {
    Rank rank;
    std::shared_ptr<Recorded> alone = {};  // what it did when it was started by itself

    [[nodiscard]] RankStarter::Try which() const {
      return alone == nullptr ? RankStarter::Try::kFirst : RankStarter::Try::kSecond;
    }
  };

  Status RecordRound(const std::string& doing, const std::vector<Rank>& ranks);
  [[nodiscard]] bool IsFirst(const Slot& slot) const;
  Status StartNext();
  Status StepSlot(Slot& slot);
  [[nodiscard]] bool IsDone(Slot& slot) const;
  void FinishSlot(Slot& slot, slicer::CallsEnd end);
  void AppendValues();
  [[nodiscard]] std::shared_ptr<const StoreValues> KeysOfOthers(Rank rank) const;
  Status RecordBlockedAgain();
  std::vector<Rank> WithTold(const slicer::RankCalls& first,
                             const std::vector<Rank>& known,
                             std::vector<Rank> ranks);
  std::vector<slicer::RankCalls> TakeCalls(const std::function<bool(const Recorded&)>& is_wanted);

  const RunContext& context_;
  Progress& progress_;
  RankStarter& starter_;
  CallsLength length_;
  std::optional<double> seconds_;  // for all ranks
  std::deque<Wanted> wanted_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::map<Rank, Recorded> recorded_;
  bool knows_counters_ = false;  // of the store: what all recorded ranks add
  bool gives_up_ = false;        // nobody sets the keys that ranks wait for: time-outs are over
  std::vector<Rank> told_;
  std::string book_;
  std::unique_ptr<SharedMemory> values_;  // null: the book is empty
};

}  // namespace prism::launch
