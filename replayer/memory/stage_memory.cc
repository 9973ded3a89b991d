#include "replayer/memory/stage_memory.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "graph/base/divide.h"
#include "replayer/memory/layer_tensors.h"
#include "replayer/memory/memory_account.h"
#include "replayer/memory/model_states.h"
#include "replayer/memory/nanotron_memory.h"
#include "replayer/memory/pass_repeats.h"
#include "replayer/memory/sharded_parameters.h"
#include "replayer/memory/stage_units.h"
#include "replayer/memory/workload_shards.h"

namespace prism::replayer {
namespace {

using graph::JobSpec;
using graph::Schedule;
using graph::TrainingStyle;

// A device that is never full: the question is how much is needed.
constexpr int64_t kDeviceBytes = int64_t{1} << 50;

MemoryUse UseOf(const std::string& memory_class) {
  if (memory_class == "parameters") {
    return MemoryUse::kParameters;
  }
  return memory_class == "gradients" ? MemoryUse::kGradients : MemoryUse::kOptimizer;
}

using Blocks = MemoryBlocks;

void AllocateAll(const std::vector<Tensor>& tensors,
                 MemoryUse use,
                 MemoryAccount* account,
                 Blocks* blocks) {
  for (const Tensor& tensor : tensors) {
    blocks->push_back(account->Allocate(tensor.bytes, use));
  }
}

void FreeAll(Blocks* blocks, MemoryAccount* account) {
  for (const MemoryAccount::Block& block : *blocks) {
    account->Free(block);
  }
  blocks->clear();
}

// One pass of a model chunk.
struct ChunkPass {
  bool forward = true;
  int64_t chunk = 0;
};

// Saved tensors of layers, all equal to `layer`, that are in host memory from their forward to
// their backward pass, in pass order. One layer at a time is being copied out.
class OffloadedLayers {
 public:
  OffloadedLayers(const StageUnits& units,
                  UnitTensors layer,
                  const std::vector<ChunkPass>& passes,
                  int64_t prefetch,
                  MemoryAccount* account)
      : layer_(std::move(layer)), account_(account) {
    ReadPasses(units, passes);
    fetches_ = graph::FetchesOf(touches_, prefetch);
    fetched_.resize(touches_.size());
  }

  // Restarts the passes; nothing of the previous iteration is left.
  void BeginIteration() { touch_ = 0; }

  // After a forward pass: `saved` leaves the device.
  void Leave(Blocks saved) {
    FreeAll(&leaving_, account_);
    leaving_ = std::move(saved);
    leaving_piece_ = touches_[touch_++].piece;
    most_on_host_ = std::max(most_on_host_, ++on_host_);
  }

  // Before a backward pass, and after it.
  void Begin() {
    for (const uint32_t piece : fetches_[touch_]) {
      if (piece == leaving_piece_) {
        FreeAll(&leaving_, account_);
      }
      AllocateAll(layer_.saved, MemoryUse::kActivations, account_, &fetched_[piece]);
    }
    --on_host_;
  }
  void End() {
    FreeAll(&leaving_, account_);
    FreeAll(&fetched_[touches_[touch_++].piece], account_);
  }

  [[nodiscard]] int64_t host_bytes() const { return most_on_host_ * layer_.saved_bytes(); }

 private:
  // A backward pass takes the chunk's oldest micro-batch.
  void ReadPasses(const StageUnits& units, const std::vector<ChunkPass>& passes) {
    std::map<std::pair<int64_t, int64_t>, std::deque<uint32_t>> waiting;  // by chunk and place
    uint32_t pieces = 0;
    for (const ChunkPass& pass : passes) {
      const int64_t count = units.CountOf(pass.chunk);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t place = pass.forward ? i : count - 1 - i;
        if (!units.IsLayer(pass.chunk, place)) {
          continue;
        }
        std::deque<uint32_t>& pieces_there = waiting[{pass.chunk, place}];
        if (pass.forward) {
          pieces_there.push_back(pieces++);
          touches_.push_back({pieces_there.back(), false, true});
        } else {
          touches_.push_back({pieces_there.front(), true, false});
          pieces_there.pop_front();
        }
      }
    }
  }

  UnitTensors layer_;
  MemoryAccount* account_;
  std::vector<graph::PieceTouch> touches_;
  std::vector<std::vector<uint32_t>> fetches_;
  std::vector<Blocks> fetched_;  // by piece
  Blocks leaving_;
  uint32_t leaving_piece_ = 0;
  size_t touch_ = 0;  // the next
  int64_t on_host_ = 0;
  int64_t most_on_host_ = 0;
};

// Forward and backward passes of a stage's model chunks, unit by unit. `offloaded`: null if
// activations stay on the device.
class StagePasses {
 public:
  StagePasses(const StageUnits& units,
              int64_t chunks,
              std::vector<Tensor> of_deferred_head,
              int64_t deferred_heads,
              OffloadedLayers* offloaded,
              ShardedParameters* sharded,
              MemoryAccount* account)
      : units_(units),
        in_flight_(static_cast<size_t>(chunks)),
        of_deferred_head_(std::move(of_deferred_head)),
        to_defer_(deferred_heads),
        offloaded_(offloaded),
        sharded_(sharded),
        account_(account) {}

  // `every_pass`: also runs passes that repeat others.
  void Run(const std::vector<ChunkPass>& passes, bool every_pass) {
    std::vector<int64_t> to_come(in_flight_.size());  // remaining backward passes, by chunk
    for (const ChunkPass& pass : passes) {
      to_come[static_cast<size_t>(pass.chunk)] += pass.forward ? 0 : 1;
    }
    std::optional<PassRepeats> pairs = every_pass ? std::nullopt : PairsOf(passes);
    for (auto pass = passes.begin(); pass != passes.end(); ++pass) {
      if (pass->forward) {
        Forward(pass->chunk);
        continue;
      }
      Backward(pass->chunk, --to_come[static_cast<size_t>(pass->chunk)] == 0);
      if (pairs.has_value()) {
        pass += 2 * pairs->PairsToLeaveOut(in_flight_.front());
      }
    }
    FreeAll(&deferred_, account_);
  }

 private:
  // Null if anything other than the passes themselves decides what is allocated.
  [[nodiscard]] std::optional<PassRepeats> PairsOf(const std::vector<ChunkPass>& passes) const {
    const bool alike =
        in_flight_.size() == 1 && offloaded_ == nullptr && sharded_ == nullptr && to_defer_ == 0;
    const auto backward = std::count_if(passes.begin(), passes.end(),
                                        [](const ChunkPass& pass) { return !pass.forward; });
    return alike ? std::optional(PassRepeats(backward, account_)) : std::nullopt;
  }

  [[nodiscard]] bool Leaves(int64_t chunk, int64_t place) const {
    return offloaded_ != nullptr && units_.IsLayer(chunk, place);
  }

  void Forward(int64_t chunk) {
    std::vector<Blocks>& saved = in_flight_[static_cast<size_t>(chunk)].emplace_back();
    for (int64_t place = 0; place < units_.CountOf(chunk); ++place) {
      if (sharded_ != nullptr) {
        sharded_->BeginForward(chunk, place);
      }
      ForwardOf(units_.At(chunk, place), units_.IsHead(chunk, place), &saved.emplace_back());
      if (Leaves(chunk, place)) {
        offloaded_->Leave(std::exchange(saved.back(), {}));
      }
      if (sharded_ != nullptr) {
        sharded_->EndForward(chunk, place);
      }
    }
    if (sharded_ != nullptr) {
      sharded_->EndForward(chunk);
    }
  }

  // PyTorch's own loss, which is used with FSDP, allocates last what it keeps of the logits.
  void ForwardOf(const UnitTensors& unit, bool is_head, Blocks* saved) {
    Blocks temporaries;
    const bool keeps_last = is_head && sharded_ != nullptr && !sharded_->by_unit();
    if (keeps_last) {
      AllocateAll(unit.forward, MemoryUse::kTemporaries, account_, &temporaries);
    }
    AllocateAll(unit.saved, MemoryUse::kActivations, account_, saved);
    if (!keeps_last) {
      AllocateAll(unit.forward, MemoryUse::kTemporaries, account_, &temporaries);
    }
    FreeAll(&temporaries, account_);
  }

  // For the chunk's oldest micro-batch; `last`: the last of the iteration.
  void Backward(int64_t chunk, bool last) {
    BlocksInFlight& in_flight = in_flight_[static_cast<size_t>(chunk)];
    Blocks temporaries;
    Blocks whole_gradients;
    for (int64_t place = units_.CountOf(chunk) - 1; place >= 0; --place) {
      const bool left = Leaves(chunk, place);
      if (left) {
        offloaded_->Begin();
      }
      const UnitTensors& unit = units_.At(chunk, place);
      const bool gathers_first = sharded_ != nullptr && sharded_->by_unit();
      if (gathers_first) {
        sharded_->BeginBackward(chunk, place);
      }
      AllocateAll(unit.loss, MemoryUse::kTemporaries, account_, &temporaries);
      FreeAll(&temporaries, account_);
      if (whole_gradients.empty() && !units_.IsHead(chunk, place)) {
        AllocateAll(units_.whole_gradients(), MemoryUse::kTemporaries, account_, &whole_gradients);
      }
      if (sharded_ != nullptr && !gathers_first) {
        sharded_->BeginBackward(chunk, place);
      }
      AllocateAll(unit.backward, MemoryUse::kTemporaries, account_, &temporaries);
      if (sharded_ != nullptr) {
        sharded_->MakeGradients(chunk, place);
      }
      FreeAll(&in_flight.front()[static_cast<size_t>(place)], account_);
      if (left) {
        offloaded_->End();
      }
      FreeAll(&temporaries, account_);
      if (units_.IsHead(chunk, place) && to_defer_ > 0) {
        AllocateAll(of_deferred_head_, MemoryUse::kActivations, account_, &deferred_);
        --to_defer_;
      }
      if (sharded_ != nullptr) {
        sharded_->EndBackward(chunk, place);
      }
    }
    if (sharded_ != nullptr) {
      sharded_->EndBackward(chunk, last);
    }
    FreeAll(&whole_gradients, account_);
    in_flight.pop_front();
  }

  const StageUnits& units_;
  std::vector<BlocksInFlight> in_flight_;  // by chunk, oldest micro-batch first
  std::vector<Tensor> of_deferred_head_;
  int64_t to_defer_;  // backward passes of a head still to defer
  Blocks deferred_;
  OffloadedLayers* offloaded_;
  ShardedParameters* sharded_;  // null if parameters are not sharded
  MemoryAccount* account_;
};

// Passes in the order of the schedule: `ahead` forward passes, then one forward and one backward
// pass in turn; pass k of vpp chunks belongs to chunk k / pp mod vpp, backward passes count from
// the last chunk (Megatron's interleaved schedule; options.microbatch_group replaces pp). The last
// round may have fewer micro-batches. What follows one full round of the chunks, and
// `deferred_heads` micro-batches, repeats; `to_the_end`: includes the backward passes that end an
// iteration.
std::vector<ChunkPass> PassesOf(const JobSpec& job,
                                const StageMemoryOptions& options,
                                int64_t ahead,
                                bool to_the_end) {
  const int64_t vpp = job.parallel.vpp;
  const int64_t pp = options.microbatch_group > 0 ? options.microbatch_group : job.parallel.pp;
  const int64_t deferred_heads = options.deferred_heads;
  const int64_t passes_in_all = job.microbatches() * vpp;
  const int64_t rest = job.microbatches() % pp;  // micro-batches of the last round
  const auto chunk_of = [&](int64_t pass) {
    const int64_t left = pass - (passes_in_all - rest * vpp);
    return left < 0 ? pass / pp % vpp : left / rest;
  };
  const int64_t steady = std::max(2 * pp, std::min(deferred_heads, job.microbatches())) * vpp;
  const int64_t forward =
      std::min(passes_in_all, to_the_end ? RoundUp(ahead + steady, pp * vpp) : ahead + steady);
  std::vector<ChunkPass> passes;
  int64_t backward = 0;
  for (int64_t pass = 0; pass < forward; ++pass) {
    passes.push_back({true, chunk_of(pass)});
    if (pass >= ahead) {
      passes.push_back({false, vpp - 1 - chunk_of(backward++)});
    }
  }
  while (to_the_end && backward < forward) {
    passes.push_back({false, vpp - 1 - chunk_of(backward++)});
  }
  return passes;
}

// Whether all layers keep the same tensors, as an edit of offloaded layers assumes.
bool LayersAlike(const JobSpec& job, const TrainingStyle& style) {
  const bool every_second = job.recompute == graph::Recompute::kSelective &&
                            (style.recompute_parts & graph::kRecomputeEverySecondLayer) != 0;
  return job.model.moe.dense_layers == 0 && job.model.mtp_layers == 0 && !every_second;
}

// States of a stage; moments that live in host memory are not allocated, except those that the
// update has on the device at one time. Returns what the host holds.
int64_t AllocateStates(const std::vector<StateTensor>& states,
                       const HostTier& host,
                       MemoryAccount* account) {
  const bool moves = graph::OffloadsOptimizer(host.what);
  int64_t on_host = 0;
  for (const StateTensor& state : states) {
    if (moves && state.moment) {
      on_host += state.bytes;
      continue;
    }
    Blocks beside;
    for (const int64_t bytes : state.beside) {
      beside.push_back(account->Allocate(bytes, MemoryUse::kTemporaries));
    }
    account->Allocate(state.bytes, UseOf(state.memory_class));
    FreeAll(&beside, account);
  }
  if (moves) {
    account->Free(account->Allocate(host.moments_at_once_bytes, MemoryUse::kOptimizer));
  }
  return on_host;
}

template <typename Predicate>
std::vector<StateTensor> Of(const std::vector<StateTensor>& states, Predicate predicate) {
  std::vector<StateTensor> chosen;
  std::copy_if(states.begin(), states.end(), std::back_inserter(chosen), predicate);
  return chosen;
}

void AllocateWorkspaces(const StageMemoryOptions& options, MemoryAccount* account) {
  for (int64_t workspace = 0; workspace < graph::kBlasWorkspaces; ++workspace) {
    account->Allocate(options.workspace_bytes, MemoryUse::kTemporaries);
  }
  for (const int64_t bytes : options.library_workspaces) {
    account->Allocate(bytes, MemoryUse::kTemporaries);
  }
}

// What one turn allocates is freed before the next.
void TakeTurns(const std::vector<std::vector<int64_t>>& turns, MemoryAccount* account) {
  for (const std::vector<int64_t>& turn : turns) {
    Blocks blocks;
    for (const int64_t bytes : turn) {
      blocks.push_back(account->Allocate(bytes, MemoryUse::kTemporaries));
    }
    FreeAll(&blocks, account);
  }
}

std::vector<ShardedChunk> ShardedChunks(const StageUnits& units, const JobSpec& job) {
  std::vector<ShardedChunk> chunks;
  for (int64_t chunk = 0; chunk < job.parallel.vpp; ++chunk) {
    chunks.push_back(units.Sharded(chunk));
  }
  return chunks;
}

}  // namespace

PendingModel PendingModelOf(const graph::ParameterTable& parameters) {
  constexpr double kSeconds = 1e-9;
  // Calls of a layer of nanotron in both passes: gathers and scatters of two pairs of products (two
  // forward, three backward each), and its kernels.
  constexpr double kCallsOfLayer = 10;
  constexpr double kKernelsOfLayer = 70;
  PendingModel pending;
  pending.collectives = std::llround(parameters.Value("memory.pending_collectives"));
  pending.lag_share = parameters.Value("memory.lag_share");
  pending.host_s = kSeconds * (kCallsOfLayer * parameters.Value("host.collective_ns") +
                               kKernelsOfLayer * parameters.Value("host.kernel_ns"));
  pending.host_rank_s = kSeconds * kCallsOfLayer * parameters.Value("host.collective_rank_ns");
  pending.device_flops = parameters.Value("gpu.peak_bf16_flops") *
                         parameters.Value("gpu.matmul_efficiency") *
                         parameters.Value("gpu.sustained_clock");
  return pending;
}

double MicrobatchesInFlight(const JobSpec& job,
                            const TrainingStyle& style,
                            int32_t stage,
                            int64_t group) {
  const auto microbatches = static_cast<double>(job.microbatches());
  const auto pp = static_cast<double>(job.parallel.pp);
  if (style.schedule == Schedule::kGpipe || style.schedule == Schedule::kLoopedBreadthFirst) {
    return microbatches;
  }
  if (job.parallel.vpp > 1) {
    // Warm-up of Megatron's interleaved schedule, in chunks: 2 (pp - stage - 1) + (vpp - 1) group,
    // plus the one that is running.
    const double of_chunk = group > 0 ? static_cast<double>(group) : pp;
    const double chunks = 2 * (pp - stage - 1) + (job.parallel.vpp - 1) * of_chunk + 1;
    return std::min(microbatches, chunks / job.parallel.vpp);
  }
  return std::min(microbatches, pp - stage);
}

int64_t ActivationBytes(const JobSpec& job, const TrainingStyle& style, int32_t stage) {
  int64_t bytes = 0;
  for (const graph::LayerRange& layers : LayersOfChunks(job, style, stage)) {
    for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
      bytes += LayerTensors(job, style, layer).saved_bytes();
    }
  }
  return std::llround(static_cast<double>(bytes) * MicrobatchesInFlight(job, style, stage));
}

Result<StageMemory> PredictStageMemory(const JobSpec& job,
                                       const TrainingStyle& style,
                                       int32_t stage,
                                       const StageMemoryOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const std::vector<StateTensor> states, StatesOfStage(job, style, stage));
  if (style.memory == graph::MemoryPattern::kNanotron) {
    return PredictNanotronMemory(job, style, stage, options);
  }
  AllocatorConfig allocator = options.allocator;
  allocator.expandable_segments |= style.expandable_segments;
  MemoryAccount account(allocator, kDeviceBytes);
  AllocateWorkspaces(options, &account);
  // PyTorch allocates moments in the first step, and gradients as it scatters them.
  const bool lazily = IsSharded(job, style) && HasTorchModules(style);
  std::vector<StateTensor> first = states;
  std::vector<StateTensor> of_step;
  if (lazily) {
    first = Of(states, [](const StateTensor& state) { return state.memory_class == "parameters"; });
    of_step = Of(states, [](const StateTensor& state) { return state.moment; });
  }
  int64_t moments = AllocateStates(first, options.host, &account);
  const StageUnits units(job, style, stage, options.layers);
  const double in_flight =
      MicrobatchesInFlight(job, style, stage, options.microbatch_group) * job.parallel.vpp;
  const std::vector<ChunkPass> passes =
      PassesOf(job, options, std::llround(in_flight) - 1, IsSharded(job, style));
  std::optional<OffloadedLayers> offloaded;
  if (graph::OffloadsActivations(options.host.what)) {
    if (!LayersAlike(job, style)) {
      return InvalidArgument("offload of activations is not described where layers differ");
    }
    offloaded.emplace(units, LayerTensors(job, style, 0), passes, options.host.prefetch, &account);
  }
  std::optional<ShardedParameters> sharded;
  if (IsSharded(job, style)) {
    const auto waiting = static_cast<int64_t>(MicrobatchesInFlight(job, style, stage));
    Blocks messages;
    if (!ShardsByUnit(job, style)) {
      AllocateAll(TorchStageTensors(job, style, stage, waiting), MemoryUse::kActivations, &account,
                  &messages);
    }
    sharded.emplace(job, style, AccumulatesGradients(job), ShardedChunks(units, job), &account);
  }
  for (int64_t iteration = 0; iteration < (lazily ? 2 : 1); ++iteration) {
    if (iteration > 0) {
      moments = AllocateStates(of_step, options.host, &account);
      sharded->BeginIteration();
      if (offloaded.has_value()) {
        offloaded->BeginIteration();
      }
    }
    StagePasses(units, job.parallel.vpp, DeferredHeadTensors(job, style), options.deferred_heads,
                offloaded.has_value() ? &*offloaded : nullptr,
                sharded.has_value() ? &*sharded : nullptr, &account)
        .Run(passes, options.every_pass);
  }
  TakeTurns(StepOfStage(job, style, stage), &account);
  PRISM_ASSIGN_OR_RETURN(StageMemory memory, account.Finish());
  memory.host_bytes = moments + (offloaded.has_value() ? offloaded->host_bytes() : 0);
  return memory;
}

}  // namespace prism::replayer
