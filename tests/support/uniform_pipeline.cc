#include "tests/support/uniform_pipeline.h"

#include "graph/program/job_groups.h"
#include "slicer/workloads/pipeline.h"

namespace prism::testing {
namespace {

using graph::GroupAxis;

graph::CollectiveShape AllReduce(int64_t bytes) {
  return {graph::CollectiveKind::kAllReduce, DataType::kBfloat16, graph::ReduceOp::kSum, -1, bytes};
}

}  // namespace

Result<graph::Graph> MakeUniformPipeline(const UniformPipeline& options) {
  graph::JobSpec job;
  job.name = "pipeline";
  job.user_program = true;
  job.parallel = options.parallel;
  job.global_batch_size = options.microbatches * options.parallel.dp;
  const graph::JobGroups groups(options.parallel, 0);
  slicer::PipelineBody body;
  body.message_bytes = options.message_bytes;
  body.pass = [&](slicer::ProgramBuilder& builder, Rank rank, const slicer::StageStep& pass) {
    const bool forward = pass.kind == slicer::StepKind::kForward;
    const DurationNs whole = forward ? options.forward_ns : options.backward_ns;
    DurationNs left = whole;
    for (int32_t layer = 0; layer < options.layers_per_chunk; ++layer) {
      const bool last = layer + 1 == options.layers_per_chunk;
      const DurationNs part = last ? left : whole / options.layers_per_chunk;
      left -= part;
      builder.Kernel(slicer::kComputeStream, forward ? "forward" : "backward", part);
      if (options.tensor_bytes > 0) {
        builder.Collective(slicer::kComputeStream,
                           builder.CommSlot("tp", groups.Members(GroupAxis::kTensor, rank)),
                           AllReduce(options.tensor_bytes));
      }
    }
  };
  body.finish = [&](slicer::ProgramBuilder& builder, Rank rank) {
    if (options.gradient_bytes > 0) {
      builder.Collective(slicer::kComputeStream,
                         builder.CommSlot("dp", groups.Members(GroupAxis::kData, rank)),
                         AllReduce(options.gradient_bytes));
    }
  };
  return slicer::MakePipeline(job, body);
}

}  // namespace prism::testing
