#include "launch/run/rehearsal.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "launch/process/interrupt.h"
#include "launch/run/recorded_process.h"
#include "launch/sandbox/record_turn.h"
#include "launch/sandbox/shared_memory.h"
#include "launch/sandbox/stall_watch.h"

namespace prism::launch {
namespace {

class Rehearsal {
 public:
  Rehearsal(const RunContext& context, const std::vector<Rank>& ranks, std::string_view book)
      : context_(context),
        ranks_(ranks),
        exchange_("prism-exchange", kExchangeBytes),
        book_("prism-values", book),
        book_bytes_(book.size()),
        stall_watch_(context.options.stall_timeout_s) {}

  Status Start() {
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
      slicer::RecorderOptions options;
      options.rank = rank;
      options.warmup_iterations = 0;
      options.world_size = static_cast<int32_t>(context_.job.parallel.world_size());
      members_.emplace_back(std::move(process), options);
    }
    return OkStatus();
  }

  // Takes what there is, else waits briefly. True once all have sent what others need,
  // or one has failed for want of what a rank beside them sends.
  Result<bool> Step() {
    bool all = true;
    bool moved = false;
    for (RecordedProcess& member : members_) {
      PRISM_ASSIGN_OR_RETURN(const RecordTurn turn, Take(&member));
      moved = moved || turn.moves > 0;
      if (turn.exited && !member.recorder().complete()) {
        if (const Status end = member.ExitStatus(); !end.ok()) {
          return LacksOthers(member) ? Result<bool>(true) : end;
        }
      }
      all = all && (turn.exited || member.recorder().complete());
    }
    PRISM_RETURN_IF_ERROR(CheckStore(context_, store_.get()));
    if (moved) {
      stall_watch_.Move();
    } else {
      RecordedProcess& first = members_.front();
      PRISM_RETURN_IF_ERROR(stall_watch_.Check(first.process(), first.recorder().iterations() - 1));
      WaitForRecords(members_[waits_++ % members_.size()].process());
    }
    return all;
  }

  std::string Values() {
    std::string values;
    for (RecordedProcess& member : members_) {
      const Result<graph::Fragment> fragment = member.recorder().Finish();
      const int32_t none = member.recorder().iterations() + 1;
      values += member.Values(fragment.ok() ? fragment->warmup_iterations : none);
    }
    return values;
  }

 private:
  // Of a rank that is complete, others may still need messages: it runs on, unobserved.
  static Result<RecordTurn> Take(RecordedProcess* member) {
    const RecordTaker take = [member](const channel::Record& record,
                                      std::span<const std::byte> payload) -> Result<bool> {
      if (!member->recorder().complete()) {
        PRISM_RETURN_IF_ERROR(member->See(record, payload));
      }
      return true;
    };
    return TakeRecords(member->process(), take);
  }

  [[nodiscard]] bool LacksOthers(const RecordedProcess& member) const {
    return std::ranges::any_of(member.guessed_from(), [&](Rank giver) {
      return !std::ranges::binary_search(ranks_, giver);
    });
  }

  const RunContext& context_;
  const std::vector<Rank>& ranks_;
  SharedMemory exchange_;
  SharedMemory book_;
  uint64_t book_bytes_;
  std::unique_ptr<StoreServer> store_;
  std::vector<RecordedProcess> members_;
  StallWatch stall_watch_;
  size_t waits_ = 0;
};

}  // namespace

Result<std::string> Rehearse(const RunContext& context,
                             const std::vector<Rank>& ranks,
                             std::string_view book) {
  Rehearsal rehearsal(context, ranks, book);
  PRISM_RETURN_IF_ERROR(rehearsal.Start());
  while (true) {
    PRISM_RETURN_IF_ERROR(InterruptStatus());
    PRISM_ASSIGN_OR_RETURN(const bool ended, rehearsal.Step());
    if (ended) {
      return rehearsal.Values();
    }
  }
}

}  // namespace prism::launch
