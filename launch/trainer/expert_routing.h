// Which of a rank's tokens go to which expert: Megatron-Core's router with a softmax over the
// chosen experts, --moe-token-drop-policy probs, --moe-pad-expert-input-to-capacity and a capacity
// factor of 1 (core/transformer/moe/moe_utils.py: topk_softmax_with_capacity). Every expert takes
// the same number of rows from every rank whatever the values are (graph/job/expert_capacity.h), so
// all ranks do the same and the host need not know how tokens were routed.
#pragma once

#include <ATen/ATen.h>

#include "graph/job/job.h"

namespace prism::launch {

// By expert and row, [experts * capacity]. An expert chosen by too few tokens has rows of weight 0;
// of one chosen by too many the least probable tokens are dropped.
struct Routes {
  at::Tensor tokens;   // index of the row's token
  at::Tensor weights;  // its probability, in the type of the logits; has a gradient
};

// `logits`: [tokens, experts].
Routes RouteTokens(const at::Tensor& logits, const graph::MoeShape& moe);

// The rows of `routes`, [experts * capacity, width], of tokens [tokens, width].
at::Tensor TakeRows(const at::Tensor& tokens, const Routes& routes);

// The reverse: for each of `tokens` tokens the weighted sum of its rows.
at::Tensor SumRows(const at::Tensor& rows, const Routes& routes, int64_t tokens);

}  // namespace prism::launch
