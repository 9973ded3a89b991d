#include "replayer/cost/kernel_rules.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

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
    {"bernoulli", 0, 1},
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
    {"exponential", 0, 1},
    {"fill", 0, 1},
    {"floor_divide", 1, 1},
    {"ge", 1, 0.5},
    {"gelu", 1, 1},
    {"gelu_backward", 1, 1},
    {"gt", 1, 0.5},
    {"histc", 1, 0},
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
    {"nll_loss_backward", 0.01, 0},  // an element a row of what another kernel has zeroed
    {"nll_loss_forward", 0.01, 0},
    {"norm", 1, 0},
    {"normal", 0, 1},
    {"ones_like", 0, 1},
    {"pow", 1, 1},
    {"random", 0, 1},
    {"reciprocal", 1, 1},
    {"relu", 1, 1},
    {"rsqrt", 1, 1},
    {"rsub", 1, 1},
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
    {"upsample_bicubic2d", 1, 0},  // its output is listed behind its input (observer.cc)
    {"upsample_bilinear2d", 1, 0},
    {"upsample_linear1d", 1, 0},
    {"upsample_nearest1d", 1, 0},
    {"upsample_nearest2d", 1, 0},
    {"upsample_nearest3d", 1, 0},
    {"upsample_trilinear3d", 1, 0},
    {"where", 1, 1},
    {"zero", 0, 1},
});

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

// Of an elementwise kernel that has these inputs: shapes that it broadcasts against each other, of
// the largest one's type. 0 if they do not go together.
double OutputBytes(const graph::KernelSignature& signature) {
  std::vector<int64_t> dims;
  for (const graph::TensorShape& input : signature.inputs) {
    dims.insert(dims.begin(), input.dims.size() - std::min(dims.size(), input.dims.size()), 1);
    auto whole = dims.rbegin();
    for (auto own = input.dims.rbegin(); own != input.dims.rend(); ++own, ++whole) {
      if (*own != *whole && *own != 1 && *whole != 1) {
        return 0;
      }
      *whole = *whole == 1 ? *own : *whole;
    }
  }
  const auto largest = std::ranges::max_element(signature.inputs, {},
                                                [](const auto& input) { return input.Bytes(); });
  return std::accumulate(dims.begin(), dims.end(),
                         static_cast<double>(DataTypeBytes(largest->dtype)), std::multiplies<>());
}

// Batch normalisation reads its input once for the statistics and once to apply them; libtorch's
// own has a kernel for each, also backward.
double BatchNormBytes(const KernelView& view) {
  const InputBytes bytes = BytesOfInputs(view.signature);
  if (Contains(view.kernel, "collect_statistics") || Contains(view.kernel, "backward_reduce")) {
    return bytes.sum;
  }
  const bool applies =
      Contains(view.kernel, "transform_input") || Contains(view.kernel, "backward_elemt");
  return bytes.sum + (applies ? 1 : 2) * bytes.largest;
}

// Layer and RMS normalisation. The backward op launches one kernel for the input's gradient (reads
// the output's gradient and the input, writes the input's gradient) and others for weight and bias,
// which only read.
double NormalisationBytes(const KernelView& view, bool backward) {
  InputBytes bytes = BytesOfInputs(view.signature);
  bool weights = Contains(view.kernel, "GammaBeta") || Contains(view.kernel, "gamma_beta");
  return backward && weights ? bytes.sum : bytes.sum + bytes.largest;
}

// Ops on the rows or elements of inputs[0] that an index picks: what counts is how many are picked,
// not how large the table is.
enum class Picks : uint8_t {
  kElements,  // index: that of each element, expanded to the output's shape without being stored
  kRows,      // index: a row for each of its numbers
  kSource,    // as many elements as inputs[2] has
  kBags,      // rows, of which only sums are written: one per bag in inputs[2]
  kGradientRows,  // inputs[0] is the gradient of picked rows
};

struct IndexRule {
  std::string_view name;  // as in kOpRules
  Picks picks;
  double accesses;  // of each picked element: read here and written there; one more to add to it
};

constexpr auto kIndexRules = std::to_array<IndexRule>({
    {"_embedding_bag", Picks::kBags, 1},
    {"_embedding_bag_dense_backward", Picks::kGradientRows, 2},
    {"_embedding_bag_forward_only", Picks::kBags, 1},
    {"_index_put_impl", Picks::kSource, 2},
    {"embedding", Picks::kRows, 2},
    {"embedding_dense_backward", Picks::kGradientRows, 2},
    {"gather", Picks::kElements, 2},
    {"index", Picks::kRows, 2},
    {"index_add", Picks::kSource, 3},
    {"index_copy", Picks::kSource, 2},
    {"index_fill", Picks::kRows, 1},
    {"index_put", Picks::kSource, 2},
    {"index_reduce", Picks::kSource, 3},
    {"index_select", Picks::kRows, 2},
    {"put", Picks::kElements, 2},
    {"scatter", Picks::kElements, 2},
    {"scatter_add", Picks::kElements, 3},
    {"scatter_reduce", Picks::kElements, 3},
    {"take", Picks::kElements, 2},
});

template <typename Rules>
const typename Rules::value_type* FindRule(const Rules& rules, std::string_view name) {
  const auto* rule = std::ranges::lower_bound(rules, name, {}, &Rules::value_type::name);
  return rule == rules.end() || rule->name != name ? nullptr : rule;
}

double Threads(const graph::KernelSignature& signature) {
  double threads = 1;
  for (size_t i = 0; i < 3; ++i) {
    threads *= std::max<double>(1, signature.grid[i]);
    threads *= std::max<double>(1, signature.block[i]);
  }
  return threads;
}

// Elements of a row of inputs[0], whose first dimensions are indexed by one tensor each.
double RowElements(const IndexRule& rule, const std::vector<graph::TensorShape>& inputs) {
  const std::vector<int64_t>& dims = inputs[0].dims;
  const size_t indexed = rule.name == "index" ? inputs.size() - 1 : 1;
  double elements = 1;
  for (size_t i = rule.picks == Picks::kRows ? indexed : dims.size() - 1; i < dims.size(); ++i) {
    elements *= static_cast<double>(dims[i]);
  }
  return elements;
}

double PickedElements(const IndexRule& rule, const KernelView& view) {
  const std::vector<graph::TensorShape>& inputs = view.signature.inputs;
  if (Contains(view.kernel, "index_elementwise_kernel")) {
    return Threads(view.signature) * 4;  // launched for as many elements; index may be a mask
  }
  if (rule.picks == Picks::kSource && inputs.size() > 2) {
    return static_cast<double>(inputs.back().ElementCount());
  }
  const auto indices = static_cast<double>(inputs[1].ElementCount());
  return rule.picks == Picks::kElements ? indices : indices * RowElements(rule, inputs);
}

double IndexedBytes(const IndexRule& rule, const KernelView& view) {
  const std::vector<graph::TensorShape>& inputs = view.signature.inputs;
  // Above some thousand indices libtorch sorts them before it adds to rows; only the last kernels
  // touch rows.
  for (std::string_view sorting :
       {"DeviceRadixSort", "DeviceUnique", "DeviceScan", "DeviceCompact", "partial"}) {
    if (Contains(view.kernel, sorting)) {
      return 2 * static_cast<double>(inputs[1].Bytes());
    }
  }
  const auto element = static_cast<double>(DataTypeBytes(inputs[0].dtype));
  const double picked = PickedElements(rule, view);
  const bool adds = Contains(view.kernel, "indexing_backward");  // index_put to accumulate
  double bytes =
      static_cast<double>(inputs[1].Bytes()) + picked * element * (adds ? 3 : rule.accesses);
  if (Contains(view.kernel, "vectorized_gather") && rule.picks == Picks::kElements) {
    // One index per row.
    bytes -= static_cast<double>(inputs[1].Bytes()) * (1 - 1 / RowElements(rule, inputs));
  }
  if (rule.picks == Picks::kBags && inputs.size() > 2) {
    const auto bags = static_cast<double>(inputs[2].ElementCount());
    bytes += bags * RowElements(rule, inputs) * element;
  }
  return bytes;
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

// How often a kernel over lists of tensors accesses each element. "NameFunctor<float, LISTS, READ,
// RESULT>" of torch's foreach ops reads so many lists and writes one (a norm none);
// "FusedNameFunctor<float, LISTS...>" of an optimizer writes all but the gradients.
double ListAccesses(std::string_view kernel) {
  if (Contains(kernel, "Adam")) {
    return 7;  // parameter, gradient and two moments
  }
  if (Contains(kernel, "Norm")) {
    return 1;
  }
  const size_t begin = kernel.find("Functor<");
  if (begin == std::string_view::npos) {
    return 2;
  }
  const std::string_view arguments = kernel.substr(begin, kernel.find('>', begin) - begin);
  const auto number = [&](size_t comma) {
    return arguments[comma + 2] >= '1' && arguments[comma + 2] <= '9' ? arguments[comma + 2] - '0'
                                                                      : 1;
  };
  const size_t last = arguments.rfind(", ");
  if (last == std::string_view::npos) {
    return 2;
  }
  if (Contains(kernel, "FusedSgd")) {
    return 2 * number(last) - 1;
  }
  const size_t before = arguments.rfind(", ", last - 1);
  return before == std::string_view::npos ? 2 : 1 + number(before);
}

// What the threads of an elementwise kernel can touch: at most 16 elements each. Small ones among
// the kernels of a larger op keep its statistics.
double MostBytes(const KernelView& view) {
  constexpr double kPerThread = 16;
  const std::string_view name = view.kernel.substr(0, view.kernel.find('<'));
  const bool elementwise = name.ends_with("elementwise_kernel") ||
                           name.ends_with("elementwise_kernel_for_multi_outputs");
  if (!elementwise || name.ends_with("index_elementwise_kernel") || view.signature.grid[0] == 0) {
    return std::numeric_limits<double>::infinity();
  }
  double element = 8;  // of an output
  for (const graph::TensorShape& input : view.signature.inputs) {
    element += static_cast<double>(DataTypeBytes(input.dtype));
  }
  return Threads(view.signature) * kPerThread * element;
}

// Kernels beside those that read an op's tensors: they count, and are as large as their launch.
bool KeepsCount(const KernelView& view) {
  const auto named = [&](std::string_view part) { return Contains(view.kernel, part); };
  return named("batch_norm_calc_invstd") || named("DeviceCompactInit") || named("DeviceScanInit") ||
         named("SingleTileKernel") || named("ScanByKey") || named("FusedParamsCUDAKernel") ||
         named("philox::unpack") ||
         (named("GammaBetaBackward") && Contains(view.framework_op, "group_norm")) ||
         (named("mbtopk::") && !named("computeBlockDigitCounts") && !named("gatherTopK")) ||
         (view.framework_op == "aten::topk" && named("SortKVInPlace"));
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
  double bytes = blocks * kChunk * element * ListAccesses(view.kernel);
  return inputs.sum > 0 ? std::min(bytes, 2 * inputs.sum) : bytes;
}

std::optional<double> FrameworkOpBytes(const KernelView& view) {
  std::string_view name = BareOpName(view.framework_op);
  if (view.signature.inputs.empty()) {
    return std::nullopt;
  }
  // What FlashAttention launches besides its products: the sum of output times its gradient; the
  // conversion of the gradient of queries from fp32 to 16 bits; the sum of outputs if the keys were
  // split.
  if (Contains(view.kernel, "dot_do_o") || Contains(view.kernel, "reprocess")) {
    return 2 * BytesOfInputs(view.signature).largest;
  }
  if (Contains(view.kernel, "convert_dq")) {
    return 3 * BytesOfInputs(view.signature).largest;
  }
  if (Contains(view.kernel, "splitkv_combine")) {
    return 3 * static_cast<double>(view.signature.inputs[0].Bytes());  // as large as the queries
  }
  if (KeepsCount(view)) {
    return Threads(view.signature) * 4 * 8;
  }
  if (view.framework_op.starts_with("fused::")) {
    return BytesOfInputs(view.signature).sum;
  }
  if (Contains(name, "layer_norm") || Contains(name, "rms_norm")) {
    return NormalisationBytes(view, Contains(name, "backward"));
  }
  if (Contains(name, "batch_norm")) {
    return std::min(BatchNormBytes(view), MostBytes(view));
  }
  const IndexRule* const indexed = FindRule(kIndexRules, name);
  if (indexed != nullptr && view.signature.inputs.size() > 1 &&
      !view.signature.inputs[0].dims.empty()) {
    return IndexedBytes(*indexed, view);
  }
  InputBytes inputs = BytesOfInputs(view.signature);
  if (Contains(view.kernel, "reduce_kernel<") || Contains(view.kernel, "reduction_prod_kernel") ||
      Contains(view.kernel, "RowwiseMoments") || Contains(view.kernel, "InternalGradients")) {
    return inputs.sum / IndexedParts(name, inputs);
  }
  if (Contains(view.kernel, "im2col_kernel") || Contains(view.kernel, "col2im_kernel")) {
    // Of one image of the batch; a thread moves the elements of a window, as of 3 x 3.
    constexpr double kWindow = 9;
    return Threads(view.signature) * (1 + kWindow) *
           static_cast<double>(DataTypeBytes(view.signature.inputs[0].dtype));
  }
  const OpRule* const rule = FindRule(kOpRules, name);
  if (rule == nullptr) {
    return std::nullopt;
  }
  if (Contains(view.kernel, "elementwise_kernel")) {
    inputs.largest = std::max(inputs.largest, OutputBytes(view.signature));
  }
  const double bytes = rule->reads * inputs.sum + rule->writes * inputs.largest;
  return std::min(bytes / IndexedParts(name, inputs), MostBytes(view));
}

namespace {

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
  if (inputs.sum > 0 && view.signature.grid[0] == 0) {
    return inputs.sum + inputs.largest;
  }
  if (inputs.sum > 0) {
    // More threads than elements have something to do, too: one element each.
    const double least = Threads(view.signature) *
                         static_cast<double>(DataTypeBytes(view.signature.inputs[0].dtype));
    const double written = std::max(inputs.largest, OutputBytes(view.signature));
    return std::min(std::max(inputs.sum + written, least), MostBytes(view));
  }
  // Elementwise kernels process four elements per thread, and read and write four bytes of each.
  return Threads(view.signature) * 4 * 8;
}

}  // namespace prism::replayer
