#include "slicer/synthesize/blocks/parameter_list.h"

#include <utility>

namespace prism::slicer {

uint32_t ParameterList::Declare(BlockParameter parameter) {
  parameters_.push_back(std::move(parameter));
  return static_cast<uint32_t>(parameters_.size() - 1);
}

Norm ParameterList::DeclareNorm(int64_t width) {
  const BlockParameter parameter = {
      .shape = {width}, .sequence_parallel = rank_.sequence_parallel, .decay = false};
  const Norm norm = {.width = width, .weight = Declare(parameter)};
  if (rank_.layer_norm) {
    Declare(parameter);
  }
  return norm;
}

Linear ParameterList::DeclareColumn(const std::vector<int64_t>& shape) {
  Linear linear = DeclareUnbiasedColumn(shape);
  linear.bias = rank_.has_bias;
  if (linear.bias) {
    const std::vector<int64_t> outputs(shape.begin(), shape.end() - 1);
    Declare({.shape = outputs, .split = true, .decay = false});
  }
  return linear;
}

Linear ParameterList::DeclareUnbiasedColumn(const std::vector<int64_t>& shape) {
  const std::vector<int64_t> outputs(shape.begin(), shape.end() - 1);
  Linear linear;
  linear.inputs = shape.back();
  linear.outputs = BlockParameter{.shape = outputs}.ElementCount();
  linear.weight = Declare({.shape = shape, .split = true});
  return linear;
}

Linear ParameterList::DeclareRow(int64_t outputs, int64_t inputs) {
  Linear linear;
  linear.inputs = inputs;
  linear.outputs = outputs;
  linear.weight = Declare({.shape = {outputs, inputs}, .split = true});
  linear.bias = rank_.has_bias;
  if (linear.bias) {
    Declare({.shape = {outputs}, .sequence_parallel = rank_.sequence_parallel, .decay = false});
  }
  return linear;
}

Linear ParameterList::DeclareReplicated(int64_t outputs, int64_t inputs) {
  Linear linear;
  linear.inputs = inputs;
  linear.outputs = outputs;
  linear.weight =
      Declare({.shape = {outputs, inputs}, .sequence_parallel = rank_.sequence_parallel});
  return linear;
}

}  // namespace prism::slicer
