#include "launch/emulate/run/source_finder.h"

#include <optional>

#include "launch/emulate/sandbox/record_turn.h"
#include "launch/emulate/sandbox/stack_text.h"
#include "launch/emulate/sandbox/stall_watch.h"
#include "launch/process/interrupt.h"
#include "slicer/record/op_stream.h"

namespace prism::launch {
namespace {

using channel::RecordKind;
using graph::OpKind;

constexpr size_t kFramesOfSource = 3;

bool IsShared(OpKind kind) {
  return kind == OpKind::kCollective || kind == OpKind::kPeerGroup;
}

// Counts the ops that involve other ranks: kernels and segments may differ when a rank runs again.
class Countdown {
 public:
  explicit Countdown(const SourceQuery& query)
      : stream_(query.rank, 0, query.steps), iteration_(query.iteration) {
    for (uint32_t op = 0; op <= query.op; ++op) {
      left_ += IsShared(query.program->kind[op]) ? 1 : 0;
    }
  }

  // True from the record that completes the op.
  Result<bool> Take(const channel::Record& record, std::span<const std::byte> payload) {
    PRISM_ASSIGN_OR_RETURN(const auto placed, stream_.Push(record, payload));
    for (const slicer::PlacedOp& op : placed) {
      left_ -= op.place.iteration == iteration_ && IsShared(op.op.kind) ? 1 : 0;
    }
    return left_ <= 0;
  }

 private:
  slicer::OpStream stream_;
  int32_t iteration_;
  int64_t left_ = 0;
};

}  // namespace

Result<std::vector<std::string>> FindSource(const RunContext& context, const SourceQuery& query) {
  SandboxRequest request;
  request.rank = query.rank;
  request.present = {query.rank};
  request.meeting = query.meeting;
  PRISM_ASSIGN_OR_RETURN(const auto store, StartStore(context, 1));
  request.meeting.store_port = store == nullptr ? 0 : store->port();
  SandboxSpec spec = MakeSandboxSpec(context, request);
  spec.config.fences = 1;
  PRISM_ASSIGN_OR_RETURN(const auto process, SandboxProcess::Start(spec));
  StallWatch stall_watch(context.options.stall_timeout_s);
  Countdown countdown(query);
  bool reached = false;
  std::optional<std::vector<std::string>> frames;
  const RecordTaker take = [&](const channel::Record& record,
                               std::span<const std::byte> payload) -> Result<bool> {
    PRISM_ASSIGN_OR_RETURN(const bool complete, countdown.Take(record, payload));
    reached = reached || complete;
    if (record.kind == RecordKind::kFence && reached) {
      frames = InnermostFrames(process->Stacks(), kFramesOfSource);
    } else if (record.kind == RecordKind::kFence) {
      process->channel().Reply(record.sync.request, {0, 0, 0});
      stall_watch.Move();
    }
    return !frames;
  };
  while (true) {
    PRISM_RETURN_IF_ERROR(InterruptStatus());
    PRISM_ASSIGN_OR_RETURN(const RecordTurn turn, TakeRecords(*process, take));
    if (frames || turn.exited) {
      return frames.value_or(std::vector<std::string>());
    }
    PRISM_RETURN_IF_ERROR(stall_watch.Check(*process, query.iteration));
    WaitForRecords(*process);
  }
}

}  // namespace prism::launch
