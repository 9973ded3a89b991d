// Routing of tokens to experts against the rule written out token by token, gradients included.
#include "launch/trainer/expert_routing.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "graph/job/expert_capacity.h"

namespace prism::launch {
namespace {

constexpr int64_t kTokens = 24;
constexpr int64_t kWidth = 5;
constexpr graph::MoeShape kMoe = {.experts = 6, .topk = 2};

// Indices of the `count` largest values.
std::vector<int64_t> Largest(const std::vector<double>& values, int64_t count) {
  std::vector<int64_t> indices(values.size());
  std::iota(indices.begin(), indices.end(), 0);
  std::sort(indices.begin(), indices.end(), [&](int64_t a, int64_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  indices.resize(static_cast<size_t>(count));
  return indices;
}

// Expert e multiplies a token by e + 1.
struct Expected {
  at::Tensor output;
  int64_t taken = 0;
};

// One token after the other; autograd of libtorch throughout.
Expected Reference(const at::Tensor& logits, const at::Tensor& tokens) {
  // Probabilities of chosen experts, else 0; undefined autograd edges where nothing was chosen.
  std::vector<std::vector<at::Tensor>> weights(kTokens, std::vector<at::Tensor>(kMoe.experts));
  std::vector<std::vector<double>> by_expert(kMoe.experts, std::vector<double>(kTokens, 0.0));
  for (int64_t t = 0; t < kTokens; ++t) {
    std::vector<double> row;
    for (int64_t e = 0; e < kMoe.experts; ++e) {
      row.push_back(logits[t][e].item<double>());
    }
    at::Tensor sum = at::zeros({});
    const std::vector<int64_t> chosen = Largest(row, kMoe.topk);
    for (const int64_t e : chosen) {
      sum = sum + logits[t][e].exp();
    }
    for (const int64_t e : chosen) {
      const at::Tensor weight = logits[t][e].exp() / sum;
      by_expert[static_cast<size_t>(e)][static_cast<size_t>(t)] = weight.item<double>();
      weights[static_cast<size_t>(t)][static_cast<size_t>(e)] = weight;
    }
  }
  Expected expected;
  std::vector<at::Tensor> sums(kTokens, at::zeros({kWidth}));
  for (int64_t e = 0; e < kMoe.experts; ++e) {
    const int64_t capacity = graph::ExpertCapacity(kMoe, kTokens);
    for (const int64_t t : Largest(by_expert[static_cast<size_t>(e)], capacity)) {
      const at::Tensor& weight = weights[static_cast<size_t>(t)][static_cast<size_t>(e)];
      if (weight.defined()) {
        sums[static_cast<size_t>(t)] =
            sums[static_cast<size_t>(t)] + weight * tokens[t] * static_cast<double>(e + 1);
        ++expected.taken;
      }
    }
  }
  expected.output = at::stack(sums);
  return expected;
}

at::Tensor Routed(const at::Tensor& logits, const at::Tensor& tokens) {
  const Routes routes = RouteTokens(logits, kMoe);
  const at::Tensor factors = at::arange(1, kMoe.experts + 1, at::kFloat)
                                 .repeat_interleave(graph::ExpertCapacity(kMoe, kTokens))
                                 .unsqueeze(-1);
  return SumRows(TakeRows(tokens, routes) * factors, routes, kTokens);
}

at::Tensor Leaf(const at::Tensor& values) {
  return values.clone().set_requires_grad(true);
}

TEST(ExpertRouting, equals_the_rule_token_by_token) {
  at::manual_seed(3);
  const at::Tensor logits = at::randn({kTokens, kMoe.experts});
  const at::Tensor tokens = at::randn({kTokens, kWidth});
  const at::Tensor output_grad = at::randn({kTokens, kWidth});

  const at::Tensor reference_logits = Leaf(logits);
  const at::Tensor reference_tokens = Leaf(tokens);
  const Expected expected = Reference(reference_logits, reference_tokens);
  // Some tokens are dropped, and some rows have none: both cases are tested here.
  EXPECT_LT(expected.taken, kTokens * kMoe.topk);
  torch::autograd::backward({expected.output}, {output_grad});

  const at::Tensor routed_logits = Leaf(logits);
  const at::Tensor routed_tokens = Leaf(tokens);
  const at::Tensor output = Routed(routed_logits, routed_tokens);
  torch::autograd::backward({output}, {output_grad});

  EXPECT_TRUE(at::allclose(output, expected.output, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(routed_logits.grad(), reference_logits.grad(), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(routed_tokens.grad(), reference_tokens.grad(), 1e-5, 1e-6));
}

TEST(ExpertRouting, rows_are_as_many_whatever_the_values) {
  const at::Tensor logits = at::zeros({7, kMoe.experts});
  logits.select(1, 2).fill_(1.0);  // every token chooses expert 2
  const Routes routes = RouteTokens(logits, kMoe);
  EXPECT_EQ(routes.tokens.numel(), 6 * 3);  // 7 · 2 / 6, rounded up
  EXPECT_EQ(routes.weights.numel(), 6 * 3);
  EXPECT_EQ(routes.weights.narrow(0, 2 * 3, 3).gt(0).sum().item<int64_t>(), 3);
}

}  // namespace
}  // namespace prism::launch
