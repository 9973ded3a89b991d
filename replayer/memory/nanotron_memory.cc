#include "replayer/memory/nanotron_memory.h"

#include <algorithm>
#include <vector>

#include "graph/base/divide.h"
#include "replayer/memory/memory_account.h"
#include "replayer/memory/model_states.h"
#include "replayer/memory/nanotron_passes.h"

namespace prism::replayer {
namespace {

using graph::JobSpec;

constexpr int kIterations = 3;                       // what the benchmark runs
constexpr int64_t kBucketBytes = int64_t{25} << 20;  // of DistributedDataParallel

// Number of micro-batches beyond those in flight after which nothing new is reserved.
constexpr int64_t kSteadyMicrobatches = 4;

// AdamW keeps a master copy and two moments, all float32.
constexpr int64_t kFp32Bytes = 4;

// When the host runs ahead of its device, and leaves collectives pending.
enum class HostLead : uint8_t {
  kNever,
  kWarmUp,  // of a pipeline, from the third forward pass to the first gradient: the device waits
            // for the next stages to receive, the host does not
  kSteady,  // of a pipeline, from the third forward pass on
  kAlways,
};

// Published peaks show two kinds of runs, presumably of two versions of nanotron. In the later one
// hosts wait for every message between stages, and nothing is pending; if a layer ends exactly at
// the end of a stage's share of the work, the stage gets one more layer. Jobs of kLargeWorldSize
// ranks or more and pipelines of kWideTensorParallel are of the later kind, models on one stage
// with that many tensor-parallel ranks are not; pipelines of large models are from half as many
// ranks on, and the iteration times of most of those also show that they wait for messages (8B on
// 256 GPUs: 2.5 times as long).
constexpr int32_t kWideTensorParallel = 32;
constexpr int64_t kLargeWorldSize = 512;
constexpr int64_t kLargeHidden = 4096;

bool IsOfLaterVersion(const JobSpec& job) {
  const graph::ParallelSizes& sizes = job.parallel;
  const bool wide = sizes.tp >= kWideTensorParallel;
  if (sizes.pp == 1) {
    return !wide && sizes.world_size() >= kLargeWorldSize;
  }
  const int64_t parts = job.model.hidden >= kLargeHidden ? 2 : 1;
  return wide || parts * sizes.world_size() >= kLargeWorldSize;
}

// Whether the stages up to `stage` end exactly with a layer, with work measured by the products of
// layers and head.
bool EndsWithLayer(const JobSpec& job, int64_t stage) {
  const graph::ModelSpec& model = job.model;
  const int64_t layer = model.hidden * (4 * model.hidden + 3 * model.ffn);
  const int64_t all = model.layers * layer + model.vocab * model.hidden;
  return stage >= 0 && stage < job.parallel.pp - 1 &&
         all * (stage + 1) % (layer * job.parallel.pp) == 0;
}

int64_t LayersOf(const JobSpec& job, const graph::TrainingStyle& style, int32_t stage) {
  const int64_t layers = LayersOfStage(job, style, stage);
  return IsOfLaterVersion(job) ? layers + (EndsWithLayer(job, stage) ? 1 : 0) -
                                     (EndsWithLayer(job, stage - 1) ? 1 : 0)
                               : layers;
}

bool DeviceLags(const JobSpec& job, const PendingModel& pending) {
  const graph::ModelSpec& model = job.model;
  const double weights =
      static_cast<double>(model.hidden) *
      (4 * static_cast<double>(model.hidden) + 3 * static_cast<double>(model.ffn));
  const double tokens = static_cast<double>(job.micro_batch_size * job.seq_len);
  const double device = 6 * weights * tokens / (job.parallel.tp * pending.device_flops);
  return device > pending.lag_share * (pending.host_s + pending.host_rank_s * job.parallel.tp);
}

HostLead LeadOf(const JobSpec& job, const PendingModel& pending) {
  if (IsOfLaterVersion(job)) {
    return HostLead::kNever;
  }
  if (job.parallel.pp == 1) {
    return HostLead::kAlways;
  }
  return DeviceLags(job, pending) ? HostLead::kSteady : HostLead::kWarmUp;
}

class NanotronRank {
 public:
  NanotronRank(const JobSpec& job,
               const graph::TrainingStyle& style,
               int32_t stage,
               const StageMemoryOptions& options)
      : job_(job),
        stage_(stage),
        pending_(options.pending),
        lead_(LeadOf(job, options.pending)),
        account_(options.allocator, options.device_bytes),
        passes_(job,
                {.layers = LayersOf(job, style, stage),
                 .is_first = stage == 0,
                 .is_last = stage == job.parallel.pp - 1},
                &account_) {
    const StageParameters parameters =
        ParametersOfChunk(job, {0, LayersOf(job, style, stage)}, stage);
    for (const StageParameters::Kind& kind : parameters.kinds) {
      elements_.insert(elements_.end(), kind.elements.begin(), kind.elements.end());
    }
    all_elements_ = parameters.total();
    AllocateStates(options.workspace_bytes);
  }

  Result<StageMemory> Run() {
    int64_t reserved = 0;
    for (int iteration = 0; iteration < kIterations; ++iteration) {
      RunPasses();
      reserved = account_.reserved_bytes();
      account_.Synchronize();
      if (iteration == 0) {
        AllocateMoments();
      }
      GatherParameters();
    }
    PRISM_ASSIGN_OR_RETURN(StageMemory memory, account_.Finish());
    memory.peak_reserved = std::max(reserved, account_.reserved_bytes());
    return memory;
  }

 private:
  [[nodiscard]] int64_t OwnOf(int64_t elements) const {
    return DivideUp<int64_t>(elements, job_.zero_stage >= 1 ? job_.parallel.dp : 1);
  }

  // One float32 buffer of all gradients at any ZeRO stage, one of the rank's master copies
  // (optim/gradient_accumulator.py), and without ZeRO the 16-bit buckets of
  // DistributedDataParallel, which ends a bucket with the parameter that fills it.
  void AllocateStates(int64_t workspace_bytes) {
    const int64_t element = DataTypeBytes(job_.compute_dtype);
    for (const int64_t elements : elements_) {
      account_.Allocate(elements * element, MemoryUse::kParameters);
    }
    if (job_.parallel.dp > 1 && job_.zero_stage == 0) {
      int64_t bucket = 0;
      for (const int64_t elements : elements_) {
        bucket += elements * element;
        if (bucket >= kBucketBytes) {
          account_.Allocate(bucket, MemoryUse::kGradients);
          bucket = 0;
        }
      }
      account_.Allocate(bucket, MemoryUse::kGradients);
    }
    account_.Allocate(all_elements_ * kFp32Bytes, MemoryUse::kGradients);
    account_.Allocate(OwnOf(all_elements_) * kFp32Bytes, MemoryUse::kOptimizer);
    for (int64_t workspace = 0; workspace < graph::kBlasWorkspaces; ++workspace) {
      account_.Allocate(workspace_bytes, MemoryUse::kTemporaries);
    }
  }

  [[nodiscard]] bool IsAhead() const {
    const bool is_under_way = forward_passes_ > 2;
    return lead_ == HostLead::kAlways || (lead_ == HostLead::kSteady && is_under_way) ||
           (lead_ == HostLead::kWarmUp && is_under_way && !has_gradient_);
  }

  void SetLead() { passes_.set_lead(IsAhead() ? pending_.collectives : 0); }

  void Forward() {
    ++forward_passes_;
    SetLead();
    passes_.Forward();
    passes_.SendOutput();
  }

  // Receiving a gradient begins with its shape, which the host waits for; it need not wait if its
  // device is that far behind.
  void Backward() {
    has_gradient_ = true;
    SetLead();
    if (job_.parallel.pp > 1 && !IsAhead()) {
      account_.Synchronize();
    }
    passes_.Backward();
  }

  // 1F1B.
  void RunPasses() {
    const int64_t pp = job_.parallel.pp;
    const int64_t microbatches = std::min(job_.microbatches(), pp + kSteadyMicrobatches);
    const int64_t ahead = std::min(pp - 1 - stage_, microbatches - 1);
    forward_passes_ = 0;
    has_gradient_ = false;
    for (int64_t i = 0; i < microbatches; ++i) {
      Forward();
      if (i >= ahead) {
        Backward();
      }
    }
    for (int64_t i = 0; i < ahead; ++i) {
      Backward();
    }
  }

  // The first step allocates them, parameter by parameter.
  void AllocateMoments() {
    for (const int64_t elements : elements_) {
      for (int moment = 0; moment < 2; ++moment) {
        account_.Allocate(OwnOf(elements) * kFp32Bytes, MemoryUse::kOptimizer);
      }
      account_.Allocate(kFp32Bytes, MemoryUse::kOptimizer);  // the step count
    }
  }

  // ZeRO-1: the rank's own shard and those of all ranks, flat, one tensor per rank, and the latter
  // again as the output buffer of the all-gather of a list of tensors (distributed.py,
  // all_gather_coalesced).
  void GatherParameters() {
    const int64_t dp = job_.parallel.dp;
    if (job_.zero_stage == 0 || dp == 1) {
      return;
    }
    const int64_t own = OwnOf(all_elements_) * DataTypeBytes(job_.compute_dtype);
    std::vector<MemoryAccount::Block> blocks;
    for (int64_t i = 0; i <= dp; ++i) {
      blocks.push_back(account_.Allocate(own, MemoryUse::kTemporaries));
    }
    blocks.push_back(account_.Allocate(own * dp, MemoryUse::kTemporaries));
    for (const MemoryAccount::Block& block : blocks) {
      account_.Free(block);
    }
  }

  const JobSpec& job_;
  int64_t stage_;
  PendingModel pending_;
  HostLead lead_;
  MemoryAccount account_;
  NanotronPasses passes_;
  std::vector<int64_t> elements_;  // by parameter
  int64_t all_elements_ = 0;
  int64_t forward_passes_ = 0;  // of this iteration
  bool has_gradient_ = false;   // the first gradient of the iteration has been received
};

}  // namespace

Result<StageMemory> PredictNanotronMemory(const JobSpec& job,
                                          const graph::TrainingStyle& style,
                                          int32_t stage,
                                          const StageMemoryOptions& options) {
  if (options.host.what != graph::Offload::kNone) {
    return InvalidArgument("offload is not described for nanotron");
  }
  if (job.recompute != graph::Recompute::kNone) {
    return InvalidArgument("recomputation is not described for nanotron");
  }
  if (job.parallel.tp > 1 && !job.sequence_parallel) {
    return InvalidArgument("nanotron is described with sequence parallelism only");
  }
  return NanotronRank(job, style, stage, options).Run();
}

}  // namespace prism::replayer
