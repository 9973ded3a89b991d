#include "launch/trainer/backward_hook.h"

#include <torch/csrc/autograd/custom_function.h>

namespace prism::launch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct CallInBackward : torch::autograd::Function<CallInBackward> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& tensor,
                            const std::function<void()>* callback) {
    context->saved_data["callback"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(callback));
    return tensor;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto* callback = reinterpret_cast<const std::function<void()>*>(
        static_cast<intptr_t>(context->saved_data["callback"].toInt()));
    (*callback)();
    return {grads[0], at::Tensor()};
  }
};

}  // namespace

at::Tensor AtBackward(const at::Tensor& tensor, const std::function<void()>* callback) {
  return CallInBackward::apply(tensor, callback);
}

}  // namespace prism::launch
