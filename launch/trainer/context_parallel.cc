#include "launch/trainer/context_parallel.h"

#include <torch/csrc/autograd/custom_function.h>

namespace prism::launch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Every member gets this rank's part of the sequence for that member's heads; parts of the sequence
// arrive in sequence order.
at::Tensor ToHeads(const at::Tensor& input, const Group& cp) {
  const int64_t width = input.size(2) / cp.size();
  const at::Tensor by_member = input.contiguous()
                                   .view({input.size(0), input.size(1), cp.size(), width})
                                   .permute({2, 0, 1, 3})
                                   .contiguous();
  const at::Tensor whole = at::empty_like(by_member);
  AllToAll(cp, whole, by_member);
  return whole.view({cp.size() * input.size(0), input.size(1), width});
}

at::Tensor ToSequence(const at::Tensor& input, const Group& cp) {
  const at::Tensor by_member =
      input.contiguous().view({cp.size(), input.size(0) / cp.size(), input.size(1), input.size(2)});
  const at::Tensor heads = at::empty_like(by_member);
  AllToAll(cp, heads, by_member);
  return heads.permute({1, 2, 0, 3}).reshape({heads.size(1), heads.size(2), -1});
}

struct ExchangeFunction : torch::autograd::Function<ExchangeFunction> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& input,
                            const Group* cp,
                            bool to_heads) {
    context->saved_data["cp"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(cp));
    context->saved_data["to_heads"] = to_heads;
    return to_heads ? ToHeads(input, *cp) : ToSequence(input, *cp);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto* cp =
        reinterpret_cast<const Group*>(static_cast<intptr_t>(context->saved_data["cp"].toInt()));
    const bool to_heads = context->saved_data["to_heads"].toBool();
    return {to_heads ? ToSequence(grads[0], *cp) : ToHeads(grads[0], *cp), at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor SequenceForHeads(const at::Tensor& input, const Group& cp) {
  return cp.alone() ? input : ExchangeFunction::apply(input, &cp, true);
}

at::Tensor HeadsForSequence(const at::Tensor& input, const Group& cp) {
  return cp.alone() ? input : ExchangeFunction::apply(input, &cp, false);
}

}  // namespace prism::launch
