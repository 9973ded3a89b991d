#include "replayer/memory/stage_memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <optional>
#include <span>

#include "graph/base/check.h"
#include "replayer/memory/caching_allocator.h"
#include "replayer/memory/layer_tensors.h"
#include "replayer/memory/model_states.h"

namespace prism::replayer {
namespace {

using graph::JobSpec;
using graph::Schedule;
using graph::TrainingStyle;

// What a block is for.
enum class Use : uint8_t { kParameters, kGradients, kOptimizer, kActivations, kTemporaries };

constexpr std::array<const char*, 5> kUseNames = {"parameters", "gradients", "optimizer",
                                                  "activations", "temporaries"};

Use UseOf(const std::string& memory_class) {
  for (size_t i = 0; i < kUseNames.size(); ++i) {
    if (memory_class == kUseNames[i]) {
      return static_cast<Use>(i);
    }
  }
  PRISM_CHECK(false);
}

// A device that is never full: the question is how much is wanted.
constexpr int64_t kDeviceBytes = int64_t{1} << 50;

// Blocks by use, with the composition at the peak.
class Account {
 public:
  using Block = std::pair<CachingAllocator::BlockId, Use>;

  explicit Account(const AllocatorConfig& config)
      : device_(kDeviceBytes), allocator_(config, &device_) {}

  std::optional<Block> Allocate(int64_t bytes, Use use) {
    if (bytes <= 0) {
      return std::nullopt;  // torch gives no block either
    }
    const std::optional<CachingAllocator::BlockId> block = allocator_.Allocate(bytes, 0);
    PRISM_CHECK(block.has_value());
    now_[static_cast<size_t>(use)] += allocator_.SizeOf(*block);
    const int64_t allocated = allocator_.statistics().all.allocated_bytes.current;
    if (allocated > peak_) {
      peak_ = allocated;
      at_peak_ = now_;
    }
    return Block(*block, use);
  }

  void Free(const Block& block) {
    now_[static_cast<size_t>(block.second)] -= allocator_.SizeOf(block.first);
    allocator_.Free(block.first);
  }

  [[nodiscard]] StageMemory Finish() const {
    StageMemory memory;
    memory.peak_allocated = peak_;
    memory.peak_reserved = allocator_.statistics().all.reserved_bytes.peak;
    for (size_t i = 0; i < kUseNames.size(); ++i) {
      if (at_peak_[i] > 0) {
        memory.at_peak.push_back({kUseNames[i], at_peak_[i], graph::Mark::kAssumed});
      }
    }
    return memory;
  }

 private:
  SimulatedDevice device_;
  CachingAllocator allocator_;
  std::array<int64_t, 5> now_ = {};
  std::array<int64_t, 5> at_peak_ = {};
  int64_t peak_ = 0;
};

// cuBLAS keeps one workspace a handle and stream: the thread of the forward pass and that of
// autograd have a handle each (MEMORY.md section 2 of the design).
constexpr int64_t kWorkspaces = 2;

using Blocks = std::vector<Account::Block>;

void AllocateAll(const std::vector<Tensor>& tensors, Use use, Account* account, Blocks* blocks) {
  for (const Tensor& tensor : tensors) {
    if (const auto block = account->Allocate(tensor.bytes, use)) {
      blocks->push_back(*block);
    }
  }
}

void FreeAll(Blocks* blocks, Account* account) {
  for (const Account::Block& block : *blocks) {
    account->Free(block);
  }
  blocks->clear();
}

// The units of a stage's model chunks, by chunk and place.
class StageUnits {
 public:
  StageUnits(const JobSpec& job, const TrainingStyle& style, int32_t stage)
      : job_(job),
        is_first_(stage == 0),
        is_last_(stage == job.parallel.pp - 1),
        layers_(LayersOfStage(job, style, stage)),
        embedding_(EmbeddingTensors(job, style)),
        layer_(LayerTensors(job, style)),
        head_(HeadTensors(job, style)),
        boundary_(BoundaryTensors(job, style)) {}

  [[nodiscard]] int64_t CountOf(int64_t chunk) const {
    const int64_t vpp = job_.parallel.vpp;
    const int64_t layers = (chunk + 1) * layers_ / vpp - chunk * layers_ / vpp;
    return layers + (HasEmbedding(chunk) ? 2 : 1);
  }

  [[nodiscard]] const UnitTensors& At(int64_t chunk, int64_t place) const {
    if (place == 0 && HasEmbedding(chunk)) {
      return embedding_;
    }
    if (place + 1 < CountOf(chunk)) {
      return layer_;
    }
    return is_last_ && chunk == job_.parallel.vpp - 1 ? head_ : boundary_;
  }

 private:
  [[nodiscard]] bool HasEmbedding(int64_t chunk) const { return is_first_ && chunk == 0; }

  const JobSpec& job_;
  bool is_first_;
  bool is_last_;
  int64_t layers_;
  UnitTensors embedding_;
  UnitTensors layer_;
  UnitTensors head_;
  UnitTensors boundary_;
};

// Forward and backward passes of a stage's model chunks, unit by unit.
class StagePasses {
 public:
  StagePasses(const StageUnits& units, int64_t chunks, Account* account)
      : units_(units), in_flight_(static_cast<size_t>(chunks)), account_(account) {}

  void Forward(int64_t chunk) {
    std::vector<Blocks>& saved = in_flight_[static_cast<size_t>(chunk)].emplace_back();
    Blocks temporaries;
    for (int64_t place = 0; place < units_.CountOf(chunk); ++place) {
      const UnitTensors& unit = units_.At(chunk, place);
      AllocateAll(unit.saved, Use::kActivations, account_, &saved.emplace_back());
      AllocateAll(unit.forward, Use::kTemporaries, account_, &temporaries);
      FreeAll(&temporaries, account_);
    }
  }

  // Of the chunk's oldest micro-batch.
  void Backward(int64_t chunk) {
    std::deque<std::vector<Blocks>>& in_flight = in_flight_[static_cast<size_t>(chunk)];
    Blocks temporaries;
    Blocks gradients;
    for (int64_t place = units_.CountOf(chunk) - 1; place >= 0; --place) {
      const UnitTensors& unit = units_.At(chunk, place);
      AllocateAll(unit.backward, Use::kTemporaries, account_, &temporaries);
      AllocateAll(unit.gradients, Use::kGradients, account_, &gradients);
      FreeAll(&in_flight.front()[static_cast<size_t>(place)], account_);
      FreeAll(&temporaries, account_);
    }
    FreeAll(&gradients, account_);
    in_flight.pop_front();
  }

 private:
  const StageUnits& units_;
  std::vector<std::deque<std::vector<Blocks>>> in_flight_;  // by chunk, oldest micro-batch first
  Account* account_;
};

// Passes in the order of the schedule: `ahead` forward passes, then one forward and one backward
// pass in turn; pass k of vpp chunks belongs to chunk k / pp mod vpp, backward passes count from
// the last chunk (Megatron's interleaved schedule). What follows a full turn of the chunks repeats.
void RunSchedule(const JobSpec& job, int64_t ahead, StagePasses* passes) {
  const int64_t vpp = job.parallel.vpp;
  const int64_t pp = job.parallel.pp;
  const auto chunk_of = [&](int64_t pass) { return pass / pp % vpp; };
  const int64_t passes_in_all = job.microbatches() * vpp;
  const int64_t forward = std::min(passes_in_all, ahead + 2 * pp * vpp);
  int64_t backward = 0;
  for (int64_t pass = 0; pass < forward; ++pass) {
    passes->Forward(chunk_of(pass));
    if (pass >= ahead) {
      passes->Backward(vpp - 1 - chunk_of(backward++));
    }
  }
}

// What nanotron's published peaks hold beyond what its code needs; the parameters are fitted on
// them and on the iteration times, the readings are ours.
// - Outputs of all-gathers whose transfers are pending: a Work object keeps its outputs until the
//   watchdog has seen it complete, so a host that runs ahead of its device piles them up to what
//   the launch queue holds. Both column-parallel products of a layer gather their input. With
//   stages, hosts run ahead where the device is the slower of the two (their calls are slow then:
//   replayer/cost/congestion.h), else only in the forward passes before the first backward pass.
//   In the largest jobs they never do, unless one replica spans several nodes anyway.
// - A share of the 16-bit weight gradients, which autograd has made and the accumulator not yet
//   taken.
constexpr int32_t kPendingTensorParallel = 16;
constexpr int64_t kPendingWorldSize = 512;

// Of a layer of nanotron, both passes: gathers and scatters of two pairs of products (two forward,
// three backward each), and kernels.
constexpr double kCallsOfLayer = 10;
constexpr double kKernelsOfLayer = 70;

bool DeviceLags(const JobSpec& job, const PendingModel& pending) {
  const graph::ModelSpec& model = job.model;
  const double weights =
      static_cast<double>(model.hidden) *
      (4 * static_cast<double>(model.hidden) + 3 * static_cast<double>(model.ffn));
  const double tokens = static_cast<double>(job.micro_batch_size * job.seq_len);
  const double device = 6 * weights * tokens / (job.parallel.tp * pending.device_flops);
  return device > pending.lag_share * (pending.host_s + pending.host_rank_s * job.parallel.tp);
}

int64_t CountPendingGathers(const JobSpec& job,
                            const TrainingStyle& style,
                            int32_t stage,
                            const PendingModel& pending) {
  const graph::ParallelSizes& sizes = job.parallel;
  const bool large = sizes.world_size() >= kPendingWorldSize;
  const bool wide = sizes.tp > kPendingTensorParallel;
  if (style.framework != "nanotron" || sizes.tp == 1 || (large && !(wide && sizes.pp == 1)) ||
      (wide && sizes.pp > 1)) {
    return 0;
  }
  if (sizes.pp == 1) {
    return pending.gathers;
  }
  const int64_t layers = LayersOfStage(job, style, stage);
  const int64_t microbatches = job.microbatches();
  const int64_t ahead = DeviceLags(job, pending) ? std::max<int64_t>(1, microbatches - 1)
                                                 : std::min<int64_t>(sizes.pp, microbatches) - 2;
  return std::clamp<int64_t>(2 * layers * ahead, 0, pending.gathers);
}

std::vector<Tensor> PendingTensors(const JobSpec& job,
                                   const TrainingStyle& style,
                                   int32_t stage,
                                   const PendingModel& pending) {
  if (style.framework != "nanotron") {
    return {};
  }
  const int64_t element = graph::DataTypeBytes(job.compute_dtype);
  const int64_t gathered = job.micro_batch_size * job.seq_len * job.model.hidden * element;
  std::vector<Tensor> tensors(static_cast<size_t>(pending.gathers),
                              Tensor{"pending all-gather", gathered});
  const int64_t layers = LayersOfStage(job, style, stage);
  const auto elements = static_cast<double>(ParametersOfChunk(job, layers, stage).total());
  tensors.push_back(
      {"pending weight gradients", std::llround(pending.gradients * elements) * element});
  return tensors;
}

}  // namespace

PendingModel PendingModelOf(const graph::ParameterTable& parameters) {
  constexpr double kSeconds = 1e-9;
  PendingModel pending;
  pending.gathers = std::llround(parameters.Value("memory.pending_gathers"));
  pending.gradients = parameters.Value("memory.pending_gradients");
  pending.lag_share = parameters.Value("memory.lag_share");
  pending.host_s = kSeconds * (kCallsOfLayer * parameters.Value("host.collective_ns") +
                               kKernelsOfLayer * parameters.Value("host.kernel_ns"));
  pending.host_rank_s = kSeconds * kCallsOfLayer * parameters.Value("host.collective_rank_ns");
  pending.device_flops = parameters.Value("gpu.peak_bf16_flops") *
                         parameters.Value("gpu.matmul_efficiency") *
                         parameters.Value("gpu.sustained_clock");
  return pending;
}

double MicrobatchesInFlight(const JobSpec& job, const TrainingStyle& style, int32_t stage) {
  const auto microbatches = static_cast<double>(job.microbatches());
  const auto pp = static_cast<double>(job.parallel.pp);
  if (style.schedule == Schedule::kGpipe || style.schedule == Schedule::kLoopedBreadthFirst) {
    return microbatches;
  }
  if (job.parallel.vpp > 1) {
    // Warm-up of Megatron's interleaved schedule, in chunks: 2 (pp - stage - 1) + (vpp - 1) pp,
    // and the one that runs.
    const double chunks = 2 * (pp - stage - 1) + (job.parallel.vpp - 1) * pp + 1;
    return std::min(microbatches, chunks / job.parallel.vpp);
  }
  return std::min(microbatches, pp - stage);
}

int64_t ActivationBytes(const JobSpec& job, const TrainingStyle& style, int32_t stage) {
  const auto layers = static_cast<double>(LayersOfStage(job, style, stage));
  const auto bytes = static_cast<double>(LayerTensors(job, style).saved_bytes());
  return std::llround(bytes * layers * MicrobatchesInFlight(job, style, stage));
}

Result<StageMemory> PredictStageMemory(const JobSpec& job,
                                       const TrainingStyle& style,
                                       int32_t stage,
                                       const StageMemoryOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const std::vector<StateTensor> states, StatesOfStage(job, style, stage));
  const auto run = [&](const PendingModel& model) {
    Account account(options.allocator);
    for (int64_t workspace = 0; workspace < kWorkspaces; ++workspace) {
      account.Allocate(options.workspace_bytes, Use::kTemporaries);
    }
    for (const StateTensor& state : states) {
      account.Allocate(state.bytes, UseOf(state.memory_class));
    }
    Blocks pending;
    AllocateAll(PendingTensors(job, style, stage, model), Use::kTemporaries, &account, &pending);
    const StageUnits units(job, style, stage);
    StagePasses passes(units, job.parallel.vpp, &account);
    const double in_flight = MicrobatchesInFlight(job, style, stage) * job.parallel.vpp;
    RunSchedule(job, std::llround(in_flight) - 1, &passes);
    return account.Finish();
  };
  PendingModel pending = options.pending;
  pending.gathers = CountPendingGathers(job, style, stage, options.pending);
  StageMemory memory = run(pending);
  if (pending.gathers == 0 || memory.peak_allocated <= options.device_bytes) {
    return memory;
  }
  // An allocator that finds no room waits for what is pending and tries again.
  pending.gathers = 0;
  return run(pending);
}

}  // namespace prism::replayer
