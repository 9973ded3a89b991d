#include "slicer/synthesize/pipeline.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/parallel_layout.h"
#include "slicer/plan.h"
#include "slicer/stitch/stitch.h"

namespace prism::slicer {
namespace {

using graph::Axis;
using graph::ParallelLayout;
using graph::ParallelSizes;

// Emits the program of one rank.
class PipelineRank {
 public:
  PipelineRank(const ParallelLayout& layout, const PipelineBody& body, Rank rank)
      : layout_(layout), body_(body), rank_(rank), builder_(rank, kPipelineStreams) {
    stage_ = layout.CoordinatesOf(rank)[static_cast<size_t>(Axis::kPp)];
  }

  graph::Fragment Build(int64_t microbatches) {
    builder_.MarkerBegin("iteration");
    for (const StageStep& pass : StagePasses(
             layout_.sizes(), graph::Schedule::kOneForwardOneBackward, stage_, microbatches)) {
      EmitPass(pass);
    }
    if (body_.finish) {
      body_.finish(builder_, rank_);
    }
    builder_.DeviceSync();
    builder_.MarkerEnd("iteration");
    return builder_.Finish();
  }

 private:
  void EmitPass(const StageStep& pass) {
    const bool forward = pass.kind == StepKind::kForward;
    const bool is_first = stage_ == 0 && pass.chunk == 0;
    const bool is_last = stage_ == layout_.sizes().pp - 1 && pass.chunk == layout_.sizes().vpp - 1;
    const bool has_input = forward ? !is_first : !is_last;
    const bool has_output = forward ? !is_last : !is_first;
    const int32_t along = forward ? 1 : -1;
    const uint16_t receive = forward ? kReceiveForwardStream : kReceiveBackwardStream;
    const uint16_t send = forward ? kSendForwardStream : kSendBackwardStream;
    if (has_input) {
      Transfer(receive, false, -along, forward);
      builder_.Order(receive, kComputeStream);
    }
    body_.pass(builder_, rank_, pass);
    if (has_output) {
      builder_.Order(kComputeStream, send);
      Transfer(send, true, along, forward);
    }
  }

  // Activations and gradients have a communicator each: with two stages (and between the last and
  // the first one) both go to the same peer, and messages pair by order alone.
  void Transfer(uint16_t stream, bool is_send, int32_t stages_on, bool forward) {
    graph::GroupPattern group;
    for (int32_t stage = 0; stage < layout_.sizes().pp; ++stage) {
      group.coordinates[static_cast<size_t>(Axis::kPp)].push_back(stage);
    }
    graph::Coordinates peer = layout_.CoordinatesOf(rank_);
    int32_t& peer_stage = peer[static_cast<size_t>(Axis::kPp)];
    peer_stage = (peer_stage + stages_on + layout_.sizes().pp) % layout_.sizes().pp;
    graph::PeerTransfer transfer;
    transfer.is_send = is_send;
    transfer.comm_slot =
        builder_.CommSlot(forward ? "pp forward" : "pp backward", layout_.MembersOf(rank_, group));
    transfer.peer_slot = builder_.PeerSlot(layout_.RankAt(peer));
    transfer.bytes = body_.message_bytes;
    builder_.PeerGroup(stream, {{transfer}});
  }

  const ParallelLayout& layout_;
  const PipelineBody& body_;
  Rank rank_;
  int32_t stage_ = 0;
  ProgramBuilder builder_;
};

// The group of all coordinates on one axis that the rank is in.
std::vector<Rank> AxisGroup(const ParallelLayout& layout, Rank rank, Axis axis) {
  graph::GroupPattern group;
  for (int32_t i = 0; i < layout.size(axis); ++i) {
    group.coordinates[static_cast<size_t>(axis)].push_back(i);
  }
  return layout.MembersOf(rank, group);
}

graph::CollectiveShape AllReduce(int64_t bytes) {
  return {graph::CollectiveKind::kAllReduce, graph::DataType::kBfloat16, graph::ReduceOp::kSum, -1,
          bytes};
}

}  // namespace

Result<graph::Graph> MakePipeline(const graph::JobSpec& job, const PipelineBody& body) {
  PRISM_ASSIGN_OR_RETURN(SlicePlan plan,
                         MakePlan(job, {.max_roles = job.parallel.pp, .spot_checks = 0}));
  PRISM_RETURN_IF_ERROR(CheckSchedule(job, graph::TrainingStyle()));
  const ParallelLayout layout(job.parallel);
  StitchInput input;
  input.job = job;
  for (const PlannedRole& role : plan.roles) {
    input.fragments.push_back(
        PipelineRank(layout, body, role.representative).Build(job.microbatches()));
  }
  input.plan = std::move(plan);
  return Stitch(std::move(input));
}

Result<graph::Graph> MakeUniformPipeline(const UniformPipeline& options) {
  graph::JobSpec job;
  job.name = "pipeline";
  job.user_program = true;
  job.parallel = options.parallel;
  job.global_batch_size = options.microbatches * options.parallel.dp;
  const ParallelLayout layout(options.parallel);
  PipelineBody body;
  body.message_bytes = options.message_bytes;
  body.pass = [&](ProgramBuilder& builder, Rank rank, const StageStep& pass) {
    const bool forward = pass.kind == StepKind::kForward;
    const DurationNs whole = forward ? options.forward_ns : options.backward_ns;
    DurationNs left = whole;
    for (int32_t layer = 0; layer < options.layers_per_chunk; ++layer) {
      const bool last = layer + 1 == options.layers_per_chunk;
      const DurationNs part = last ? left : whole / options.layers_per_chunk;
      left -= part;
      builder.Kernel(kComputeStream, forward ? "forward" : "backward", part);
      if (options.tensor_bytes > 0) {
        builder.Collective(kComputeStream,
                           builder.CommSlot("tp", AxisGroup(layout, rank, Axis::kTp)),
                           AllReduce(options.tensor_bytes));
      }
    }
  };
  body.finish = [&](ProgramBuilder& builder, Rank rank) {
    if (options.gradient_bytes > 0) {
      builder.Collective(kComputeStream, builder.CommSlot("dp", AxisGroup(layout, rank, Axis::kDp)),
                         AllReduce(options.gradient_bytes));
    }
  };
  return MakePipeline(job, body);
}

}  // namespace prism::slicer
