#include "launch/trainer/checkpoint.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace prism::launch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct CheckpointFunction : torch::autograd::Function<CheckpointFunction> {
  static at::Tensor forward(AutogradContext* context,
                            const Recomputable* piece,
                            at::TensorList list) {
    const variable_list inputs = list.vec();
    context->save_for_backward(inputs);
    context->saved_data["piece"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(piece));
    return piece->Compute(inputs);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto* piece = reinterpret_cast<const Recomputable*>(
        static_cast<intptr_t>(context->saved_data["piece"].toInt()));
    variable_list inputs;
    for (const at::Tensor& saved : context->get_saved_variables()) {
      inputs.push_back(saved.detach().set_requires_grad(true));
    }
    at::Tensor output;
    {
      const at::AutoGradMode with_grad(true);
      output = piece->Compute(inputs);
    }
    torch::autograd::backward({output}, {grads[0]});
    variable_list result = {at::Tensor()};
    for (const at::Tensor& input : inputs) {
      result.push_back(input.grad());
    }
    return result;
  }
};

}  // namespace

at::Tensor Checkpoint(const Recomputable& piece, const std::vector<at::Tensor>& inputs) {
  // As a TensorList: a vector would not be treated as differentiable.
  return CheckpointFunction::apply(&piece, at::TensorList(inputs));
}

}  // namespace prism::launch
