#include "launch/emulate/run/followed_rank.h"

#include <time.h>

#include <algorithm>

namespace prism::launch {
namespace {

constexpr double kMostSeconds = 60;
constexpr double kOthersPatience = 4;  // times the seconds of the rank that came first
constexpr double kIdleness = 16;       // seconds without work that count as one with

// Of all threads of a process; `known` if that has gone.
double CpuSecondsOf(pid_t process, double known) {
  clockid_t clock = 0;
  timespec time = {};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    return known;
  }
  return std::max(known,
                  static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9);
}

}  // namespace

FollowedRank::FollowedRank(Rank rank, pid_t process, const CheckLength& length, CheckBudget* budget)
    : length_(length), budget_(budget), recorder_(rank), process_(process) {
}

Result<bool> FollowedRank::See(const channel::Record& record, std::span<const std::byte> payload) {
  const bool is_note = record.kind == channel::RecordKind::kMarker && record.marker.is_note != 0;
  exits_ = record.kind == channel::RecordKind::kExit;
  PRISM_RETURN_IF_ERROR(recorder_.Consume(record, payload));
  return !is_note && !went_on_;
}

void FollowedRank::GoOn() {
  went_on_.emplace();
  cpu_seconds_ = CpuSecondsOf(process_, 0);
  budget_->Earn(cpu_seconds_);
}

bool FollowedRank::IsDone() {
  const bool is_first = !length_.is_known;
  const double seconds = went_on_->Seconds();
  if (exits_) {
    return seconds > kMostSeconds;
  }
  if (length_.steps > 0 ? recorder_.steps() > length_.steps
                        : is_first && recorder_.HasSeenAllTwice()) {
    return true;
  }
  if (length_.seconds) {
    return seconds > *length_.seconds * (is_first ? 1 : kOthersPatience);
  }
  const double before = spent_;
  spent_ = std::max(CpuSecondsOf(process_, cpu_seconds_) - cpu_seconds_, seconds / kIdleness);
  budget_->Spend(spent_ - before);
  return seconds > kMostSeconds || budget_->left() <= (is_first ? spent_ : 0);
}

slicer::RankCalls FollowedRank::TakeCalls(slicer::CallsEnd end) {
  slicer::RankCalls calls = recorder_.TakeCalls();
  calls.end = end;
  return calls;
}

}  // namespace prism::launch
