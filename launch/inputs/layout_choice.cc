#include "launch/inputs/layout_choice.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "graph/describe.h"
#include "graph/job/training_style.h"
#include "replayer/memory/device_memory.h"

namespace prism::launch {
namespace {

// Fraction of device memory that the caching allocator of a rank may reserve in a layout that we
// choose; the rest is for NCCL and the context, and what a program allocates in addition.
constexpr double kMemoryShare = 0.75;
// Where no layout leaves that much free: the fullest rank's forecast, which is within a tenth.
constexpr double kTightShare = 0.9;

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

class LayoutChooser {
 public:
  LayoutChooser(const Options& options,
                const ModelPreset& preset,
                const graph::ClusterSpec& cluster,
                const JobOfLayout& job_of)
      : options_(options), preset_(preset), cluster_(cluster), job_of_(job_of) {}

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
    const std::vector<Layout> candidates = Candidates();
    std::optional<LayoutChoice> tight;
    double least = kTightShare;
    for (const Layout& layout : candidates) {
      const Result<replayer::FullestRank> fullest =
          replayer::FullestRankOf(cluster_, job_of_(options_, layout), graph::TrainingStyle{});
      const double share = fullest.ok() ? ShareOf(fullest->device_bytes) : 1;
      LayoutChoice choice = {layout, fmt::format("chosen to fit: about {:.0f} % of {}'s memory",
                                                 100 * share, cluster_.gpu.name)};
      if (fullest.ok() && ShareOf(fullest->reserved_bytes) <= kMemoryShare) {
        return choice;
      }
      if (share <= least) {
        least = share;
        tight = std::move(choice);
      }
    }
    if (tight) {
      return *std::move(tight);
    }
    if (IsOnlyVppInTheWay()) {
      return InvalidArgument(fmt::format(
          "no layout of {}{} divides {} ({} layers) and fits into {:.0f} % of {}'s memory; use "
          "another --vpp, or leave it out",
          FormatCounted(options_.target_gpus, "GPU"), GivenDegrees(), preset_.model.name,
          preset_.model.layers, 100 * kTightShare, cluster_.gpu.name));
    }
    if (candidates.empty()) {
      return InvalidArgument(fmt::format(
          "no layout of {} divides {} ({} layers, {} heads){}; use another --target-gpus{}",
          FormatCounted(options_.target_gpus, "GPU"), preset_.model.name, preset_.model.layers,
          preset_.model.heads, GivenDegrees(), GivenDegrees().empty() ? "" : ", or other degrees"));
    }
    return InvalidArgument(
        fmt::format("no layout of {} fits {} into {:.0f} % of {}'s memory; use more GPUs, or set "
                    "--tp and --pp to run it anyway",
                    FormatCounted(options_.target_gpus, "GPU"), preset_.model.name,
                    100 * kTightShare, cluster_.gpu.name));
  }

  // Whether a layout is found without interleaving.
  [[nodiscard]] bool IsOnlyVppInTheWay() const {
    Options others = options_;
    others.vpp = 1;
    return vpp() > 1 && LayoutChooser(others, preset_, cluster_, job_of_).ChooseSmallest().ok();
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

  // Of device memory.
  [[nodiscard]] double ShareOf(int64_t bytes) const {
    return static_cast<double>(bytes) / static_cast<double>(cluster_.gpu.memory_bytes);
  }

  const Options& options_;
  const ModelPreset& preset_;
  const graph::ClusterSpec& cluster_;
  const JobOfLayout& job_of_;
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
                                  const graph::ClusterSpec& cluster,
                                  const JobOfLayout& job_of) {
  return LayoutChooser(options, preset, cluster, job_of).Choose();
}

}  // namespace prism::launch
