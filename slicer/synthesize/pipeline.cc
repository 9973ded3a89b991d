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

// The k-th forward or backward pass of a stage. Interleaving runs pp micro-batches through one
// chunk before it turns to the next; backward visits the chunks in reverse.
PipelinePass PassAt(const ParallelSizes& parallel, int64_t k, bool forward) {
  const int64_t round = int64_t{parallel.pp} * parallel.vpp;
  const auto chunk = static_cast<int32_t>(k % round / parallel.pp);
  PipelinePass pass;
  pass.forward = forward;
  pass.chunk = forward ? chunk : parallel.vpp - 1 - chunk;
  pass.microbatch = parallel.vpp == 1 ? k : k / round * parallel.pp + k % parallel.pp;
  return pass;
}

int64_t WarmupPasses(const ParallelSizes& parallel, int32_t stage, int64_t total) {
  const int64_t behind = parallel.pp - stage - 1;
  if (parallel.vpp == 1) {
    return std::min(behind, total);
  }
  return std::min(behind * 2 + int64_t{parallel.vpp - 1} * parallel.pp, total);
}

// Emits the program of one rank.
class PipelineRank {
 public:
  PipelineRank(const ParallelLayout& layout, const PipelineBody& body, Rank rank)
      : layout_(layout), body_(body), rank_(rank), builder_(rank, kPipelineStreams) {
    stage_ = layout.CoordinatesOf(rank)[static_cast<size_t>(Axis::kPp)];
  }

  graph::Fragment Build(int64_t microbatches) {
    builder_.MarkerBegin("iteration");
    for (const PipelinePass& pass : PipelineSchedule(layout_.sizes(), stage_, microbatches)) {
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
  void EmitPass(const PipelinePass& pass) {
    const bool is_first = stage_ == 0 && pass.chunk == 0;
    const bool is_last = stage_ == layout_.sizes().pp - 1 && pass.chunk == layout_.sizes().vpp - 1;
    const bool has_input = pass.forward ? !is_first : !is_last;
    const bool has_output = pass.forward ? !is_last : !is_first;
    const int32_t along = pass.forward ? 1 : -1;
    const uint16_t receive = pass.forward ? kReceiveForwardStream : kReceiveBackwardStream;
    const uint16_t send = pass.forward ? kSendForwardStream : kSendBackwardStream;
    if (has_input) {
      Transfer(receive, false, -along, pass.forward);
      builder_.Order(receive, kComputeStream);
    }
    body_.pass(builder_, rank_, pass);
    if (has_output) {
      builder_.Order(kComputeStream, send);
      Transfer(send, true, along, pass.forward);
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

Status CheckSchedule(const graph::JobSpec& job) {
  const ParallelSizes& sizes = job.parallel;
  if (job.microbatches() < 1) {
    return InvalidArgument("a pipeline needs at least one micro-batch");
  }
  if (sizes.vpp > 1 && (sizes.pp < 2 || job.microbatches() % sizes.pp != 0)) {
    return InvalidArgument(
        fmt::format("interleaving (vpp {}) needs at least two stages and micro-batches in "
                    "multiples of the {} stages, not {}",
                    sizes.vpp, sizes.pp, job.microbatches()));
  }
  return OkStatus();
}

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

std::vector<PipelinePass> PipelineSchedule(const ParallelSizes& parallel,
                                           int32_t stage,
                                           int64_t microbatches) {
  PRISM_CHECK(parallel.vpp == 1 || microbatches % parallel.pp == 0);
  const int64_t total = microbatches * parallel.vpp;
  const int64_t warmup = WarmupPasses(parallel, stage, total);
  std::vector<PipelinePass> passes;
  passes.reserve(static_cast<size_t>(2 * total));
  for (int64_t k = 0; k < warmup; ++k) {
    passes.push_back(PassAt(parallel, k, true));
  }
  for (int64_t k = warmup; k < total; ++k) {
    passes.push_back(PassAt(parallel, k, true));
    passes.push_back(PassAt(parallel, k - warmup, false));
  }
  for (int64_t k = total - warmup; k < total; ++k) {
    passes.push_back(PassAt(parallel, k, false));
  }
  return passes;
}

Result<graph::Graph> MakePipeline(const graph::JobSpec& job, const PipelineBody& body) {
  PRISM_ASSIGN_OR_RETURN(SlicePlan plan,
                         MakePlan(job, {.max_roles = job.parallel.pp, .spot_checks = 0}));
  PRISM_RETURN_IF_ERROR(CheckSchedule(job));
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
  body.pass = [&](ProgramBuilder& builder, Rank rank, const PipelinePass& pass) {
    const DurationNs whole = pass.forward ? options.forward_ns : options.backward_ns;
    DurationNs left = whole;
    for (int32_t layer = 0; layer < options.layers_per_chunk; ++layer) {
      const bool last = layer + 1 == options.layers_per_chunk;
      const DurationNs part = last ? left : whole / options.layers_per_chunk;
      left -= part;
      builder.Kernel(kComputeStream, pass.forward ? "forward" : "backward", part);
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
