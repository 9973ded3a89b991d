#include "launch/trainer/tensor_parallel.h"

#include <torch/csrc/autograd/custom_function.h>

namespace prism::launch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// A context keeps IValues; what these refer to outlives it, so addresses suffice.
constexpr const char* kTp = "tp";

constexpr const char* kWeight = "weight";

template <typename T>
void Remember(AutogradContext* context, const char* key, const T* object) {
  context->saved_data[key] = static_cast<int64_t>(reinterpret_cast<intptr_t>(object));
}

template <typename T>
const T& Recall(AutogradContext* context, const char* key) {
  return *reinterpret_cast<const T*>(static_cast<intptr_t>(context->saved_data[key].toInt()));
}

void Remember(AutogradContext* context, const TensorParallel* tp) {
  Remember(context, kTp, tp);
}

const TensorParallel& Recall(AutogradContext* context) {
  return Recall<TensorParallel>(context, kTp);
}

// As the matrix [outputs, inputs]; SwiGLU's weight has its two branches as a third dimension.
at::Tensor Matrix(const Parameter& weight) {
  return weight.value.view({-1, weight.shape.back()});
}

std::vector<int64_t> WithFirstSize(const at::Tensor& tensor, int64_t first) {
  std::vector<int64_t> sizes = tensor.sizes().vec();
  sizes[0] = first;
  return sizes;
}

at::Tensor GatherSequence(const at::Tensor& shard, const TensorParallel& tp) {
  at::Tensor whole = at::empty(WithFirstSize(shard, shard.size(0) * tp.size()), shard.options());
  AllGather(*tp.group, whole, shard.contiguous());
  return whole;
}

at::Tensor ReduceScatterSequence(const at::Tensor& partial, const TensorParallel& tp) {
  at::Tensor shard =
      at::empty(WithFirstSize(partial, partial.size(0) / tp.size()), partial.options());
  ReduceScatter(*tp.group, shard, partial.contiguous());
  return shard;
}

at::Tensor Flatten(const at::Tensor& tensor) {
  return tensor.reshape({-1, tensor.size(-1)});
}

struct ColumnLinear : Function<ColumnLinear> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& input,
                            const std::optional<at::Tensor>& bias,
                            const Parameter* weight,
                            const TensorParallel* tp) {
    Remember(context, tp);
    Remember(context, kWeight, weight);
    context->save_for_backward({input});
    context->saved_data["bias"] = bias.has_value();
    const at::Tensor total = tp->sequence_parallel ? GatherSequence(input, *tp) : input;
    return at::linear(total, Matrix(*weight), bias);
  }

  // The gather of the input overlaps the product for the input's gradient, and that gradient's
  // reduction the product for the weight's, as in Megatron.
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const TensorParallel& tp = Recall(context);
    const auto& weight = Recall<Parameter>(context, kWeight);
    const at::Tensor input = context->get_saved_variables()[0];
    const at::Tensor grad = grads[0].contiguous();

    at::Tensor total = input;
    Handle gather;
    if (tp.sequence_parallel) {
      total = at::empty(WithFirstSize(input, input.size(0) * tp.size()), input.options());
      gather = StartAllGather(*tp.group, total, input);
    }
    at::Tensor grad_input = at::matmul(grad, Matrix(weight));
    Wait(gather);
    at::Tensor result = grad_input;
    Handle reduction;
    if (tp.sequence_parallel) {
      result = at::empty_like(input);
      reduction = StartReduceScatter(*tp.group, result, grad_input);
    } else {
      reduction = StartAllReduce(*tp.group, grad_input);
    }
    const at::Tensor flat_grad = Flatten(grad);
    weight.grad->AddProduct(flat_grad, Flatten(total));
    at::Tensor grad_bias;
    if (context->saved_data["bias"].toBool()) {
      grad_bias = flat_grad.sum(0);
    }
    Wait(reduction);
    return {result, grad_bias, at::Tensor(), at::Tensor()};
  }
};

struct LocalLinear : Function<LocalLinear> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& input,
                            const Parameter* weight) {
    Remember(context, kWeight, weight);
    context->save_for_backward({input});
    return at::linear(input, Matrix(*weight));
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto& weight = Recall<Parameter>(context, kWeight);
    const at::Tensor input = context->get_saved_variables()[0];
    const at::Tensor grad = grads[0].contiguous();
    at::Tensor grad_input = at::matmul(grad, Matrix(weight));
    weight.grad->AddProduct(Flatten(grad), Flatten(input));
    return {grad_input, at::Tensor()};
  }
};

struct GatherForward : Function<GatherForward> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& shard,
                            const TensorParallel* tp) {
    Remember(context, tp);
    return GatherSequence(shard, *tp);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    return {ReduceScatterSequence(grads[0], Recall(context)), at::Tensor()};
  }
};

struct ReduceForward : Function<ReduceForward> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& partial, const TensorParallel* tp) {
    at::Tensor sum = partial.contiguous().detach();
    AllReduce(*tp->group, sum);
    return sum;
  }

  static variable_list backward(AutogradContext*, const variable_list& grads) {
    return {grads[0], at::Tensor()};
  }
};

struct ReduceScatterForward : Function<ReduceScatterForward> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& partial,
                            const TensorParallel* tp) {
    Remember(context, tp);
    return ReduceScatterSequence(partial, *tp);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    return {GatherSequence(grads[0], Recall(context)), at::Tensor()};
  }
};

struct SplitForward : Function<SplitForward> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& whole,
                            const TensorParallel* tp) {
    Remember(context, tp);
    const int64_t part = whole.size(0) / tp->size();
    // A copy, so that the whole tensor can be freed.
    return whole.narrow(0, tp->index() * part, part).clone();
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    return {GatherSequence(grads[0], Recall(context)), at::Tensor()};
  }
};

struct CrossEntropy : Function<CrossEntropy> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& logits,
                            const at::Tensor& targets,
                            const TensorParallel* tp) {
    at::Tensor values = logits.to(at::kFloat, false, true);
    at::Tensor largest = std::get<0>(values.max(-1));
    AllReduce(*tp->group, largest, c10d::ReduceOp::MAX);
    values.sub_(largest.unsqueeze(-1));

    const int64_t part = values.size(-1);
    const int64_t start = part * tp->index();
    const at::Tensor elsewhere = (targets < start).logical_or_(targets >= start + part);
    const at::Tensor local = (targets - start).masked_fill_(elsewhere, 0).unsqueeze(-1);
    at::Tensor predicted = values.gather(-1, local).squeeze(-1);
    predicted.masked_fill_(elsewhere, 0.0);
    AllReduce(*tp->group, predicted);

    values.exp_();
    at::Tensor sum = values.sum(-1);
    AllReduce(*tp->group, sum);
    at::Tensor loss = sum.log() - predicted;
    values.div_(sum.unsqueeze(-1));
    context->save_for_backward({values, local, elsewhere});
    context->saved_data["dtype"] = logits.scalar_type();
    return loss;
  }

  // softmax minus one at the target, in place in the saved softmax: it is not needed again.
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    at::Tensor softmax = saved[0];
    const at::Tensor here = saved[2].logical_not().to(softmax.scalar_type());
    softmax.scatter_add_(-1, saved[1], here.neg().unsqueeze(-1));
    softmax.mul_(grads[0].unsqueeze(-1));
    return {softmax.to(context->saved_data["dtype"].toScalarType()), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor ColumnParallelLinear(const at::Tensor& input,
                                const Parameter& weight,
                                const Parameter* bias,
                                const TensorParallel& tp) {
  const auto bias_value = bias == nullptr ? std::nullopt : std::make_optional(bias->value);
  return ColumnLinear::apply(input, bias_value, &weight, &tp);
}

at::Tensor RowParallelLinear(const at::Tensor& input,
                             const Parameter& weight,
                             const TensorParallel& tp) {
  return ReduceToParallelRegion(LocalLinear::apply(input, &weight), tp);
}

at::Tensor ReplicatedLinear(const at::Tensor& input, const Parameter& weight) {
  return LocalLinear::apply(input, &weight);
}

at::Tensor GatherToParallelRegion(const at::Tensor& shard, const TensorParallel& tp) {
  return tp.sequence_parallel ? GatherForward::apply(shard, &tp) : shard;
}

at::Tensor ReduceToParallelRegion(const at::Tensor& partial, const TensorParallel& tp) {
  return tp.sequence_parallel ? ReduceScatterForward::apply(partial, &tp)
                              : ReduceFromGroup(partial, tp);
}

at::Tensor ReduceFromGroup(const at::Tensor& partial, const TensorParallel& tp) {
  return tp.group->alone() ? partial : ReduceForward::apply(partial, &tp);
}

at::Tensor ScatterSequence(const at::Tensor& whole, const TensorParallel& tp) {
  return tp.sequence_parallel ? SplitForward::apply(whole, &tp) : whole;
}

at::Tensor VocabParallelEmbedding(const at::Tensor& ids,
                                  const Parameter& weight,
                                  const TensorParallel& tp) {
  if (tp.group->alone()) {
    return at::embedding(weight.value, ids);
  }
  const int64_t part = weight.shape[0];
  const int64_t start = part * tp.index();
  const at::Tensor elsewhere = (ids < start).logical_or_(ids >= start + part);
  const at::Tensor local = (ids - start).masked_fill_(elsewhere, 0);
  return at::embedding(weight.value, local).masked_fill(elsewhere.unsqueeze(-1), 0.0);
}

at::Tensor VocabParallelCrossEntropy(const at::Tensor& logits,
                                     const at::Tensor& targets,
                                     const TensorParallel& tp) {
  return CrossEntropy::apply(logits, targets, &tp);
}

}  // namespace prism::launch
