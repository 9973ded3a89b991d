// A layer of a transformer: attention and feed-forward, one after the other or side by side.
#include <memory>
#include <optional>
#include <vector>

#include "graph/program/rank_shape.h"
#include "slicer/synthesize/blocks/attention.h"
#include "slicer/synthesize/blocks/block_writer.h"
#include "slicer/synthesize/blocks/blocks.h"
#include "slicer/synthesize/blocks/feed_forward.h"
#include "slicer/synthesize/blocks/linear.h"
#include "slicer/synthesize/blocks/mlp.h"
#include "slicer/synthesize/blocks/norm.h"
#include "slicer/synthesize/blocks/parameter_list.h"
#include "slicer/synthesize/blocks/unit_writer.h"

namespace prism::slicer {
namespace {

using graph::Recompute;

std::unique_ptr<FeedForward> MakeFeedForward(const RankShape& rank,
                                             int64_t layer,
                                             ParameterList* parameters) {
  if (rank.job.model.IsMoeLayer(layer) && rank.built_in) {
    return MakeWorkloadExperts(rank, parameters);
  }
  if (rank.job.model.IsMoeLayer(layer)) {
    return MakeMixtureOfExperts(rank, parameters);
  }
  return std::make_unique<DenseFeedForward>(rank, parameters);
}

// Biases of experts are in no kernel yet, hence not updated.
graph::UnitParameters ParametersOf(const RankShape& rank, int64_t layer) {
  graph::UnitParameters parameters = graph::LayerParameters(rank.job, layer);
  std::erase_if(parameters, [](const graph::UnitParameter& of) { return of.expert && of.bias; });
  return parameters;
}

// Every second layer may attend only to a window. Fused attention is costed as causal, half of
// queries × keys: the number of keys is chosen so that this half equals the w · (s - w / 2) pairs
// that a window of w leaves of s tokens. Packed sequences each attend to themselves.
RankShape AtLayer(const RankShape& rank, int64_t layer) {
  RankShape result = rank;
  const int64_t window = rank.job.model.sliding_window;
  const int64_t packed = rank.style.packed_length;
  const int64_t length = rank.job.seq_len;
  if (packed > 0 && packed < length) {
    result.keys = packed;
    return result;
  }
  if (window > 0 && window < length && layer % 2 == 0) {
    result.keys = 2 * window * (length - window / 2) / length;
  }
  return result;
}

// The first half of a layer between its norm and the residual connection: projections and core.
class SelfAttention {
 public:
  SelfAttention(const RankShape& rank, ParameterList* parameters) : rank_(rank) {
    const graph::LatentAttention& latent = rank.job.model.latent;
    if (latent.kv_rank == 0) {
      query_key_value_ = parameters->TakeLinear();
    } else if (latent.q_rank == 0) {
      query_ = parameters->TakeLinear();
    } else {
      latent_query_ = TakeCompressed(parameters);
    }
    if (latent.kv_rank > 0) {
      latent_key_value_ = TakeCompressed(parameters);
    }
    projection_ = parameters->TakeLinear();
  }

  void Forward(BlockWriter* writer) const {
    ProjectForward(writer);
    CoreForward(rank_, writer);
    RowForward(rank_, projection_, writer);
    AdapterForward(rank_, projection_, writer);
  }

  void Backward(BackwardPart part, BlockWriter* writer) const {
    if (part != BackwardPart::kWeight) {
      AdapterBackward(rank_, projection_, writer);
    }
    RowBackward(rank_, projection_, part, writer);
    if (part == BackwardPart::kWeight) {
      ProjectBackward(part, writer);
      return;
    }
    if (rank_.Recomputes(graph::kRecomputeUpProjection)) {
      ProjectForward(writer);
    }
    CoreBackward(rank_, writer);
    ProjectBackward(part, writer);
  }

  // Every second of its matrix products (queries, keys, values and output count as four), as
  // torchtitan's selective recomputation repeats.
  void ForwardEverySecondMatmul(BlockWriter* writer) const {
    Linear keys = query_key_value_;
    keys.inputs = rank_.hidden;
    keys.outputs = rank_.kv_heads * rank_.head_size;
    keys.bias = false;
    ColumnForward(rank_, keys, writer);
    SplitForward(rank_, writer);
    Linear output = projection_;
    output.bias = false;
    LocalForward(rank_, output, rank_.tokens(), writer);
  }

  [[nodiscard]] bool has_bias() const { return projection_.bias; }
  [[nodiscard]] uint32_t bias_parameter() const { return projection_.weight + 1; }

 private:
  // A projection through a narrow space: down-projection on every rank, norm, up-projection divided
  // over heads.
  struct Compressed {
    Linear down;
    Norm norm;
    Linear up;
  };

  static Compressed TakeCompressed(ParameterList* parameters) {
    Compressed compressed;
    compressed.down = parameters->TakeLinear();
    compressed.norm = parameters->TakeNorm();
    compressed.up = parameters->TakeLinear();
    return compressed;
  }

  void ProjectForward(BlockWriter* writer) const {
    if (!latent_key_value_) {
      ColumnForward(rank_, query_key_value_, writer);
      AdapterForward(rank_, query_key_value_, writer);
    } else {
      latent_query_ ? CompressedForward(*latent_query_, writer)
                    : ColumnForward(rank_, *query_, writer);
      CompressedForward(*latent_key_value_, writer);
    }
    SplitForward(rank_, writer);
  }

  void ProjectBackward(BackwardPart part, BlockWriter* writer) const {
    if (part != BackwardPart::kWeight) {
      SplitBackward(rank_, writer);
    }
    if (!latent_key_value_) {
      if (part != BackwardPart::kWeight) {
        AdapterBackward(rank_, query_key_value_, writer);
      }
      ColumnBackward(rank_, query_key_value_, part, writer);
      return;
    }
    CompressedBackward(*latent_key_value_, part, writer);
    latent_query_ ? CompressedBackward(*latent_query_, part, writer)
                  : ColumnBackward(rank_, *query_, part, writer);
  }

  void CompressedForward(const Compressed& compressed, BlockWriter* writer) const {
    ReplicatedForward(rank_, compressed.down, writer);
    NormForward(rank_, compressed.norm, /*after_add=*/false, writer);
    ColumnForward(rank_, compressed.up, writer);
  }

  void CompressedBackward(const Compressed& compressed,
                          BackwardPart part,
                          BlockWriter* writer) const {
    ColumnBackward(rank_, compressed.up, part, writer);
    if (part != BackwardPart::kWeight) {
      NormBackward(rank_, compressed.norm, ResidualSum::kNone, writer);
    }
    ReplicatedBackward(rank_, compressed.down, part, writer);
  }

  const RankShape& rank_;
  Linear query_key_value_;       // plain attention
  std::optional<Linear> query_;  // latent attention without compressed queries
  std::optional<Compressed> latent_query_;
  std::optional<Compressed> latent_key_value_;
  Linear projection_;
};

// A transformer layer: norm, attention, residual, norm, feed-forward, residual.
class LayerWriter {
 public:
  LayerWriter(const RankShape& rank, const UnitPlace& place, BlockTables* tables)
      : rank_(AtLayer(rank, place.layer)),
        place_(place),
        writer_(tables),
        parameters_(ParametersOf(rank_, place.layer)),
        attention_norm_(parameters_.TakeNorm()),
        attention_(rank_, &parameters_),
        mlp_norm_(parameters_.TakeNorm()),
        feed_forward_(MakeFeedForward(rank_, place.layer, &parameters_)) {}

  [[nodiscard]] const graph::UnitParameters& parameters() const { return parameters_.all(); }

  Block Forward() {
    WriteForward();
    return writer_.Finish();
  }

  Block Backward(BackwardPart part) {
    if (part == BackwardPart::kWeight) {
      feed_forward_->Backward(part, &writer_);
      attention_.Backward(part, &writer_);
      return writer_.Finish();
    }
    if (RecomputesAll()) {
      WriteForward();
    } else if (rank_.Recomputes(graph::kRecomputeEverySecondMatmul)) {
      NormForward(rank_, attention_norm_, /*after_add=*/false, &writer_);
      attention_.ForwardEverySecondMatmul(&writer_);
      NormForward(rank_, mlp_norm_, /*after_add=*/true, &writer_);
      feed_forward_->ForwardEverySecondMatmul(&writer_);
    }
    FeedForwardBackward(part);
    AttentionBackward(part);
    return writer_.Finish();
  }

 private:
  [[nodiscard]] bool RecomputesAll() const {
    const bool every_second =
        rank_.Recomputes(graph::kRecomputeEverySecondLayer) && place_.layer % 2 == 0;
    return rank_.job.recompute == Recompute::kFull || every_second;
  }

  [[nodiscard]] bool Experts() const { return rank_.job.model.IsMoeLayer(place_.layer); }

  [[nodiscard]] bool IsGraph(graph::GraphPart part) const {
    return (rank_.style.graph_parts & part) != 0;
  }

  void WriteForward() {
    writer_.BeginGraph(IsGraph(graph::kGraphAttention));
    NormForward(rank_, attention_norm_, /*after_add=*/false, &writer_);
    attention_.Forward(&writer_);
    ResidualForward(rank_, attention_.has_bias(), /*before_norm=*/true, &writer_);
    writer_.EndGraph();
    writer_.BeginGraph(IsGraph(graph::kGraphMlp) && !Experts());
    NormForward(rank_, mlp_norm_, /*after_add=*/true, &writer_);
    feed_forward_->Forward(&writer_);
    ResidualForward(rank_, feed_forward_->has_bias(), /*before_norm=*/false, &writer_);
    writer_.EndGraph();
  }

  void FeedForwardBackward(BackwardPart part) {
    writer_.BeginGraph(IsGraph(graph::kGraphMlp) && !Experts());
    ResidualBackward(rank_, feed_forward_->has_bias(), feed_forward_->bias_parameter(), &writer_);
    if (rank_.Recomputes(graph::kRecomputeNorm)) {
      NormForward(rank_, mlp_norm_, /*after_add=*/false, &writer_);
    }
    if (rank_.Recomputes(Experts() ? graph::kRecomputeMoe : graph::kRecomputeMlp)) {
      feed_forward_->Forward(&writer_);
    } else if (rank_.Recomputes(graph::kRecomputeActivation)) {
      feed_forward_->ForwardActivation(&writer_);
    }
    feed_forward_->Backward(part, &writer_);
    // A recomputed layer is a separate autograd graph, whose gradient always comes from outside.
    const bool outside = place_.gradient_received || RecomputesAll();
    NormBackward(rank_, mlp_norm_, outside ? ResidualSum::kNew : ResidualSum::kInPlace, &writer_);
    writer_.EndGraph();
  }

  void AttentionBackward(BackwardPart part) {
    writer_.BeginGraph(IsGraph(graph::kGraphAttention));
    ResidualBackward(rank_, attention_.has_bias(), attention_.bias_parameter(), &writer_);
    if (rank_.Recomputes(graph::kRecomputeNorm)) {
      NormForward(rank_, attention_norm_, /*after_add=*/false, &writer_);
    }
    attention_.Backward(part, &writer_);
    NormBackward(rank_, attention_norm_, ResidualSum::kInPlace, &writer_);
    writer_.EndGraph();
  }

  RankShape rank_;
  UnitPlace place_;
  BlockWriter writer_;
  ParameterList parameters_;
  Norm attention_norm_;
  SelfAttention attention_;
  Norm mlp_norm_;
  std::unique_ptr<FeedForward> feed_forward_;
};

// A layer whose attention and feed-forward work in parallel on one norm of the residual stream
// (parallel transformer block: Wang and Komatsuzaki 2021; MegaScale, arXiv 2402.15627, section
// 3.1): one input projection, one output projection, half the tensor-parallel transfers.
class ParallelLayerWriter {
 public:
  ParallelLayerWriter(const RankShape& rank, BlockTables* tables)
      : rank_(rank),
        writer_(tables),
        parameters_(graph::ParallelLayerParameters(rank.job)),
        norm_(parameters_.TakeNorm()),
        in_(parameters_.TakeLinear()),
        out_(parameters_.TakeLinear()),
        activation_({.rows = {rank.sequence, rank.batch}, .width = rank.ffn}) {}

  [[nodiscard]] const graph::UnitParameters& parameters() const { return parameters_.all(); }

  Block Forward() {
    WriteForward();
    return writer_.Finish();
  }

  Block Backward(BackwardPart part) {
    if (part == BackwardPart::kWeight) {
      RowBackward(rank_, out_, part, &writer_);
      ColumnBackward(rank_, in_, part, &writer_);
      return writer_.Finish();
    }
    if (rank_.job.recompute == graph::Recompute::kFull) {
      WriteForward();
    }
    ResidualBackward(rank_, out_.bias, out_.weight + 1, &writer_);
    RowBackward(rank_, out_, part, &writer_);
    ActivationBackward(rank_, activation_, &writer_);
    CoreBackward(rank_, &writer_);
    SplitBackward(rank_, &writer_);
    ColumnBackward(rank_, in_, part, &writer_);
    NormBackward(rank_, norm_, ResidualSum::kInPlace, &writer_);
    return writer_.Finish();
  }

 private:
  void WriteForward() {
    NormForward(rank_, norm_, /*after_add=*/false, &writer_);
    ColumnForward(rank_, in_, &writer_);
    SplitForward(rank_, &writer_);
    CoreForward(rank_, &writer_);
    ActivationForward(rank_, activation_, &writer_);
    RowForward(rank_, out_, &writer_);
    ResidualForward(rank_, out_.bias, /*before_norm=*/false, &writer_);
  }

  const RankShape& rank_;
  BlockWriter writer_;
  ParameterList parameters_;
  Norm norm_;
  Linear in_;
  Linear out_;
  Activation activation_;
};

}  // namespace

UnitBlocks LayerUnit(const RankShape& rank, const UnitPlace& place, BlockTables* tables) {
  if (rank.style.parallel_block && !rank.job.model.IsMoeLayer(place.layer)) {
    ParallelLayerWriter writer(rank, tables);
    return WriteUnit(rank, &writer);
  }
  LayerWriter writer(rank, place, tables);
  return WriteUnit(rank, &writer);
}

}  // namespace prism::slicer
