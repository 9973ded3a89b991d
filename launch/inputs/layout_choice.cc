#include "launch/inputs/layout_choice.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "graph/describe.h"

namespace prism::launch {
namespace {

// Fraction of device memory that model states, activations and logits may take in a layout that we
// choose; the rest is for NCCL, the context and fragmentation.
constexpr double kMemoryShare = 0.75;

// Bytes a parameter: bf16 weight, which ZeRO 3 spreads over dp, fp32 gradient, which ZeRO 2 does,
// fp32 master weight and two moments, which ZeRO 1 does.
constexpr double kWeightBytes = 2;
constexpr double kGradientBytes = 4;
constexpr double kOptimizerBytes = 4 + 4 + 4;

// With ZeRO 3, of every parameter of the largest unit (a layer, or the embedding) in its backward
// pass: its gathered weight and that of the unit that is on its way, its gradient and that of the
// unit before, on its way to the shards.
constexpr double kUnitBytes = 2 * (2 + 4);

// Bytes of activations that a token leaves in a layer for the backward pass, bf16, flash attention,
// no dropout (Korthikanti et al. 2022, section 4, without masks and attention matrix): 16 for every
// hidden unit, and 2 for each of the feed-forward tensors kept (two in a GPT block, four with
// SwiGLU). With full recompute only the layer's input stays.
constexpr double kHiddenBytes = 16;
constexpr double kFfnTensorsGpt = 2;
constexpr double kFfnTensorsLlama = 4;

// Hidden states of every row that an expert works on, on the way to the expert and back: gathered,
// received, sorted by expert, and the same three on the way back.
constexpr double kExpertRowBytes = 6 * 2;
constexpr double kLogitBytes = 2 + 4 + 4;  // bf16 logits, fp32 copy and gradient

std::string DivisorsText(int64_t number, int64_t highest) {
  std::vector<std::string> divisors;
  for (int64_t d = 1; d <= std::min(number, highest); ++d) {
    if (number % d == 0) {
      divisors.push_back(fmt::format("{}", d));
    }
  }
  return fmt::format("{}", fmt::join(divisors, ", "));
}

Status CheckTp(const graph::ModelSpec& model, int32_t tp, int32_t gpus_per_node) {
  const auto refuse = [&](const char* what, int64_t count) {
    return InvalidArgument(fmt::format("--tp {} does not divide the {} {} of {}; use one of {}", tp,
                                       count, what, model.name,
                                       DivisorsText(model.kv_heads, gpus_per_node)));
  };
  if (model.heads % tp != 0) {
    return refuse("attention heads", model.heads);
  }
  if (model.kv_heads % tp != 0) {
    return refuse("key-value heads", model.kv_heads);
  }
  if (model.ffn % tp != 0) {
    return refuse("feed-forward columns", model.ffn);
  }
  if (model.moe.expert_ffn % tp != 0) {
    return refuse("columns of an expert", model.moe.expert_ffn);
  }
  if (model.moe.shared_expert_ffn % tp != 0) {
    return refuse("columns of the shared expert", model.moe.shared_expert_ffn);
  }
  return OkStatus();
}

Status CheckPp(const graph::ModelSpec& model, int32_t pp, int32_t vpp) {
  if (vpp > 1 && pp == 1) {
    return InvalidArgument(
        fmt::format("--vpp {} needs a pipeline; use --pp 2 or more, or leave --vpp out", vpp));
  }
  if (graph::LayersDivide(model.layers, int64_t{pp} * vpp)) {
    return OkStatus();
  }
  return InvalidArgument(
      fmt::format("--pp {} × --vpp {} divides neither the {} layers of {} nor that number plus "
                  "two; use a product among {}",
                  pp, vpp, model.layers, model.name, DivisorsText(model.layers, model.layers)));
}

bool AnyPpAllows(const graph::ModelSpec& model, int32_t vpp) {
  for (int32_t pp = 1; pp <= model.layers; ++pp) {
    if (CheckPp(model, pp, vpp).ok()) {
      return true;
    }
  }
  return false;
}

// For a layout whose pp is open.
Status CheckVpp(const graph::ModelSpec& model, int32_t vpp) {
  if (AnyPpAllows(model, vpp)) {
    return OkStatus();
  }
  std::vector<int32_t> allowed;
  for (int32_t other = 1; other <= model.layers; ++other) {
    if (AnyPpAllows(model, other)) {
      allowed.push_back(other);
    }
  }
  return InvalidArgument(
      fmt::format("--vpp {} × no --pp divides the {} layers of {} or that number plus two; use one "
                  "of {}",
                  vpp, model.layers, model.name, fmt::join(allowed, ", ")));
}

// The attention heads of a tp rank are exchanged for parts of the sequence.
Status CheckCp(const graph::ModelSpec& model, int64_t seq_len, const Layout& layout) {
  const int64_t heads = model.kv_heads / layout.tp;
  if (heads % layout.cp != 0) {
    return InvalidArgument(fmt::format(
        "--cp {} does not divide the {} key-value heads of a rank with tp {}; use one of {}",
        layout.cp, heads, layout.tp, DivisorsText(heads, heads)));
  }
  if (seq_len % layout.cp != 0) {
    return InvalidArgument(
        fmt::format("--cp {} does not divide the sequence of {} tokens; change --cp or --seq-len",
                    layout.cp, seq_len));
  }
  return OkStatus();
}

// Experts are divided over ep ranks of `dp`.
Status CheckEp(const graph::ModelSpec& model, int32_t ep, int64_t dp) {
  if (ep > 1 && model.moe.experts == 0) {
    return InvalidArgument(
        fmt::format("--ep {}: {} has no experts; leave --ep out", ep, model.name));
  }
  if (ep > 1 && model.moe.experts % ep != 0) {
    return InvalidArgument(fmt::format(
        "--ep {} does not divide the {} experts of {}; use one of {}", ep, model.moe.experts,
        model.name, DivisorsText(model.moe.experts, model.moe.experts)));
  }
  if (dp % ep != 0) {
    return InvalidArgument(
        fmt::format("--ep {} does not divide dp {}, and expert groups lie inside data-parallel "
                    "groups; change --ep or the layout",
                    ep, dp));
  }
  return OkStatus();
}

// Weights of the routed experts of all layers.
double ExpertWeights(const graph::ModelSpec& model) {
  graph::ModelSpec without = model;
  without.moe.expert_ffn = 0;
  return static_cast<double>(graph::ModelParameters(model) - graph::ModelParameters(without));
}

double StateBytes(const graph::ModelSpec& model,
                  const Layout& layout,
                  int64_t replicas,
                  int32_t zero) {
  const double embedding = static_cast<double>(model.vocab) * static_cast<double>(model.hidden);
  const double all = static_cast<double>(graph::ModelParameters(model));
  const double matrices = model.tied_embeddings ? embedding : 2 * embedding;
  const double experts = ExpertWeights(model);
  const double dense = ((all - matrices - experts) / layout.pp + embedding) / layout.tp;
  const double local_experts = experts / layout.pp / layout.tp / layout.ep;
  const auto bytes = [zero](int64_t copies) {
    const auto kept = [&](double each, int32_t from_stage) {
      return zero >= from_stage ? each / static_cast<double>(copies) : each;
    };
    return kept(kWeightBytes, 3) + kept(kGradientBytes, 2) + kept(kOptimizerBytes, 1);
  };
  const double layer = (all - matrices) / static_cast<double>(model.layers);
  const double gathered = zero == 3 ? kUnitBytes * std::max(layer, embedding) / layout.tp : 0;
  return dense * bytes(replicas) + local_experts * bytes(replicas / layout.ep) + gathered;
}

// Activations of the first stage with its pp micro-batches in flight, or of the last with its
// logits, whichever is more.
double ActivationBytes(const graph::JobSpec& job, const Layout& layout) {
  const graph::ModelSpec& model = job.model;
  const double tokens = static_cast<double>(job.seq_len / layout.cp * job.micro_batch_size);
  const double hidden = static_cast<double>(model.hidden);
  const double ffn_tensors =
      model.block == graph::BlockKind::kLlama ? kFfnTensorsLlama : kFfnTensorsGpt;
  const auto topk = static_cast<double>(model.moe.topk);
  const double ffn = model.moe.experts > 0 ? topk * static_cast<double>(model.moe.expert_ffn) +
                                                 static_cast<double>(model.moe.shared_expert_ffn)
                                           : static_cast<double>(model.ffn);
  const double layer =
      job.recompute == graph::Recompute::kFull
          ? 2 * hidden
          : (kHiddenBytes + topk * kExpertRowBytes) * hidden + 2 * ffn_tensors * ffn;
  const double stage = tokens * layer * static_cast<double>(model.layers) / layout.pp / layout.tp;
  const double logits = tokens * static_cast<double>(model.vocab) * kLogitBytes / layout.tp;
  return std::max(stage * layout.pp, stage + logits) + (layout.pp == 1 ? logits : 0);
}

class LayoutChooser {
 public:
  LayoutChooser(const Options& options,
                const ModelPreset& preset,
                const graph::ClusterSpec& cluster)
      : options_(options), preset_(preset), cluster_(cluster) {}

  Result<LayoutChoice> Choose() const {
    const int32_t ep = options_.ep.value_or(1);
    PRISM_RETURN_IF_ERROR(CheckEp(preset_.model, ep, ep));
    if (options_.tp) {
      PRISM_RETURN_IF_ERROR(CheckTp(preset_.model, *options_.tp, cluster_.gpus_per_node));
    }
    if (options_.pp) {
      PRISM_RETURN_IF_ERROR(CheckPp(preset_.model, *options_.pp, vpp()));
    } else if (options_.vpp) {
      PRISM_RETURN_IF_ERROR(CheckVpp(preset_.model, *options_.vpp));
    }
    // What no tp allows is reported before searching for a layout.
    PRISM_RETURN_IF_ERROR(CheckCp(preset_.model, seq_len(), {options_.tp.value_or(1), 1, cp(), 1}));
    if (options_.tp && options_.pp) {
      const Layout given = Of(*options_.tp, *options_.pp);
      PRISM_RETURN_IF_ERROR(CheckProduct(options_.target_gpus, given));
      PRISM_RETURN_IF_ERROR(CheckCp(preset_.model, seq_len(), given));
      PRISM_RETURN_IF_ERROR(
          CheckEp(preset_.model, given.ep, options_.target_gpus / given.product()));
      return LayoutChoice{given, "given"};
    }
    const LayoutPreset& usual = preset_.layout;
    if (usual.tp && usual.pp && Allows(Of(*usual.tp, *usual.pp))) {
      return LayoutChoice{Of(*usual.tp, *usual.pp), "preset"};
    }
    return ChooseSmallest();
  }

 private:
  [[nodiscard]] int32_t vpp() const { return options_.vpp.value_or(preset_.layout.vpp); }
  [[nodiscard]] int32_t cp() const { return options_.cp.value_or(1); }
  [[nodiscard]] int64_t seq_len() const { return options_.seq_len.value_or(preset_.model.seq_len); }
  [[nodiscard]] int32_t zero() const { return options_.zero.value_or(preset_.layout.zero); }

  // The layout with ep as given, else as much of the preset's as divides the replicas.
  [[nodiscard]] Layout Of(int32_t tp, int32_t pp) const {
    Layout layout = {tp, pp, cp()};
    const int64_t replicas = options_.target_gpus / layout.product();
    layout.ep =
        options_.ep.value_or(static_cast<int32_t>(std::gcd<int64_t>(preset_.layout.ep, replicas)));
    return layout;
  }

  // Whether everything divides and agrees with what the user specified.
  [[nodiscard]] bool Allows(const Layout& layout) const {
    const int64_t product = layout.product();
    if (options_.target_gpus % product != 0) {
      return false;
    }
    const bool agrees = options_.tp.value_or(layout.tp) == layout.tp &&
                        options_.pp.value_or(layout.pp) == layout.pp &&
                        (!options_.dp || options_.target_gpus / product == *options_.dp);
    return agrees && CheckTp(preset_.model, layout.tp, cluster_.gpus_per_node).ok() &&
           CheckPp(preset_.model, layout.pp, vpp()).ok() &&
           CheckCp(preset_.model, seq_len(), layout).ok() &&
           CheckEp(preset_.model, layout.ep, options_.target_gpus / product).ok();
  }

  [[nodiscard]] std::vector<Layout> Candidates() const {
    std::vector<Layout> layouts;
    const int32_t tp_max = std::max(cluster_.gpus_per_node, options_.tp.value_or(1));
    for (int32_t tp = 1; tp <= tp_max; ++tp) {
      for (int32_t pp = 1; pp <= preset_.model.layers; ++pp) {
        if (Allows(Of(tp, pp))) {
          layouts.push_back(Of(tp, pp));
        }
      }
    }
    std::sort(layouts.begin(), layouts.end(), [](const Layout& a, const Layout& b) {
      const int64_t left = int64_t{a.tp} * a.pp;
      const int64_t right = int64_t{b.tp} * b.pp;
      return left != right ? left < right : a.tp > b.tp;
    });
    return layouts;
  }

  [[nodiscard]] Result<LayoutChoice> ChooseSmallest() const {
    const double room = kMemoryShare * static_cast<double>(cluster_.gpu.memory_bytes);
    const std::vector<Layout> candidates = Candidates();
    for (const Layout& layout : candidates) {
      const double bytes = EstimatedBytes(layout);
      if (bytes <= room) {
        return LayoutChoice{
            layout,
            fmt::format("chosen to fit: states and activations take about {:.0f} % of {}'s memory",
                        100 * bytes / static_cast<double>(cluster_.gpu.memory_bytes),
                        cluster_.gpu.name)};
      }
    }
    if (IsOnlyVppInTheWay()) {
      return InvalidArgument(fmt::format(
          "no layout of {}{} divides {} ({} layers) and fits into {:.0f} % of {}'s memory; use "
          "another --vpp, or leave it out",
          FormatCounted(options_.target_gpus, "GPU"), GivenDegrees(), preset_.model.name,
          preset_.model.layers, 100 * kMemoryShare, cluster_.gpu.name));
    }
    if (candidates.empty()) {
      return InvalidArgument(fmt::format(
          "no layout of {} divides {} ({} layers, {} heads){}; use another --target-gpus",
          FormatCounted(options_.target_gpus, "GPU"), preset_.model.name, preset_.model.layers,
          preset_.model.heads, GivenDegrees()));
    }
    return InvalidArgument(
        fmt::format("no layout of {} fits {} into {:.0f} % of {}'s memory; use more GPUs, or set "
                    "--tp and --pp to run it anyway",
                    FormatCounted(options_.target_gpus, "GPU"), preset_.model.name,
                    100 * kMemoryShare, cluster_.gpu.name));
  }

  // Whether a layout is found without interleaving.
  [[nodiscard]] bool IsOnlyVppInTheWay() const {
    Options others = options_;
    others.vpp = 1;
    return vpp() > 1 && LayoutChooser(others, preset_, cluster_).ChooseSmallest().ok();
  }

  // " with --tp 3 --dp 4": the given degrees that leave no choice.
  [[nodiscard]] std::string GivenDegrees() const {
    std::string given;
    const std::optional<int32_t> chunks = vpp() > 1 ? options_.vpp : std::nullopt;
    for (const auto& [flag, degree] :
         {std::pair("tp", options_.tp), std::pair("pp", options_.pp), std::pair("dp", options_.dp),
          std::pair("cp", options_.cp), std::pair("ep", options_.ep), std::pair("vpp", chunks)}) {
      given += degree ? fmt::format(" --{} {}", flag, *degree) : "";
    }
    return given.empty() ? given : " with" + given;
  }

  // For the fullest rank; only for choosing a layout, since the run measures memory.
  [[nodiscard]] double EstimatedBytes(const Layout& layout) const {
    graph::JobSpec job;
    job.model = preset_.model;
    job.seq_len = seq_len();
    job.micro_batch_size = options_.micro_batch_size.value_or(preset_.layout.micro_batch_size);
    job.recompute = options_.recompute.value_or(preset_.layout.recompute);
    const int64_t replicas = options_.target_gpus / (int64_t{layout.tp} * layout.pp);
    return StateBytes(preset_.model, layout, replicas, zero()) + ActivationBytes(job, layout);
  }

  const Options& options_;
  const ModelPreset& preset_;
  const graph::ClusterSpec& cluster_;
};

}  // namespace

Status CheckProduct(int32_t gpus, const Layout& layout) {
  const int64_t product = layout.product();
  if (gpus % product == 0) {
    return OkStatus();
  }
  const int64_t below = gpus / product * product;
  return InvalidArgument(fmt::format(
      "--target-gpus {} is not a multiple of tp {}{} × pp {} = {}; use {}{} or another layout",
      gpus, layout.tp, graph::ContextText(layout.cp), layout.pp, product,
      below > 0 ? fmt::format("{}, ", below) : std::string(), below + product));
}

Result<LayoutChoice> ChooseLayout(const Options& options,
                                  const ModelPreset& preset,
                                  const graph::ClusterSpec& cluster) {
  return LayoutChooser(options, preset, cluster).Choose();
}

}  // namespace prism::launch
