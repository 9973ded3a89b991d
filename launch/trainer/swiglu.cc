#include "launch/trainer/swiglu.h"

#include <vector>

#include <torch/csrc/autograd/custom_function.h>

namespace prism::launch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SwiGluFunction : torch::autograd::Function<SwiGluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input) {
    context->save_for_backward({input});
    const std::vector<at::Tensor> branches = input.chunk(2, -1);
    return at::silu(branches[0]).mul_(branches[1]);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const at::Tensor input = context->get_saved_variables()[0];
    const std::vector<at::Tensor> branches = input.chunk(2, -1);
    const at::Tensor up_grad = at::silu(branches[0]).mul_(grads[0]);
    const at::Tensor gate_grad = at::silu_backward(grads[0] * branches[1], branches[0]);
    return {at::cat({gate_grad, up_grad}, -1)};
  }
};

}  // namespace

at::Tensor SwiGlu(const at::Tensor& input) {
  return SwiGluFunction::apply(input);
}

}  // namespace prism::launch
