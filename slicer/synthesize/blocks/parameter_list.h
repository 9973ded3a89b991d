// The parameters of a unit in declaration order, which is the order in which data parallelism lays
// them out.
#pragma once

#include <cstdint>
#include <vector>

#include "slicer/synthesize/block.h"
#include "slicer/synthesize/blocks/linear.h"
#include "slicer/synthesize/blocks/norm.h"
#include "slicer/synthesize/blocks/rank_shape.h"

namespace prism::slicer {

class ParameterList {
 public:
  explicit ParameterList(const RankShape& rank) : rank_(rank) {}

  [[nodiscard]] const std::vector<BlockParameter>& all() const { return parameters_; }

  uint32_t Declare(BlockParameter parameter);

  // Weight, and bias of a LayerNorm.
  Norm DeclareNorm(int64_t width);

  // Weights of this rank's shape [.., inputs]; a bias if the model has biases.
  Linear DeclareColumn(const std::vector<int64_t>& shape);
  Linear DeclareUnbiasedColumn(const std::vector<int64_t>& shape);
  Linear DeclareRow(int64_t outputs, int64_t inputs);

  // Not divided over tp, without bias.
  Linear DeclareReplicated(int64_t outputs, int64_t inputs);

 private:
  const RankShape& rank_;
  std::vector<BlockParameter> parameters_;
};

}  // namespace prism::slicer
