#include "launch/emulate/run/followed_rank.h"

namespace prism::launch {
namespace {

constexpr double kMostSeconds = 60;
constexpr double kOthersPatience = 4;  // times the seconds of the rank that came first
constexpr double kIdleness = 16;       // seconds without work that count as one with

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
  told_while_recorded_ = recorder_.calls().told_ranks.size();
  budget_->Earn(clock_.emplace(process_).begin());
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
  spent_ = clock_->Seconds(kIdleness);
  budget_->Spend(spent_ - before);
  return seconds > kMostSeconds || budget_->left() <= (is_first ? spent_ : 0);
}

slicer::RankCalls FollowedRank::TakeCalls(slicer::CallsEnd end) {
  slicer::RankCalls calls = recorder_.TakeCalls();
  calls.end = end;
  calls.told_while_recorded =
      static_cast<int32_t>(told_while_recorded_.value_or(calls.told_ranks.size()));
  return calls;
}

}  // namespace prism::launch
