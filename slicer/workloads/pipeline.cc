#include "slicer/workloads/pipeline.h"

#include "graph/program/job_groups.h"
#include "slicer/plan.h"
#include "slicer/stitch/stitch.h"

namespace prism::slicer {
namespace {

// Every message separately, on the stream of its direction.
graph::TrainingStyle MessagesApart() {
  graph::TrainingStyle style;
  style.overlap_p2p = true;
  return style;
}

// Emits the program of one rank.
class PipelineRank {
 public:
  PipelineRank(const graph::JobSpec& job, const PipelineBody& body, Rank rank)
      : job_(job),
        groups_(job.parallel, 0),
        body_(body),
        rank_(rank),
        builder_(rank, kPipelineStreams) {}

  graph::Fragment Build() {
    builder_.MarkerBegin("iteration");
    for (const StageStep& step : StageSteps(job_, MessagesApart(), groups_.StageOf(rank_))) {
      if (step.kind == StepKind::kExchange) {
        Exchange(step.exchange);
      } else {
        body_.pass(builder_, rank_, step);
      }
    }
    if (body_.finish) {
      body_.finish(builder_, rank_);
    }
    builder_.DeviceSync();
    builder_.MarkerEnd("iteration");
    return builder_.Finish();
  }

 private:
  void Exchange(const StageExchange& exchange) {
    const bool forward = exchange.to_next || exchange.from_previous;
    if (exchange.to_next || exchange.to_previous) {
      const uint16_t send = forward ? kSendForwardStream : kSendBackwardStream;
      builder_.Order(kComputeStream, send);
      Transfer(send, true, forward);
    } else {
      const uint16_t receive = forward ? kReceiveForwardStream : kReceiveBackwardStream;
      Transfer(receive, false, forward);
      builder_.Order(receive, kComputeStream);
    }
  }

  // Activations and gradients have separate communicators: with two stages (and between the last
  // and the first one) both go to the same peer, and messages are paired only by order.
  void Transfer(uint16_t stream, bool is_send, bool forward) {
    const int32_t stages = job_.parallel.pp;
    const int32_t stage = groups_.StageOf(rank_);
    const int32_t peer_stage = (stage + (is_send == forward ? 1 : stages - 1)) % stages;
    const int32_t peer =
        static_cast<int32_t>(rank_.value()) + (peer_stage - stage) * groups_.ranks_per_stage();
    graph::PeerTransfer transfer;
    transfer.is_send = is_send;
    transfer.comm_slot = builder_.CommSlot(forward ? "pp forward" : "pp backward",
                                           groups_.Members(graph::GroupAxis::kPipeline, rank_));
    transfer.peer_slot = builder_.PeerSlot(Rank(static_cast<uint32_t>(peer)));
    transfer.bytes = body_.message_bytes;
    builder_.PeerGroup(stream, {{transfer}});
  }

  const graph::JobSpec& job_;
  graph::JobGroups groups_;
  const PipelineBody& body_;
  Rank rank_;
  ProgramBuilder builder_;
};

}  // namespace

Result<graph::Graph> MakePipeline(const graph::JobSpec& job, const PipelineBody& body) {
  PRISM_ASSIGN_OR_RETURN(SlicePlan plan,
                         MakePlan(job, {.max_roles = job.parallel.pp, .spot_checks = 0}));
  PRISM_RETURN_IF_ERROR(CheckSchedule(job, MessagesApart()));
  StitchInput input;
  input.job = job;
  for (const PlannedRole& role : plan.roles) {
    input.fragments.push_back(PipelineRank(job, body, role.representative).Build());
  }
  input.plan = std::move(plan);
  return Stitch(std::move(input));
}

}  // namespace prism::slicer
