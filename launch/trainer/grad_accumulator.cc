#include "launch/trainer/grad_accumulator.h"

#include <memory>

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "shim/observer/torch_versions.h"

namespace prism::launch {
namespace {

// Moves a gradient that autograd has computed into the sink and frees it.
class AccumulateHook : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit AccumulateHook(GradAccumulator* accumulator) : accumulator_(accumulator) {}

  void operator()(const at::Tensor& parameter) override {
    accumulator_->Add(parameter.grad());
    parameter.mutable_grad() = at::Tensor();
  }

 private:
  GradAccumulator* accumulator_;
};

}  // namespace

void GradAccumulator::HookInto(const at::Tensor& parameter) {
  torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<AccumulateHook>(this));
}

void GradAccumulator::Add(const at::Tensor& grad) {
  sink_->Open(place_).add_(grad);
  sink_->CountReady(place_);
}

void GradAccumulator::AddProduct(const at::Tensor& output_grad, const at::Tensor& input) {
  at::Tensor target = sink_->Open(place_).view({-1, input.size(-1)});
  if (input.scalar_type() == at::kFloat) {
    target.addmm_(output_grad.t(), input);
  } else {
#if PRISM_TORCH_MIXES_TYPES
    at::addmm_out(target, target, output_grad.t(), input, at::kFloat);
#else
    target.add_(at::mm(output_grad.t(), input));
#endif
  }
  sink_->CountReady(place_);
}

void GradAccumulator::AddProducts(const at::Tensor& output_grads, const at::Tensor& inputs) {
  at::Tensor target = sink_->Open(place_).view({inputs.size(0), -1, inputs.size(-1)});
  if (inputs.scalar_type() == at::kFloat) {
    target.baddbmm_(output_grads.transpose(1, 2), inputs);
  } else {
#if PRISM_TORCH_MIXES_TYPES
    at::baddbmm_out(target, target, output_grads.transpose(1, 2), inputs, at::kFloat);
#else
    target.add_(at::bmm(output_grads.transpose(1, 2), inputs));
#endif
  }
  sink_->CountReady(place_);
}

}  // namespace prism::launch
