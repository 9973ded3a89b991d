#include "launch/trainer/mixture_of_experts.h"

#include <cmath>

#include <torch/csrc/autograd/custom_function.h>

#include "launch/trainer/expert_routing.h"
#include "launch/trainer/swiglu.h"

namespace prism::launch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The weights of all local experts as matrices [experts, outputs, inputs].
at::Tensor Matrices(const Parameter& weight) {
  return weight.value.view({weight.shape.front(), -1, weight.shape.back()});
}

// input · weightᵀ expert by expert, [experts, rows, ..]. The weights' gradient goes directly to its
// accumulator.
struct ExpertLinear : torch::autograd::Function<ExpertLinear> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& input,
                            const Parameter* weight) {
    context->saved_data["weight"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(weight));
    context->save_for_backward({input});
    return at::bmm(input, Matrices(*weight).transpose(1, 2));
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto* weight = reinterpret_cast<const Parameter*>(
        static_cast<intptr_t>(context->saved_data["weight"].toInt()));
    const at::Tensor input = context->get_saved_variables()[0];
    const at::Tensor grad = grads[0].contiguous();
    at::Tensor grad_input = at::bmm(grad, Matrices(*weight));
    weight->grad->AddProducts(grad, input);
    return {grad_input, at::Tensor()};
  }
};

// Rows ordered by destination rank become rows ordered by source rank; the same in backward.
struct ExchangeRows : torch::autograd::Function<ExchangeRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, const Group* ep) {
    context->saved_data["ep"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(ep));
    return Exchange(rows, *ep);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto* ep =
        reinterpret_cast<const Group*>(static_cast<intptr_t>(context->saved_data["ep"].toInt()));
    return {Exchange(grads[0], *ep), at::Tensor()};
  }

  static at::Tensor Exchange(const at::Tensor& rows, const Group& ep) {
    const at::Tensor sent = rows.contiguous();
    const at::Tensor received = at::empty_like(sent);
    AllToAll(ep, received, sent);
    return received;
  }
};

at::Tensor OverRanks(const at::Tensor& rows, const Group& ep) {
  return ep.alone() ? rows : ExchangeRows::apply(rows, &ep);
}

}  // namespace

MixtureOfExperts::MixtureOfExperts(const std::string& name,
                                   const WorkloadConfig& config,
                                   const TensorParallel& tp,
                                   const Group& ep,
                                   ParameterSet* parameters)
    : config_(config),
      tp_(tp),
      ep_(ep),
      local_experts_(config.job.model.moe.experts / config.job.parallel.ep) {
  const graph::ModelSpec& model = config.job.model;
  const graph::MoeShape& moe = model.moe;
  ParameterSpec router;
  router.name = name + ".router.weight";
  router.full_shape = {moe.experts, model.hidden};
  router.sequence_parallel = true;
  router_ = parameters->Declare(router);
  ParameterSpec in;
  in.name = name + ".experts_in.weight";
  in.full_shape = {moe.experts, 2, moe.expert_ffn, model.hidden};
  in.split_dim = 2;
  in.expert = true;
  in_ = parameters->Declare(in);
  ParameterSpec out;
  out.name = name + ".experts_out.weight";
  out.full_shape = {moe.experts, model.hidden, moe.expert_ffn};
  out.split_dim = 2;
  out.expert = true;
  out.std /= std::sqrt(2.0 * static_cast<double>(model.layers));
  out_ = parameters->Declare(out);
}

at::Tensor MixtureOfExperts::Apply(const at::Tensor& input) const {
  const at::Tensor tokens = input.view({-1, input.size(-1)});
  const Routes routes = RouteTokens(ReplicatedLinear(tokens, *router_), config_.job.model.moe);
  const at::Tensor rows = Dispatch(TakeRows(tokens, routes));
  const at::Tensor wide = SwiGlu(ExpertLinear::apply(rows, in_));
  const at::Tensor done = Combine(ExpertLinear::apply(wide, out_));
  return SumRows(done, routes, tokens.size(0)).view(input.sizes());
}

// From [experts * capacity, hidden] of this rank to [local experts, rows of all ranks, hidden].
// Received rows are in the order of the senders.
at::Tensor MixtureOfExperts::Dispatch(const at::Tensor& rows) const {
  const int64_t senders = int64_t{ep_.size()} * tp_.size();
  const at::Tensor arrived = GatherToParallelRegion(OverRanks(rows, ep_), tp_);
  return arrived.view({senders, local_experts_, -1, rows.size(-1)})
      .transpose(0, 1)
      .reshape({local_experts_, -1, rows.size(-1)});
}

// The reverse.
at::Tensor MixtureOfExperts::Combine(const at::Tensor& rows) const {
  const int64_t senders = int64_t{ep_.size()} * tp_.size();
  const at::Tensor by_sender = rows.view({local_experts_, senders, -1, rows.size(-1)})
                                   .transpose(0, 1)
                                   .reshape({-1, rows.size(-1)});
  return OverRanks(ReduceToParallelRegion(by_sender, tp_), ep_);
}

}  // namespace prism::launch
