#include "launch/plan/offloaded_job.h"

#include "replayer/memory/layer_tensors.h"
#include "replayer/memory/model_states.h"
#include "slicer/edit/job_offload.h"
#include "slicer/edit/offload_parts.h"
#include "slicer/synthesize/synthesize.h"

namespace prism::launch {
namespace {

constexpr int64_t kPrefetch = 1;  // pieces ahead of the one in use

int64_t LayerBytes(const graph::JobSpec& job, const graph::TrainingStyle& style) {
  return replayer::LayerTensors(job, style, 0).saved_bytes();
}

}  // namespace

Result<graph::JobProgram> SynthesizeOffloaded(const graph::JobSpec& job,
                                              const graph::TrainingStyle& style,
                                              graph::Offload what) {
  PRISM_ASSIGN_OR_RETURN(graph::JobProgram program,
                         slicer::Synthesize(job, style, slicer::Markers::kAll));
  PRISM_RETURN_IF_ERROR(slicer::OffloadJob({what, kPrefetch, LayerBytes(job, style)}, &program));
  return program;
}

Result<std::vector<replayer::HostTier>> HostTiersOf(const graph::JobSpec& job,
                                                    const graph::TrainingStyle& style,
                                                    graph::Offload what) {
  std::vector<replayer::HostTier> tiers(static_cast<size_t>(job.parallel.pp),
                                        {.what = what, .prefetch = kPrefetch});
  if (!graph::OffloadsOptimizer(what)) {
    return tiers;
  }
  // The update is the same however many micro-batches come before it.
  graph::JobSpec once = job;
  const int64_t microbatches = job.parallel.vpp > 1 ? job.parallel.pp : 1;
  once.global_batch_size = microbatches * job.micro_batch_size * job.parallel.dp;
  PRISM_ASSIGN_OR_RETURN(const graph::JobProgram program,
                         slicer::Synthesize(once, style, slicer::Markers::kNone));
  const std::vector<int64_t> at_once = slicer::StatesAtOnce(program, kPrefetch);
  for (size_t stage = 0; stage < tiers.size(); ++stage) {
    tiers[stage].moments_at_once_bytes = at_once[stage];
  }
  return tiers;
}

Result<int64_t> CopiedInBytes(const graph::JobSpec& job,
                              const graph::TrainingStyle& style,
                              graph::Offload what,
                              int32_t stage) {
  int64_t bytes = 0;
  if (graph::OffloadsOptimizer(what)) {
    PRISM_ASSIGN_OR_RETURN(const std::vector<replayer::StateTensor> states,
                           replayer::StatesOfStage(job, style, stage));
    for (const replayer::StateTensor& state : states) {
      bytes += state.moment ? state.bytes : 0;
    }
  }
  if (graph::OffloadsActivations(what)) {
    bytes +=
        job.microbatches() * replayer::LayersOfStage(job, style, stage) * LayerBytes(job, style);
  }
  return bytes;
}

std::vector<std::string> OffloadAssumptions(graph::Offload what) {
  std::vector<std::string> lines;
  if (graph::OffloadsOptimizer(what)) {
    lines.push_back(slicer::StatesRule(kPrefetch));
    lines.emplace_back(
        "offload of optimizer states: the moments move; the update runs on the GPU, where the "
        "master copy of the parameters stays (Megatron-Core's --offload-optimizer-states); an "
        "update on the host (--optimizer-cpu-offload) is not modelled");
  }
  if (graph::OffloadsActivations(what)) {
    lines.push_back(slicer::ActivationsRule(
        "what a layer keeps of a micro-batch for its backward pass", kPrefetch));
  }
  return lines;
}

}  // namespace prism::launch
