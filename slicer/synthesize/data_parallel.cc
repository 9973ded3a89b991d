#include "slicer/synthesize/data_parallel.h"

namespace prism::slicer {

std::unique_ptr<DataParallel> MakeDataParallel(const StageContext& context) {
  const RankShape& rank = *context.rank;
  const bool zero3 = rank.job.zero_stage == 3;
  if (rank.built_in && zero3 && int64_t{rank.job.parallel.dp} * rank.job.parallel.cp > 1) {
    return MakeWorkloadSharding(context);
  }
  const bool sharded =
      rank.style.data_parallel == graph::DataParallelKind::kFsdp || (zero3 && !rank.built_in);
  return sharded ? MakeShardedDataParallel(context) : MakeBucketedDataParallel(context);
}

const Block& BlockOfCall(const UnitContent& content, StepKind pass) {
  switch (pass) {
    case StepKind::kForward:
      return content.blocks.forward;
    case StepKind::kInputGradient:
      return content.blocks.backward_input;
    case StepKind::kWeightGradient:
      return content.blocks.backward_weight;
    default:
      return content.blocks.backward;
  }
}

uint32_t IndexOfCall(const UnitContent& content, StepKind pass) {
  switch (pass) {
    case StepKind::kForward:
      return content.forward;
    case StepKind::kInputGradient:
      return content.backward_input;
    case StepKind::kWeightGradient:
      return content.backward_weight;
    default:
      return content.backward;
  }
}

}  // namespace prism::slicer
