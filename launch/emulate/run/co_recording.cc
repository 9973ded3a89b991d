#include "launch/emulate/run/co_recording.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "graph/describe.h"
#include "launch/emulate/run/recorded_process.h"
#include "launch/emulate/sandbox/record_turn.h"
#include "launch/emulate/sandbox/shared_memory.h"
#include "launch/emulate/sandbox/stack_text.h"
#include "launch/emulate/sandbox/stall_watch.h"
#include "launch/process/interrupt.h"
#include "launch/process/stop_watch.h"
#include "shim/channel/value_book.h"

namespace prism::launch {
namespace {

// After a program has failed, the others run on until they have issued nothing for that long, so
// that it does not depend on who is faster whose values they are known to have lacked.
constexpr double kSettledSeconds = 3;

constexpr auto kMostRanks = static_cast<size_t>(channel::kMaxSandboxRanks);

// One attempt: all of these ranks, at the same time.
class CoRecording {
 public:
  CoRecording(const RunContext& context,
              std::vector<Rank> ranks,
              std::string_view book,
              const RecordedLength& length)
      : context_(context),
        ranks_(std::move(ranks)),
        length_(length),
        exchange_("prism-exchange", kExchangeBytes),
        book_("prism-values", book),
        book_bytes_(book.size()),
        stall_watch_(context.options.stall_timeout_s) {}

  // Until each has sent what others need, or one has failed.
  Status Run() {
    PRISM_RETURN_IF_ERROR(Start());
    while (!IsOver()) {
      PRISM_RETURN_IF_ERROR(InterruptStatus());
      if (TakeReportRequest()) {
        ReportStacks();
      }
      PRISM_RETURN_IF_ERROR(Step());
    }
    return OkStatus();
  }

  // OK if all have sent what others need, else how the first of the failed ranks ended.
  [[nodiscard]] Status End() const {
    if (std::ranges::all_of(members_, HasSentAll)) {
      return OkStatus();
    }
    const auto failed = std::ranges::find_if(members_, HasFailed);
    PRISM_CHECK(failed != members_.end());
    return *failed->end;
  }

  // Ranks besides these, in whose place failed ranks were given other values; if there are none,
  // in whose place any was, which may have sent a failed one what it else would not.
  [[nodiscard]] std::set<Rank> Lacking() const {
    std::set<Rank> of_failed;
    std::set<Rank> of_any;
    for (const Member& member : members_) {
      for (const Rank producer : member.recorded.speculative_producers()) {
        if (!std::ranges::binary_search(ranks_, producer)) {
          of_any.insert(producer);
          if (HasFailed(member)) {
            of_failed.insert(producer);
          }
        }
      }
    }
    return of_failed.empty() ? of_any : of_failed;
  }

  std::string Values() {
    std::string values;
    for (Member& member : members_) {
      slicer::Recorder& recorder = member.recorded.recorder();
      const Result<graph::Fragment> fragment = recorder.Finish();
      const int32_t none = recorder.iterations() + 1;
      values += member.recorded.Values(fragment.ok() ? fragment->warmup_iterations : none);
    }
    // What one of them took from outside may have reached any of them.
    if (std::ranges::any_of(members_, IsSpeculative)) {
      channel::MarkSpeculative(&values);
    }
    return values;
  }

 private:
  struct Member {
    RecordedProcess recorded;
    int64_t moved_at = 0;            // Step in which it last issued something
    std::optional<Status> end = {};  // once it has exited
  };

  static bool IsSpeculative(const Member& member) {
    return !member.recorded.speculative_producers().empty();
  }

  static bool EndedBadly(const Member& member) {
    return member.end.has_value() && !member.end->ok();
  }

  static bool HasFailed(const Member& member) {
    return EndedBadly(member) && !member.recorded.recorder().complete();
  }

  static bool HasSentAll(const Member& member) {
    return member.recorded.recorder().complete() || (member.end.has_value() && member.end->ok());
  }

  Status Start() {
    if (ranks_.size() > kMostRanks) {
      return RunFailed(
          fmt::format("{} ranks wait for what the others of them send; at most {} can run together",
                      ranks_.size(), kMostRanks));
    }
    if (!exchange_.valid() || !book_.valid()) {
      return EnvironmentLacks("cannot create shared memory for ranks that run together");
    }
    PRISM_ASSIGN_OR_RETURN(store_, StartStore(context_, ranks_.size()));
    SandboxRequest request;
    request.present = ranks_;
    request.meeting.exchange = exchange_.Path();
    request.meeting.store_port = store_ == nullptr ? 0 : store_->port();
    request.meeting.values = book_.Path();
    for (const Rank rank : ranks_) {
      request.meeting.value_bytes[rank] = book_bytes_;
    }
    for (const Rank rank : ranks_) {
      request.rank = rank;
      PRISM_ASSIGN_OR_RETURN(auto process,
                             SandboxProcess::Start(MakeSandboxSpec(context_, request)));
      members_.push_back(
          {RecordedProcess(std::move(process), MakeRecorderOptions(context_, rank, length_))});
    }
    return OkStatus();
  }

  [[nodiscard]] bool IsOver() const {
    return std::ranges::all_of(members_, HasSentAll) ||
           (std::ranges::any_of(members_, HasFailed) && since_move_.Seconds() > kSettledSeconds);
  }

  // Takes what there is, else waits briefly.
  Status Step() {
    ++steps_;
    bool moved = false;
    for (Member& member : members_) {
      const bool had_sent_all = HasSentAll(member);
      PRISM_ASSIGN_OR_RETURN(const RecordTurn turn, Take(&member.recorded));
      if (turn.exited && !member.end.has_value()) {
        member.end = member.recorded.ExitStatus();
        moved = true;
      }
      if (turn.moves > 0 && !had_sent_all) {
        member.moved_at = steps_;
        moved = true;
      }
    }
    PRISM_RETURN_IF_ERROR(CheckStore(context_, store_.get()));
    if (moved) {
      stall_watch_.Move();
      since_move_ = StopWatch();
      return OkStatus();
    }
    WaitForRecords(members_[static_cast<size_t>(steps_) % members_.size()].recorded.process());
    return CheckStall();
  }

  // Nobody issues anything. Whose fault that is cannot be told, except of one that ended badly
  // after it was complete: shows the one that has been silent for the longest, and where the others
  // are.
  Status CheckStall() {
    if (IsOver() || std::ranges::any_of(members_, HasFailed)) {
      return OkStatus();
    }
    Member* silent = nullptr;
    for (Member& member : members_) {
      if (!HasSentAll(member) && (silent == nullptr || member.moved_at < silent->moved_at)) {
        silent = &member;
      }
    }
    const Status stall = stall_watch_.Check(silent->recorded.process(),
                                            silent->recorded.recorder().iterations() - 1);
    if (stall.ok()) {
      return stall;
    }
    const auto bad = std::ranges::find_if(members_, EndedBadly);
    return bad != members_.end() ? *bad->end
                                 : Status(stall.code(), stall.message() + PlacesBeside(*silent));
  }

  // A line for each of the others.
  std::string PlacesBeside(const Member& silent) {
    std::string text = "\nwhile those that it runs with are at";
    for (Member& member : members_) {
      if (&member != &silent && !member.end.has_value()) {
        text += fmt::format("\n    rank {}: {}", member.recorded.rank().value(),
                            fmt::join(InnermostFrames(member.recorded.process().Stacks(), 1), ""));
      }
    }
    return text;
  }

  // Of a rank that is complete, others may still need messages: it runs on, unobserved.
  static Result<RecordTurn> Take(RecordedProcess* recorded) {
    const RecordTaker take = [recorded](const channel::Record& record,
                                        std::span<const std::byte> payload) -> Result<bool> {
      if (!recorded->recorder().complete()) {
        PRISM_RETURN_IF_ERROR(recorded->See(record, payload));
      }
      return true;
    };
    return TakeRecords(recorded->process(), take);
  }

  void ReportStacks() {
    for (Member& member : members_) {
      member.recorded.ReportStacks("runs together with those that it waits for");
    }
  }

  const RunContext& context_;
  std::vector<Rank> ranks_;  // ascending
  const RecordedLength& length_;
  SharedMemory exchange_;
  SharedMemory book_;
  uint64_t book_bytes_;
  std::unique_ptr<StoreServer> store_;
  std::vector<Member> members_;
  StallWatch stall_watch_;
  StopWatch since_move_;
  int64_t steps_ = 0;
};

}  // namespace

Result<std::string> CoRecord(const RunContext& context,
                             const std::vector<Rank>& ranks,
                             std::string_view book,
                             const RecordedLength& length) {
  std::set<Rank> together(ranks.begin(), ranks.end());
  while (true) {
    CoRecording co_recording(context, {together.begin(), together.end()}, book, length);
    PRISM_RETURN_IF_ERROR(co_recording.Run());
    const Status end = co_recording.End();
    if (end.ok()) {
      return co_recording.Values();
    }
    const std::set<Rank> lacking = co_recording.Lacking();
    if (lacking.empty() || together.size() + lacking.size() > kMostRanks) {
      return end;
    }
    context.logger.Info("they failed for want of what others send: running {} along with them",
                        graph::RanksText(std::vector(lacking.begin(), lacking.end())));
    together.insert(lacking.begin(), lacking.end());
  }
}

}  // namespace prism::launch
