#include "launch/trainer/transformer_layer.h"

#include <cmath>

#include "launch/trainer/backward_hook.h"
#include "launch/trainer/context_parallel.h"
#include "launch/trainer/swiglu.h"

namespace prism::launch {
namespace {

constexpr double kNormEpsilon = 1e-5;
constexpr double kInitStd = 0.02;

}  // namespace

Norm DeclareNorm(ParameterSet* parameters, const WorkloadConfig& config, const std::string& name) {
  ParameterSpec spec;
  spec.name = name + ".weight";
  spec.full_shape = {config.job.model.hidden};
  spec.init = Init::kOne;
  spec.decay = false;
  spec.sequence_parallel = true;
  Norm norm;
  norm.weight = parameters->Declare(spec);
  if (config.job.model.block == graph::BlockKind::kGpt) {
    spec.name = name + ".bias";
    spec.init = Init::kZero;
    norm.bias = parameters->Declare(spec);
  }
  return norm;
}

at::Tensor ApplyNorm(const Norm& norm, const at::Tensor& input) {
  const int64_t width = input.size(-1);
  if (norm.bias == nullptr) {
    return at::rms_norm(input, {width}, norm.weight->value, kNormEpsilon);
  }
  return at::layer_norm(input, {width}, norm.weight->value, norm.bias->value, kNormEpsilon);
}

TransformerLayer::TransformerLayer(int64_t number,
                                   const LayerContext& context,
                                   ParameterSet* parameters)
    : name_("layer " + std::to_string(number)), context_(context), place_(parameters->place()) {
  begin_backward_ = [this] {
    backward_marker_ = std::make_unique<Marker>(name_);
    if (context_.sharded != nullptr) {
      context_.sharded->BeginBackward(place_);
    }
  };
  end_backward_ = [this] {
    if (context_.sharded != nullptr) {
      context_.sharded->EndBackward(place_);
    }
    backward_marker_.reset();
  };
  const graph::ModelSpec& model = context.config->job.model;
  const int64_t size = context.config->head_size();
  const std::string prefix = "layers." + std::to_string(number);
  attention_norm_ = DeclareNorm(parameters, *context.config, prefix + ".attention_norm");
  query_key_value_ =
      DeclareLinear(parameters, prefix + ".qkv",
                    {(model.heads + 2 * model.kv_heads) * size, model.hidden}, Split::kColumns);
  projection_ = DeclareLinear(parameters, prefix + ".projection",
                              {model.hidden, model.heads * size}, Split::kRows);
  mlp_norm_ = DeclareNorm(parameters, *context.config, prefix + ".mlp_norm");
  if (!model.IsMoeLayer(number)) {
    DeclareMlp(parameters, prefix + ".mlp", model.ffn);
    return;
  }
  experts_ = std::make_unique<MixtureOfExperts>(prefix + ".moe", *context.config, context.tp,
                                                *context.ep, parameters);
  if (model.moe.shared_expert_ffn > 0) {
    DeclareMlp(parameters, prefix + ".shared_expert", model.moe.shared_expert_ffn);
  }
}

void TransformerLayer::DeclareMlp(ParameterSet* parameters,
                                  const std::string& name,
                                  int64_t width) {
  const graph::ModelSpec& model = context_.config->job.model;
  // SwiGLU has two branches of the same width, and each tensor-parallel rank a part of both.
  const std::vector<int64_t> in_shape = model.block == graph::BlockKind::kLlama
                                            ? std::vector<int64_t>{2, width, model.hidden}
                                            : std::vector<int64_t>{width, model.hidden};
  mlp_in_ = DeclareLinear(parameters, name + "_in", in_shape, Split::kColumns);
  mlp_out_ = DeclareLinear(parameters, name + "_out", {model.hidden, width}, Split::kRows);
}

TransformerLayer::Linear TransformerLayer::DeclareLinear(ParameterSet* parameters,
                                                         const std::string& name,
                                                         std::vector<int64_t> shape,
                                                         Split split) const {
  const graph::ModelSpec& model = context_.config->job.model;
  ParameterSpec weight;
  weight.name = name + ".weight";
  weight.full_shape = shape;
  const int rows_dim = static_cast<int>(shape.size()) - 2;
  weight.split_dim = split == Split::kColumns ? rows_dim : rows_dim + 1;
  // Megatron scales the layers that write to the residual stream by 1 / sqrt(2 * layers).
  weight.std = split == Split::kColumns
                   ? kInitStd
                   : kInitStd / std::sqrt(2.0 * static_cast<double>(model.layers));
  Linear linear;
  linear.weight = parameters->Declare(weight);
  if (model.block == graph::BlockKind::kGpt) {
    ParameterSpec bias;
    bias.name = name + ".bias";
    bias.full_shape = {shape[0]};
    bias.split_dim = split == Split::kColumns ? 0 : -1;
    bias.init = Init::kZero;
    bias.decay = false;
    bias.sequence_parallel = split == Split::kRows;
    linear.bias = parameters->Declare(bias);
  }
  return linear;
}

at::Tensor TransformerLayer::Forward(const at::Tensor& input) {
  const Marker marker(name_);
  if (context_.sharded != nullptr) {
    context_.sharded->BeginForward(place_);
  }
  const at::Tensor opened = AtBackward(input, &end_backward_);
  const at::Tensor output = context_.config->job.recompute == graph::Recompute::kFull
                                ? Checkpoint(*this, {opened})
                                : Compute({opened});
  if (context_.sharded != nullptr) {
    context_.sharded->EndForward(place_);
  }
  return AtBackward(output, &begin_backward_);
}

at::Tensor TransformerLayer::Compute(const std::vector<at::Tensor>& inputs) const {
  const at::Tensor& input = inputs[0];
  const at::Tensor attention = Attention(ApplyNorm(attention_norm_, input));
  const at::Tensor middle = RowWithResidual(projection_, attention, input);
  const at::Tensor normed = ApplyNorm(mlp_norm_, middle);
  if (experts_ == nullptr) {
    return RowWithResidual(mlp_out_, Activation(Column(mlp_in_, normed)), middle);
  }
  const at::Tensor routed = experts_->Apply(normed);
  if (mlp_out_.weight == nullptr) {
    return middle + routed;
  }
  return middle + RowWithResidual(mlp_out_, Activation(Column(mlp_in_, normed)), routed);
}

at::Tensor TransformerLayer::Column(const Linear& linear, const at::Tensor& input) const {
  return ColumnParallelLinear(input, *linear.weight, linear.bias, context_.tp);
}

at::Tensor TransformerLayer::RowWithResidual(const Linear& linear,
                                             const at::Tensor& input,
                                             const at::Tensor& residual) const {
  const at::Tensor output = RowParallelLinear(input, *linear.weight, context_.tp);
  if (linear.bias == nullptr) {
    return residual + output;
  }
  return residual + (output + linear.bias->value);
}

at::Tensor TransformerLayer::Attention(const at::Tensor& input) const {
  const at::Tensor mixed = SequenceForHeads(Column(query_key_value_, input), *context_.cp);
  const std::vector<at::Tensor> parts = SplitProjection(mixed, *context_.config, context_.rotary);
  const at::Tensor context = context_.config->job.recompute == graph::Recompute::kSelective
                                 ? Checkpoint(core_attention_, parts)
                                 : core_attention_.Compute(parts);
  return HeadsForSequence(context, *context_.cp);
}

at::Tensor TransformerLayer::Activation(const at::Tensor& input) const {
  if (context_.config->job.model.block == graph::BlockKind::kGpt) {
    return at::gelu(input, "tanh");
  }
  return SwiGlu(input);
}

}  // namespace prism::launch
