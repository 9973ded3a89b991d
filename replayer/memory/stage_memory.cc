#include "replayer/memory/stage_memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "replayer/memory/layer_tensors.h"
#include "replayer/memory/memory_account.h"
#include "replayer/memory/model_states.h"
#include "replayer/memory/nanotron_memory.h"

namespace prism::replayer {
namespace {

using graph::JobSpec;
using graph::Schedule;
using graph::TrainingStyle;

// A device that is never full: the question is how much is wanted.
constexpr int64_t kDeviceBytes = int64_t{1} << 50;

MemoryUse UseOf(const std::string& memory_class) {
  if (memory_class == "parameters") {
    return MemoryUse::kParameters;
  }
  return memory_class == "gradients" ? MemoryUse::kGradients : MemoryUse::kOptimizer;
}

using Blocks = std::vector<MemoryAccount::Block>;

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

// The units of a stage's model chunks, by chunk and place: the embedding, layers, and behind the
// last of the model those that predict further tokens and a head for each prediction.
class StageUnits {
 public:
  StageUnits(const JobSpec& job,
             const TrainingStyle& style,
             int32_t stage,
             uint32_t offloaded_parts)
      : job_(job),
        is_first_(stage == 0),
        is_last_(stage == job.parallel.pp - 1),
        layers_(LayersOfChunks(job, style, stage)),
        embedding_(EmbeddingTensors(job, style)),
        further_(FurtherLayerTensors(job, style, offloaded_parts)),
        head_(HeadTensors(job, style)),
        boundary_(BoundaryTensors(job, style)) {
    for (const graph::LayerRange& layers : layers_) {
      for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
        if (!by_kind_[KindOf(layer)].has_value()) {
          by_kind_[KindOf(layer)] = LayerTensors(job, style, layer, offloaded_parts);
        }
      }
    }
  }

  [[nodiscard]] int64_t CountOf(int64_t chunk) const {
    const int64_t ends = EndsModel(chunk) ? 2 * job_.model.mtp_layers + 1 : 1;
    return (HasEmbedding(chunk) ? 1 : 0) + LayersOf(chunk) + ends;
  }

  [[nodiscard]] bool IsLayer(int64_t chunk, int64_t place) const {
    const int64_t layer = place - (HasEmbedding(chunk) ? 1 : 0);
    return layer >= 0 && layer < LayersOf(chunk);
  }

  [[nodiscard]] bool IsHead(int64_t chunk, int64_t place) const {
    return &At(chunk, place) == &head_;
  }

  [[nodiscard]] const UnitTensors& At(int64_t chunk, int64_t place) const {
    if (place == 0 && HasEmbedding(chunk)) {
      return embedding_;
    }
    const int64_t layer = place - (HasEmbedding(chunk) ? 1 : 0);
    if (layer < LayersOf(chunk)) {
      return *by_kind_[KindOf(layers_[static_cast<size_t>(chunk)].begin + layer)];
    }
    if (!EndsModel(chunk)) {
      return boundary_;
    }
    return layer < LayersOf(chunk) + job_.model.mtp_layers ? further_ : head_;
  }

 private:
  // Layers are alike in what they keep where both are of a mixture, and of even number.
  [[nodiscard]] size_t KindOf(int64_t layer) const {
    return (job_.model.IsMoeLayer(layer) ? 2U : 0U) + static_cast<size_t>(layer % 2);
  }
  [[nodiscard]] int64_t LayersOf(int64_t chunk) const {
    const graph::LayerRange& layers = layers_[static_cast<size_t>(chunk)];
    return layers.end - layers.begin;
  }
  [[nodiscard]] bool HasEmbedding(int64_t chunk) const { return is_first_ && chunk == 0; }
  [[nodiscard]] bool EndsModel(int64_t chunk) const {
    return is_last_ && chunk == job_.parallel.vpp - 1;
  }

  const JobSpec& job_;
  bool is_first_;
  bool is_last_;
  std::vector<graph::LayerRange> layers_;  // by chunk
  std::array<std::optional<UnitTensors>, 4> by_kind_;
  UnitTensors embedding_;
  UnitTensors further_;
  UnitTensors head_;
  UnitTensors boundary_;
};

// One pass of a model chunk.
struct ChunkPass {
  bool forward = true;
  int64_t chunk = 0;
};

// Saved tensors of layers, which are all like `layer`, that are in host memory from their forward
// to their backward pass, in the order of the passes. One layer at a time is on its way out.
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

  // Behind a forward pass: `saved` goes.
  void Leave(Blocks saved) {
    FreeAll(&leaving_, account_);
    leaving_ = std::move(saved);
    leaving_piece_ = touches_[touch_++].piece;
    most_on_host_ = std::max(most_on_host_, ++on_host_);
  }

  // In front of a backward pass, and behind it.
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
  // A backward pass is that of the chunk's oldest micro-batch.
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

// Forward and backward passes of a stage's model chunks, unit by unit. `offloaded`: null where
// activations stay.
class StagePasses {
 public:
  StagePasses(const StageUnits& units,
              int64_t chunks,
              std::vector<Tensor> of_deferred_head,
              int64_t deferred_heads,
              OffloadedLayers* offloaded,
              MemoryAccount* account)
      : units_(units),
        in_flight_(static_cast<size_t>(chunks)),
        of_deferred_head_(std::move(of_deferred_head)),
        to_defer_(deferred_heads),
        offloaded_(offloaded),
        account_(account) {}

  void Run(const std::vector<ChunkPass>& passes) {
    for (const ChunkPass& pass : passes) {
      pass.forward ? Forward(pass.chunk) : Backward(pass.chunk);
    }
    FreeAll(&deferred_, account_);
  }

 private:
  [[nodiscard]] bool Leaves(int64_t chunk, int64_t place) const {
    return offloaded_ != nullptr && units_.IsLayer(chunk, place);
  }

  void Forward(int64_t chunk) {
    std::vector<Blocks>& saved = in_flight_[static_cast<size_t>(chunk)].emplace_back();
    Blocks temporaries;
    for (int64_t place = 0; place < units_.CountOf(chunk); ++place) {
      const UnitTensors& unit = units_.At(chunk, place);
      AllocateAll(unit.saved, MemoryUse::kActivations, account_, &saved.emplace_back());
      AllocateAll(unit.forward, MemoryUse::kTemporaries, account_, &temporaries);
      FreeAll(&temporaries, account_);
      if (Leaves(chunk, place)) {
        offloaded_->Leave(std::exchange(saved.back(), {}));
      }
    }
  }

  // Of the chunk's oldest micro-batch.
  void Backward(int64_t chunk) {
    std::deque<std::vector<Blocks>>& in_flight = in_flight_[static_cast<size_t>(chunk)];
    Blocks temporaries;
    for (int64_t place = units_.CountOf(chunk) - 1; place >= 0; --place) {
      const bool left = Leaves(chunk, place);
      if (left) {
        offloaded_->Begin();
      }
      const UnitTensors& unit = units_.At(chunk, place);
      AllocateAll(unit.backward, MemoryUse::kTemporaries, account_, &temporaries);
      FreeAll(&in_flight.front()[static_cast<size_t>(place)], account_);
      if (left) {
        offloaded_->End();
      }
      FreeAll(&temporaries, account_);
      if (units_.IsHead(chunk, place) && to_defer_ > 0) {
        AllocateAll(of_deferred_head_, MemoryUse::kActivations, account_, &deferred_);
        --to_defer_;
      }
    }
    in_flight.pop_front();
  }

  const StageUnits& units_;
  std::vector<std::deque<std::vector<Blocks>>> in_flight_;  // by chunk, oldest micro-batch first
  std::vector<Tensor> of_deferred_head_;
  int64_t to_defer_;  // backward passes of a head
  Blocks deferred_;
  OffloadedLayers* offloaded_;
  MemoryAccount* account_;
};

// Passes in the order of the schedule: `ahead` forward passes, then one forward and one backward
// pass in turn; pass k of vpp chunks belongs to chunk k / pp mod vpp, backward passes count from
// the last chunk (Megatron's interleaved schedule). What follows a full turn of the chunks, and
// `deferred_heads` micro-batches, repeats.
std::vector<ChunkPass> PassesOf(const JobSpec& job, int64_t deferred_heads, int64_t ahead) {
  const int64_t vpp = job.parallel.vpp;
  const int64_t pp = job.parallel.pp;
  const auto chunk_of = [&](int64_t pass) { return pass / pp % vpp; };
  const int64_t passes_in_all = job.microbatches() * vpp;
  const int64_t steady = std::max(2 * pp, std::min(deferred_heads, job.microbatches())) * vpp;
  const int64_t forward = std::min(passes_in_all, ahead + steady);
  std::vector<ChunkPass> passes;
  int64_t backward = 0;
  for (int64_t pass = 0; pass < forward; ++pass) {
    passes.push_back({true, chunk_of(pass)});
    if (pass >= ahead) {
      passes.push_back({false, vpp - 1 - chunk_of(backward++)});
    }
  }
  return passes;
}

// In what they keep: what an edit of offloaded layers takes for granted.
bool LayersAlike(const JobSpec& job, const TrainingStyle& style) {
  const bool every_second = job.recompute == graph::Recompute::kSelective &&
                            (style.recompute_parts & graph::kRecomputeEverySecondLayer) != 0;
  return job.model.moe.dense_layers == 0 && job.model.mtp_layers == 0 && !every_second;
}

// States of a stage; moments that live in host memory are not allocated, but for those that the
// update has on the device at a time. Returns what the host holds.
int64_t AllocateStates(const std::vector<StateTensor>& states,
                       const HostTier& host,
                       MemoryAccount* account) {
  const bool moves = graph::OffloadsOptimizer(host.what);
  int64_t on_host = 0;
  for (const StateTensor& state : states) {
    if (moves && state.moment) {
      on_host += state.bytes;
    } else {
      account->Allocate(state.bytes, UseOf(state.memory_class));
    }
  }
  if (moves) {
    account->Free(account->Allocate(host.moments_at_once_bytes, MemoryUse::kOptimizer));
  }
  return on_host;
}

}  // namespace

PendingModel PendingModelOf(const graph::ParameterTable& parameters) {
  constexpr double kSeconds = 1e-9;
  // Of a layer of nanotron, both passes: gathers and scatters of two pairs of products (two
  // forward, three backward each), and kernels.
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
    if (options.host.what != graph::Offload::kNone) {
      return InvalidArgument("offload is not described for nanotron");
    }
    return PredictNanotronMemory(job, style, stage, options);
  }
  MemoryAccount account(options.allocator, kDeviceBytes);
  for (int64_t workspace = 0; workspace < graph::kBlasWorkspaces; ++workspace) {
    account.Allocate(options.workspace_bytes, MemoryUse::kTemporaries);
  }
  const int64_t moments = AllocateStates(states, options.host, &account);
  const StageUnits units(job, style, stage, options.offloaded_parts);
  const double in_flight = MicrobatchesInFlight(job, style, stage) * job.parallel.vpp;
  const std::vector<ChunkPass> passes =
      PassesOf(job, options.deferred_heads, std::llround(in_flight) - 1);
  std::optional<OffloadedLayers> offloaded;
  if (graph::OffloadsActivations(options.host.what)) {
    if (!LayersAlike(job, style)) {
      return InvalidArgument("offload of activations is not described where layers differ");
    }
    offloaded.emplace(units, LayerTensors(job, style, 0), passes, options.host.prefetch, &account);
  }
  StagePasses(units, job.parallel.vpp, DeferredHeadTensors(job, style), options.deferred_heads,
              offloaded.has_value() ? &*offloaded : nullptr, &account)
      .Run(passes);
  for (const std::vector<int64_t>& turn : StepOfStage(job, style, stage)) {
    Blocks blocks;
    for (const int64_t bytes : turn) {
      blocks.push_back(account.Allocate(bytes, MemoryUse::kTemporaries));
    }
    FreeAll(&blocks, &account);
  }
  PRISM_ASSIGN_OR_RETURN(StageMemory memory, account.Finish());
  memory.host_bytes = moments + (offloaded.has_value() ? offloaded->host_bytes() : 0);
  return memory;
}

}  // namespace prism::replayer
