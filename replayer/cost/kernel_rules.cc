#include "replayer/cost/kernel_rules.h"

#include <algorithm>
#include <array>

namespace prism::replayer {
namespace {

// Reads `reads` times the bytes of all inputs and writes `writes` times those of the largest.
struct OpRule {
  std::string_view name;  // without "aten::" and a trailing underscore
  double reads;
  double writes;
};

// An op that writes its output without reading (fill) has 0 reads; a reduction writes next to
// nothing; copy_ has its destination among its inputs, so reading all inputs once counts both.
constexpr auto kOpRules = std::to_array<OpRule>({
    {"_foreach_norm", 1, 0},
    {"_fused_adam", 1, 0.75},
    {"_log_softmax", 1, 1},
    {"_log_softmax_backward_data", 1, 1},
    {"_softmax", 1, 1},
    {"_softmax_backward_data", 1, 1},
    {"_to_copy", 1, 1},
    {"_unsafe_masked_index", 1, 1},
    {"abs", 1, 1},
    {"add", 1, 1},
    {"addcdiv", 1, 1},
    {"addcmul", 1, 1},
    {"all", 1, 0},
    {"amax", 1, 0},
    {"any", 1, 0},
    {"arange", 0, 1},
    {"argmax", 1, 0},
    {"bincount", 1, 0},
    {"bitwise_and", 1, 1},
    {"bitwise_not", 1, 1},
    {"bitwise_or", 1, 1},
    {"cat", 1, 1},
    {"clamp", 1, 1},
    {"clamp_min", 1, 1},
    {"clone", 1, 1},
    {"copy", 1, 0},
    {"cos", 1, 1},
    {"cumsum", 1, 1},
    {"div", 1, 1},
    {"dot", 1, 0},
    {"eq", 1, 0.5},
    {"exp", 1, 1},
    {"fill", 0, 1},
    {"floor_divide", 1, 1},
    {"ge", 1, 0.5},
    {"gelu", 1, 1},
    {"gelu_backward", 1, 1},
    {"gt", 1, 0.5},
    {"histc", 1, 0},
    {"index_add", 1, 0},
    {"index_fill", 0, 1},
    {"index_put", 1, 0},
    {"isfinite", 1, 0.5},
    {"isinf", 1, 0.5},
    {"isnan", 1, 0.5},
    {"le", 1, 0.5},
    {"lerp", 1, 1},
    {"linalg_vector_norm", 1, 0},
    {"log", 1, 1},
    {"logical_and", 1, 1},
    {"logical_not", 1, 1},
    {"logical_or", 1, 1},
    {"lt", 1, 0.5},
    {"masked_fill", 1, 1},
    {"max", 1, 0},
    {"mean", 1, 0},
    {"min", 1, 0},
    {"mul", 1, 1},
    {"native_dropout", 1, 1.5},
    {"native_dropout_backward", 1, 1},
    {"ne", 1, 0.5},
    {"neg", 1, 1},
    {"nll_loss_backward", 0, 1},
    {"nll_loss_forward", 0.01, 0},
    {"norm", 1, 0},
    {"normal", 0, 1},
    {"ones_like", 0, 1},
    {"pow", 1, 1},
    {"reciprocal", 1, 1},
    {"relu", 1, 1},
    {"rsqrt", 1, 1},
    {"rsub", 1, 1},
    {"scatter", 1, 0},
    {"sigmoid", 1, 1},
    {"silu", 1, 1},
    {"silu_backward", 1, 1},
    {"sin", 1, 1},
    {"sort", 1, 3},
    {"sqrt", 1, 1},
    {"sub", 1, 1},
    {"sum", 1, 0},
    {"tanh", 1, 1},
    {"threshold_backward", 1, 1},
    {"topk", 1, 0.25},
    {"uniform", 0, 1},
    {"where", 1, 1},
    {"zero", 0, 1},
});

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

struct InputBytes {
  double sum = 0;
  double largest = 0;
};

InputBytes BytesOfInputs(const graph::KernelSignature& signature) {
  InputBytes bytes;
  for (const graph::TensorShape& shape : signature.inputs) {
    auto its = static_cast<double>(shape.Bytes());
    bytes.sum += its;
    bytes.largest = std::max(bytes.largest, its);
  }
  return bytes;
}

// Batch normalisation reads its input once for the statistics and once to apply them.
double BatchNormBytes(const KernelView& view) {
  const InputBytes bytes = BytesOfInputs(view.signature);
  return bytes.sum + 2 * bytes.largest;
}

// Layer and RMS normalisation. The backward op launches one kernel for the input's gradient (reads
// the output's gradient and the input, writes the input's gradient) and others for weight and bias,
// which only read.
double NormalisationBytes(const KernelView& view, bool backward) {
  InputBytes bytes = BytesOfInputs(view.signature);
  bool weights = Contains(view.kernel, "GammaBeta") || Contains(view.kernel, "gamma_beta");
  return backward && weights ? bytes.sum : bytes.sum + bytes.largest;
}

// weight [vocab, hidden], indices [...]: one row read and one written per index.
double EmbeddingBytes(const graph::KernelSignature& signature) {
  if (signature.inputs.size() < 2 || signature.inputs[0].dims.empty()) {
    return BytesOfInputs(signature).sum;
  }
  const graph::TensorShape& weight = signature.inputs[0];
  const graph::TensorShape& indices = signature.inputs[1];
  double row = static_cast<double>(weight.dims.back() * DataTypeBytes(weight.dtype));
  return static_cast<double>(indices.Bytes()) +
         2 * row * static_cast<double>(indices.ElementCount());
}

// Rows or single elements of inputs[0] by an index, which libtorch expands to the shape of the
// output without storing it: what counts is how many are picked. Reads an index and an element,
// writes an element; scatter_add reads its target, too.
double PickedBytes(const KernelView& view) {
  const graph::TensorShape& table = view.signature.inputs[0];
  const auto picked = static_cast<double>(view.signature.inputs[1].ElementCount());
  const auto element = static_cast<double>(DataTypeBytes(table.dtype));
  // vectorized_gather_kernel takes one index per row.
  const bool rows = Contains(view.kernel, "vectorized_gather") && !table.dims.empty();
  const double indices = rows ? picked / static_cast<double>(table.dims.back()) : picked;
  return indices * 8 + picked * element * (Contains(view.framework_op, "add") ? 3 : 2);
}

// Above 3,072 indices libtorch sorts them before it sums gradients by row; only the last two
// kernels touch gradients.
double EmbeddingGradientBytes(const KernelView& view) {
  const InputBytes inputs = BytesOfInputs(view.signature);
  for (std::string_view sorting :
       {"DeviceRadixSort", "DeviceUnique", "DeviceScan", "DeviceCompact", "partial"}) {
    if (Contains(view.kernel, sorting)) {
      return 2 * (inputs.sum - inputs.largest);
    }
  }
  return inputs.sum + inputs.largest;
}

// Kernels of TensorIterator index with 32 bits: an op over more than 2 GiB is halved until each
// part fits, and each of its kernels is recorded with the shapes of the whole. Returns the number
// of parts.
double IndexedParts(std::string_view name, const InputBytes& inputs) {
  constexpr double kMaxBytes = 2147483647;
  const bool iterates = !name.starts_with("_") && name != "native_dropout" && name != "cat" &&
                        name != "sort" && name != "topk";
  double parts = 1;
  while (iterates && inputs.largest > kMaxBytes * parts) {
    parts *= 2;
  }
  return parts;
}

}  // namespace

std::string_view BareOpName(std::string_view op) {
  size_t colon = op.rfind("::");
  if (colon != std::string_view::npos) {
    op.remove_prefix(colon + 2);
  }
  op = op.substr(0, op.find('.'));
  if (op.size() > 1 && op.back() == '_') {
    op.remove_suffix(1);
  }
  return op;
}

bool IsAttentionKernel(const KernelView& view) {
  bool attention = Contains(view.framework_op, "flash_attention") ||
                   Contains(view.framework_op, "efficient_attention") ||
                   Contains(view.framework_op, "cudnn_attention") ||
                   Contains(view.framework_op, "flash_attn") ||
                   Contains(view.framework_op, "fused_attn") ||
                   Contains(view.framework_op, "scaled_dot_product");
  if (!attention || view.signature.inputs.size() < 3) {
    return false;
  }
  for (std::string_view small : {"dot_do_o", "convert_dq", "elementwise", "philox", "unroll",
                                 "reduce", "fill", "distribution", "combine"}) {
    if (Contains(view.kernel, small)) {
      return false;
    }
  }
  return true;
}

bool IsAttentionBackward(const KernelView& view) {
  return Contains(view.framework_op, "backward");
}

AttentionGeneration AttentionGenerationOf(const KernelView& view) {
  const auto named = [&](std::string_view part) {
    return Contains(view.framework_op, part) || Contains(view.kernel, part);
  };
  if (named("flash_v1")) {
    return AttentionGeneration::kFlash1;
  }
  for (std::string_view part : {"cudnn", "fused_attn", "flash_v3", "hopper"}) {
    if (named(part)) {
      return AttentionGeneration::kHopper;
    }
  }
  return AttentionGeneration::kFlash2;
}

std::optional<double> TensorListBytes(const KernelView& view) {
  if (Contains(view.kernel, "lpnorm_cleanup")) {
    // One block per tensor adds up the partial results of that tensor's chunks, one number each.
    return BytesOfInputs(view.signature).sum / 65536;
  }
  if (!Contains(view.kernel, "multi_tensor_apply")) {
    return std::nullopt;
  }
  // One block works on one chunk of at most 65,536 elements (kChunkSize in
  // ATen/native/cuda/ForeachFunctors.cuh and MultiTensorApply.cuh).
  constexpr double kChunk = 65536;
  double blocks = view.signature.grid[0];
  InputBytes inputs = BytesOfInputs(view.signature);
  double element = 4;
  if (!view.signature.inputs.empty()) {
    element = static_cast<double>(DataTypeBytes(view.signature.inputs[0].dtype));
  }
  // Adam reads parameter, gradient and two moments and writes three of them; a norm only reads;
  // other functors read one list and write one.
  double accesses = 2;
  if (Contains(view.kernel, "Adam")) {
    accesses = 7;
  } else if (Contains(view.kernel, "Norm")) {
    accesses = 1;
  }
  double bytes = blocks * kChunk * element * accesses;
  return inputs.sum > 0 ? std::min(bytes, 2 * inputs.sum) : bytes;
}

std::optional<double> FrameworkOpBytes(const KernelView& view) {
  std::string_view name = BareOpName(view.framework_op);
  if (view.signature.inputs.empty()) {
    return std::nullopt;
  }
  // What FlashAttention launches besides its products: the sum of output times its gradient; the
  // conversion of the gradient of queries from fp32 to 16 bits, or of the output if the keys were
  // split.
  if (Contains(view.kernel, "dot_do_o")) {
    return 2 * BytesOfInputs(view.signature).largest;
  }
  if (Contains(view.kernel, "convert_dq") || Contains(view.kernel, "splitkv_combine")) {
    return 3 * BytesOfInputs(view.signature).largest;
  }
  if (view.framework_op.starts_with("fused::")) {
    return BytesOfInputs(view.signature).sum;
  }
  if (Contains(name, "layer_norm") || Contains(name, "rms_norm")) {
    return NormalisationBytes(view, Contains(name, "backward"));
  }
  if (Contains(name, "batch_norm")) {
    return BatchNormBytes(view);
  }
  if (name == "embedding" || name == "index_select" || name == "index") {
    return EmbeddingBytes(view.signature);
  }
  const bool picks = name == "gather" || name == "scatter_add" || name == "scatter";
  if (picks && view.signature.inputs.size() > 1) {
    return PickedBytes(view);
  }
  if (name == "embedding_dense_backward") {
    return EmbeddingGradientBytes(view);
  }
  const auto* rule = std::ranges::lower_bound(kOpRules, name, {}, &OpRule::name);
  if (rule == kOpRules.end() || rule->name != name) {
    return std::nullopt;
  }
  InputBytes inputs = BytesOfInputs(view.signature);
  return (rule->reads * inputs.sum + rule->writes * inputs.largest) / IndexedParts(name, inputs);
}

namespace {

double Threads(const graph::KernelSignature& signature) {
  double threads = 1;
  for (size_t i = 0; i < 3; ++i) {
    threads *= std::max<double>(1, signature.grid[i]);
    threads *= std::max<double>(1, signature.block[i]);
  }
  return threads;
}

// Bytes of kernels that torch.compile generates: their inputs are those of the whole compiled
// region, of which each touches only a part. A thread has 8 elements of a pointwise kernel, of 2
// bytes read and written (1,024 per block of 128 threads), and 32 of a reduced row (1,024 per
// warp), of 4: the block sizes that torch/_inductor/runtime/triton_heuristics.py chooses. A row
// that is processed in a loop is longer; its launch does not say by how much.
std::optional<double> InductorBytes(const KernelView& view) {
  if (view.kernel.starts_with("triton_poi_")) {
    return Threads(view.signature) * 8 * 4;
  }
  if (view.kernel.starts_with("triton_per_") || view.kernel.starts_with("triton_red_")) {
    return Threads(view.signature) * 32 * 8;
  }
  return std::nullopt;
}

}  // namespace

double DefaultBytes(const KernelView& view) {
  if (const std::optional<double> bytes = InductorBytes(view)) {
    return *bytes;
  }
  InputBytes inputs = BytesOfInputs(view.signature);
  if (inputs.sum > 0) {
    return inputs.sum + inputs.largest;
  }
  // Elementwise kernels process four elements per thread, and read and write four bytes of each.
  return Threads(view.signature) * 4 * 8;
}

}  // namespace prism::replayer
