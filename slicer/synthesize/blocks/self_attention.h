// The first half of a layer between its norm and the residual connection: projections and core.
#pragma once

#include <optional>

#include "graph/program/rank_shape.h"
#include "slicer/synthesize/blocks/block_writer.h"
#include "slicer/synthesize/blocks/linear.h"
#include "slicer/synthesize/blocks/norm.h"
#include "slicer/synthesize/blocks/parameter_list.h"

namespace prism::slicer {

class SelfAttention {
 public:
  SelfAttention(const RankShape& rank, ParameterList* parameters);

  void Forward(BlockWriter* writer) const;
  void Backward(BackwardPart part, BlockWriter* writer) const;

  // Every second of its matrix products (queries, keys, values and output count as four), as
  // torchtitan's selective recomputation repeats.
  void ForwardEverySecondMatmul(BlockWriter* writer) const;

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

  static Compressed TakeCompressed(ParameterList* parameters);
  void ProjectForward(BlockWriter* writer) const;
  void ProjectBackward(BackwardPart part, BlockWriter* writer) const;
  void CompressedForward(const Compressed& compressed, BlockWriter* writer) const;
  void CompressedBackward(const Compressed& compressed,
                          BackwardPart part,
                          BlockWriter* writer) const;

  const RankShape& rank_;
  Linear query_key_value_;       // plain attention
  std::optional<Linear> query_;  // latent attention without compressed queries
  std::optional<Compressed> latent_query_;
  std::optional<Compressed> latent_key_value_;
  Linear projection_;
};

}  // namespace prism::slicer
