#include "launch/trainer/expert_routing.h"

#include <tuple>

#include <torch/csrc/autograd/custom_function.h>

#include "graph/job/expert_capacity.h"

namespace prism::launch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The largest `count` of every row and their indices, unordered, which avoids a sort.
std::tuple<at::Tensor, at::Tensor> Largest(const at::Tensor& input, int64_t count) {
  return at::topk(input, count, -1, /*largest=*/true, /*sorted=*/false);
}

struct RouteFunction : torch::autograd::Function<RouteFunction> {
  // Tokens choose experts, then experts choose the most probable of the tokens that chose them.
  static variable_list forward(AutogradContext* context,
                               const at::Tensor& logits,
                               int64_t topk,
                               int64_t capacity) {
    const at::Tensor scores = logits.to(at::kFloat);
    const auto [chosen_scores, chosen] = Largest(scores, topk);
    const at::Tensor probabilities = at::softmax(chosen_scores, -1);
    const at::Tensor gates = at::zeros({scores.size(1), scores.size(0)}, scores.options());
    gates.t().scatter_(1, chosen, probabilities);
    const auto [weights, tokens] = Largest(gates, capacity);
    context->save_for_backward({chosen, probabilities, tokens});
    context->mark_non_differentiable({tokens});
    context->set_materialize_grads(false);  // of the tokens
    return {tokens, weights.to(logits.scalar_type())};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& chosen = saved[0];
    const at::Tensor& probabilities = saved[1];
    const at::Tensor& tokens = saved[2];
    const at::TensorOptions options = probabilities.options();
    const int64_t experts = tokens.size(0);
    const at::Tensor gates_grad = at::zeros({experts, chosen.size(0)}, options);
    gates_grad.scatter_(1, tokens, grads[1].to(at::kFloat));
    const at::Tensor chosen_grad = at::_softmax_backward_data(
        gates_grad.t().gather(1, chosen), probabilities, -1, probabilities.scalar_type());
    const at::Tensor scores_grad = at::zeros({chosen.size(0), experts}, options);
    scores_grad.scatter_(1, chosen, chosen_grad);
    return {scores_grad.to(grads[1].scalar_type()), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

Routes RouteTokens(const at::Tensor& logits, const graph::MoeShape& moe) {
  const variable_list routes =
      RouteFunction::apply(logits, moe.topk, graph::ExpertCapacity(moe, logits.size(0)));
  return {routes[0].view({-1}), routes[1].view({-1})};
}

at::Tensor TakeRows(const at::Tensor& tokens, const Routes& routes) {
  return at::index_select(tokens, 0, routes.tokens);
}

at::Tensor SumRows(const at::Tensor& rows, const Routes& routes, int64_t tokens) {
  const at::Tensor weighted = rows * routes.weights.unsqueeze(-1);
  return at::zeros({tokens, rows.size(1)}, rows.options()).index_add_(0, routes.tokens, weighted);
}

}  // namespace prism::launch
