#include <memory>
#include <vector>

#include "slicer/synthesize/blocks/blocks.h"
#include "slicer/synthesize/blocks/feed_forward.h"
#include "slicer/synthesize/blocks/moe.h"
#include "slicer/synthesize/blocks/norm.h"
#include "slicer/synthesize/blocks/parallel_layer.h"
#include "slicer/synthesize/blocks/parameter_list.h"
#include "slicer/synthesize/blocks/self_attention.h"
#include "slicer/synthesize/blocks/unit_writer.h"
#include "slicer/synthesize/blocks/workload_experts.h"

namespace prism::slicer {
namespace {

using graph::Recompute;

std::unique_ptr<FeedForward> MakeFeedForward(const RankShape& rank,
                                             int64_t layer,
                                             ParameterList* parameters) {
  if (rank.job.model.IsMoeLayer(layer) && rank.built_in) {
    return std::make_unique<WorkloadExperts>(rank, parameters);
  }
  if (rank.job.model.IsMoeLayer(layer)) {
    return std::make_unique<MixtureOfExperts>(rank, parameters);
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

}  // namespace

UnitBlocks LayerUnit(const RankShape& rank, const UnitPlace& place, BlockTables* tables) {
  if (rank.style.parallel_block && !rank.job.model.IsMoeLayer(place.layer)) {
    return ParallelLayerUnit(rank, tables);
  }
  LayerWriter writer(rank, place, tables);
  return WriteUnit(rank, &writer);
}

}  // namespace prism::slicer
