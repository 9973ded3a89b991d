// A rank that is recorded for a run, as the run's check sees it: all that it does with other ranks,
// and how far it goes on when the recording has what it needs. So one execution of a rank serves
// both, and the recording is the same with a check and without.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "launch/process/process_clock.h"
#include "launch/process/stop_watch.h"
#include "shim/channel/messages.h"
#include "slicer/check/call_recorder.h"

namespace prism::launch {

// How far ranks go on for a check.
struct CheckLength {
  std::optional<double> seconds;  // null: as long as the budget lasts
  int32_t steps = 0;              // complete ones, from the program's first; 0: to the exit
  bool is_known = false;  // by the rank that came first, which stops once all kinds were seen twice
};

// CPU seconds that a worker's ranks may go on for, so that what else the machine does has no
// influence: a few, which small programs need to come to their
// end, and a share of those that they are recorded for. The rank that comes first leaves half of it
// to the others, which are to get as far as it did.
class CheckBudget {
 public:
  // Of one of `workers`.
  explicit CheckBudget(size_t workers) : left_(kFewSeconds / static_cast<double>(workers)) {}

  void Earn(double recorded_seconds) { left_ += kShare * recorded_seconds; }
  void Spend(double seconds) { left_ -= seconds; }
  [[nodiscard]] double left() const { return left_; }

 private:
  static constexpr double kFewSeconds = 3;
  static constexpr double kShare = 0.12;

  double left_;
};

class FollowedRank {
 public:
  // `budget` must outlive it. `process`: that it runs in.
  FollowedRank(Rank rank, pid_t process, const CheckLength& length, CheckBudget* budget);

  // True if the record is also one of the recording's.
  Result<bool> See(const channel::Record& record, std::span<const std::byte> payload);

  // The recording has what it needs.
  void GoOn();
  [[nodiscard]] bool goes_on() const { return went_on_.has_value(); }

  // It has gone on for long enough.
  [[nodiscard]] bool IsDone();

  slicer::RankCalls TakeCalls(slicer::CallsEnd end);

 private:
  CheckLength length_;
  CheckBudget* budget_;
  slicer::CallRecorder recorder_;
  pid_t process_;
  double spent_ = 0;  // since it went on
  std::optional<StopWatch> went_on_;
  std::optional<size_t> told_while_recorded_;
  std::optional<ProcessClock> clock_;
  bool exits_ = false;
};

}  // namespace prism::launch
