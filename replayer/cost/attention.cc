#include "replayer/cost/attention.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "graph/base/units.h"

namespace prism::replayer {
namespace {

// "...flash_fwd_kernel<Flash_fwd_kernel_traits<..., Flash_kernel_traits<...> >, DROPOUT, CAUSAL,
// ...>(...)", the same for backward; "...flash_fwd_splitkv_kernel<..., CAUSAL, ...>(...)". Null for
// other kernels.
std::optional<bool> NamesCausal(std::string_view kernel) {
  constexpr std::string_view kTraitsEnd = "> >, ";
  const size_t traits = kernel.find("Flash_");
  const size_t end = traits == std::string_view::npos ? traits : kernel.find(kTraitsEnd, traits);
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view flags = kernel.substr(end + kTraitsEnd.size());
  if (kernel.find("splitkv") != std::string_view::npos) {
    return !flags.starts_with("false,");
  }
  return !flags.starts_with("false, false,") && !flags.starts_with("true, false,");
}

// Which of the two middle dimensions of [batch, _, _, width] counts queries: that in which there
// are more keys, as for tokens that are decoded; else the longer one, since there are fewer heads.
size_t SequenceDimension(const std::vector<int64_t>& q, const std::vector<int64_t>& k) {
  if ((k[1] > q[1]) != (k[2] > q[2])) {
    return k[1] > q[1] ? 1 : 2;
  }
  return q[1] > q[2] ? 1 : 2;
}

// The number of packed sequences: the list has the first token of each, and the end of the last.
std::optional<int64_t> PackedSequences(const graph::KernelSignature& signature) {
  const auto found = std::ranges::find_if(signature.inputs, [](const graph::TensorShape& input) {
    return input.dtype == DataType::kInt32 && input.dims.size() == 1 && input.dims[0] > 1;
  });
  return found == signature.inputs.end() ? std::nullopt : std::optional(found->dims[0] - 1);
}

// FlexAttention without a mask has one block of all queries and keys, which its lists then say.
bool HasOneBlock(const std::vector<graph::TensorShape>& inputs) {
  const auto list = std::ranges::find_if(inputs, [](const graph::TensorShape& input) {
    return input.dtype == DataType::kInt32 && input.dims.size() == 3;
  });
  return list != inputs.end() && list->dims[2] == 1;
}

// Of the five products of a backward pass, two are those of the forward pass. Triton's kernels are
// often two, for the gradients of keys and values and for that of queries, of four and three;
// FlexAttention's does both.
double ProductsOf(std::string_view kernel, bool backward) {
  if (!backward) {
    return 1;
  }
  const auto named = [&](std::string_view part) {
    return kernel.find(part) != std::string_view::npos;
  };
  if (named("flex_attention")) {
    return 3.5;
  }
  const bool queries = named("dq");
  const bool keys = named("dkdv") || named("dk_dv");
  return queries == keys ? 2.5 : keys ? 2 : 1.5;
}

// Whether a mask or bias of each pair of query and key is among the inputs: nothing is left out for
// it, however much it hides.
bool AddsToScores(const AttentionShape& shape, const std::vector<graph::TensorShape>& inputs) {
  return shape.keys != shape.width &&
         std::ranges::any_of(inputs, [&](const graph::TensorShape& input) {
           return input.dims.size() == 4 && input.dims[2] == shape.queries &&
                  input.dims[3] == shape.keys;
         });
}

}  // namespace

bool IsAttentionKernel(const KernelView& view) {
  const auto op_names = [&](std::string_view part) { return Contains(view.framework_op, part); };
  if (view.framework_op.starts_with("fused::triton_")) {
    // Inductor's other kernels have the names of ops whose inputs and outputs they only touch.
    return view.kernel.starts_with("triton_tem_") && op_names("flex_attention") &&
           view.signature.inputs.size() >= 3;
  }
  const bool attention = op_names("flash_attention") || op_names("efficient_attention") ||
                         op_names("cudnn_attention") || op_names("flash_attn") ||
                         op_names("fused_attn") || op_names("scaled_dot_product");
  // A torch.autograd.Function, whose backward op has only the output's gradient for an input.
  const bool function = !attention && !op_names("::") &&
                        (op_names("Attn") || op_names("Attention") || op_names("attention"));
  const size_t least = function && IsAttentionBackward(view) ? 1 : 3;
  if ((!attention && !function) || view.signature.inputs.size() < least) {
    return false;
  }
  for (std::string_view small :
       {"dot_do_o", "do_o_dot", "reprocess", "ostprocess", "convert_dq", "elementwise", "philox",
        "unroll", "reduce", "fill", "clear", "distribution", "ombine"}) {
    if (Contains(view.kernel, small)) {
      return false;
    }
  }
  return true;
}

bool IsAttentionBackward(const KernelView& view) {
  return Contains(view.framework_op, "backward") || view.framework_op.ends_with("Backward");
}

AttentionGeneration AttentionGenerationOf(const KernelView& view) {
  const auto named = [&](std::string_view part) {
    return Contains(view.framework_op, part) || Contains(view.kernel, part);
  };
  if (named("flash_v1") || view.kernel == "_fwd_kernel" || view.kernel == "_bwd_kernel") {
    return AttentionGeneration::kFlash1;
  }
  for (std::string_view part : {"cudnn", "fused_attn", "flash_v3", "hopper"}) {
    if (named(part)) {
      return AttentionGeneration::kHopper;
    }
  }
  return AttentionGeneration::kFlash2;
}

std::optional<AttentionShape> FindAttention(const KernelView& view) {
  AttentionShape shape;
  shape.backward = IsAttentionBackward(view);
  const std::optional<bool> named =
      view.framework_op.ends_with(".full") ? false : NamesCausal(view.kernel);
  shape.causal = named.value_or(true);
  shape.names_mask = named.has_value();
  shape.products = ProductsOf(view.kernel, shape.backward);
  const auto& inputs = view.signature.inputs;
  const bool flex = view.kernel.find("flex_attention") != std::string_view::npos;
  const bool gradient_only = shape.backward && inputs.size() < 3;
  const size_t first = shape.backward && !gradient_only && !flex ? 1 : 0;
  const size_t second = gradient_only ? first : first + 1;
  if (inputs.size() <= second) {
    return std::nullopt;
  }
  const std::vector<int64_t>& q = inputs[first].dims;
  const std::vector<int64_t>& k = inputs[second].dims;
  shape.type = inputs[first].dtype;
  shape.kv_bytes = 2 * inputs[second].Bytes();
  shape.splits_keys = view.kernel.find("splitkv") != std::string_view::npos;
  if (q.size() == 4 && k.size() == 4) {
    const size_t sequence = SequenceDimension(q, k);
    shape.batch_heads = q[0] * q[3 - sequence];
    shape.queries = q[sequence];
    shape.keys = k[sequence];
    shape.width = q[3];
    if (AddsToScores(shape, inputs) || (flex && HasOneBlock(inputs))) {
      shape.causal = false;
      shape.names_mask = true;
    }
    return shape;
  }
  const std::optional<int64_t> sequences = PackedSequences(view.signature);
  if (q.size() != 3 || k.size() != 3 || !sequences) {
    return std::nullopt;
  }
  shape.batch_heads = *sequences * q[1];
  shape.queries = q[0] / *sequences;
  shape.keys = k[0] / *sequences;
  shape.width = q[2];
  return shape;
}

std::vector<std::string> MaskAssumptions(const graph::Graph& graph) {
  std::vector<bool> assumed;  // by signature
  for (const graph::KernelSignature& signature : graph.signatures) {
    const KernelView view = {graph.string(signature.name), graph.string(signature.framework_op),
                             signature};
    const std::optional<AttentionShape> shape =
        IsAttentionKernel(view) ? FindAttention(view) : std::nullopt;
    assumed.push_back(shape && !shape->names_mask);
  }
  int64_t count = 0;
  std::string_view example;
  for (const graph::Role& role : graph.roles) {
    const graph::Program& program = role.program;
    for (uint32_t op = 0; op < program.size(); ++op) {
      if (program.kind[op] == graph::OpKind::kKernel && assumed[program.signature[op]] &&
          (program.flags[op] & graph::kDurationFixed) == 0) {
        example = graph.string(graph.signatures[program.signature[op]].name);
        ++count;
      }
    }
  }
  if (count == 0) {
    return {};
  }
  return {fmt::format(
      "{} of all roles' programs, {} among them, count as causal, with half of the "
      "products: neither name nor inputs tell whether they are",
      FormatCounted(count, "attention kernel"), example.substr(0, example.find_first_of("<(")))};
}

}  // namespace prism::replayer
