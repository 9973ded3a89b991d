#include "launch/options/job_resolution.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace prism::launch {
namespace {

// Share of device memory that model states, activations and logits may take in a layout that we
// choose; the rest is for NCCL, the context and fragmentation.
constexpr double kMemoryShare = 0.75;

// Bytes a parameter: bf16 weight and fp32 gradient on every rank; fp32 master weight and two
// moments, which ZeRO 1 spreads over dp.
constexpr double kReplicatedBytes = 2 + 4;
constexpr double kOptimizerBytes = 4 + 4 + 4;

// Bytes of activations that a token leaves in a layer for the backward pass, bf16, flash attention,
// no dropout (Korthikanti et al. 2022, section 4, without masks and attention matrix): 16 for every
// hidden unit, and 2 for each of the feed-forward tensors kept (two in a GPT block, four with
// SwiGLU). With full recompute only the layer's input stays.
constexpr double kHiddenBytes = 16;
constexpr double kFfnTensorsGpt = 2;
constexpr double kFfnTensorsLlama = 4;
constexpr double kLogitBytes = 2 + 4 + 4;  // bf16 logits, fp32 copy and gradient

struct Layout {
  int32_t tp = 1;
  int32_t pp = 1;
};

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
  return OkStatus();
}

Status CheckPp(const graph::ModelSpec& model, int32_t pp, int32_t vpp) {
  if (graph::LayersDivide(model.layers, int64_t{pp} * vpp)) {
    return OkStatus();
  }
  return InvalidArgument(
      fmt::format("--pp {} × --vpp {} does not divide the {} layers of {}, nor these and two; "
                  "choose a product among {}",
                  pp, vpp, model.layers, model.name, DivisorsText(model.layers, model.layers)));
}

Status CheckGpus(const Options& options, const graph::ClusterSpec& cluster) {
  const int32_t gpus = options.target_gpus;
  if (gpus > cluster.gpus_per_node && gpus % cluster.gpus_per_node != 0) {
    const int32_t below = gpus - gpus % cluster.gpus_per_node;
    return InvalidArgument(fmt::format(
        "--target-gpus {} is no whole number of nodes of {} GPUs ({}); use {} or {}", gpus,
        cluster.gpus_per_node, cluster.name, below, below + cluster.gpus_per_node));
  }
  return OkStatus();
}

Status CheckProduct(int32_t gpus, const Layout& layout) {
  const int64_t product = int64_t{layout.tp} * layout.pp;
  if (gpus % product == 0) {
    return OkStatus();
  }
  const int64_t below = gpus / product * product;
  return InvalidArgument(fmt::format(
      "--target-gpus {} is no multiple of tp {} × pp {} = {}; use {}{} or another layout", gpus,
      layout.tp, layout.pp, product, below > 0 ? fmt::format("{}, ", below) : std::string(),
      below + product));
}

// `sizes` follow from --target-gpus; a --dp has to agree.
Status CheckDp(const Options& options, const graph::ParallelSizes& sizes) {
  if (!options.dp || *options.dp == sizes.dp) {
    return OkStatus();
  }
  return InvalidArgument(
      fmt::format("--dp {} × tp {} × pp {} is not --target-gpus {}; leave --dp "
                  "out or change one of them",
                  *options.dp, sizes.tp, sizes.pp, options.target_gpus));
}

double StateBytes(const graph::ModelSpec& model, const Layout& layout, int32_t dp, int32_t zero) {
  const double embedding = static_cast<double>(model.vocab) * static_cast<double>(model.hidden);
  const double all = static_cast<double>(graph::ModelParameters(model));
  const double matrices = model.tied_embeddings ? embedding : 2 * embedding;
  const double parameters = ((all - matrices) / layout.pp + embedding) / layout.tp;
  return parameters * (kReplicatedBytes + kOptimizerBytes / (zero > 0 ? dp : 1));
}

// Activations of the first stage with its pp micro-batches in flight, or of the last with its
// logits, whichever is more.
double ActivationBytes(const graph::JobSpec& job, const Layout& layout) {
  const graph::ModelSpec& model = job.model;
  const double tokens = static_cast<double>(job.seq_len * job.micro_batch_size);
  const double hidden = static_cast<double>(model.hidden);
  const double ffn_tensors =
      model.block == graph::BlockKind::kLlama ? kFfnTensorsLlama : kFfnTensorsGpt;
  const double layer =
      job.recompute == graph::Recompute::kFull
          ? 2 * hidden
          : kHiddenBytes * hidden + 2 * ffn_tensors * static_cast<double>(model.ffn);
  const double stage = tokens * layer * static_cast<double>(model.layers) / layout.pp / layout.tp;
  const double logits = tokens * static_cast<double>(model.vocab) * kLogitBytes / layout.tp;
  return std::max(stage * layout.pp, stage + logits) + (layout.pp == 1 ? logits : 0);
}

struct Choice {
  Layout layout;
  std::string origin;
};

class LayoutChooser {
 public:
  LayoutChooser(const Options& options,
                const ModelPreset& preset,
                const graph::ClusterSpec& cluster)
      : options_(options), preset_(preset), cluster_(cluster) {}

  [[nodiscard]] int32_t vpp() const { return options_.vpp.value_or(preset_.layout.vpp); }
  [[nodiscard]] int32_t zero() const { return options_.zero.value_or(preset_.layout.zero); }

  Result<Choice> Choose() const {
    if (options_.tp) {
      PRISM_RETURN_IF_ERROR(CheckTp(preset_.model, *options_.tp, cluster_.gpus_per_node));
    }
    if (options_.pp) {
      PRISM_RETURN_IF_ERROR(CheckPp(preset_.model, *options_.pp, vpp()));
    }
    if (options_.tp && options_.pp) {
      const Layout given = {*options_.tp, *options_.pp};
      PRISM_RETURN_IF_ERROR(CheckProduct(options_.target_gpus, given));
      return Choice{given, "given"};
    }
    const LayoutPreset& usual = preset_.layout;
    if (usual.tp && usual.pp && Allows({*usual.tp, *usual.pp})) {
      return Choice{{*usual.tp, *usual.pp}, "preset"};
    }
    return ChooseSmallest();
  }

 private:
  // Everything divides and agrees with what the user said.
  [[nodiscard]] bool Allows(const Layout& layout) const {
    const int64_t product = int64_t{layout.tp} * layout.pp;
    if (options_.target_gpus % product != 0) {
      return false;
    }
    const bool agrees = options_.tp.value_or(layout.tp) == layout.tp &&
                        options_.pp.value_or(layout.pp) == layout.pp &&
                        (!options_.dp || options_.target_gpus / product == *options_.dp);
    return agrees && CheckTp(preset_.model, layout.tp, cluster_.gpus_per_node).ok() &&
           CheckPp(preset_.model, layout.pp, vpp()).ok();
  }

  [[nodiscard]] std::vector<Layout> Candidates() const {
    std::vector<Layout> layouts;
    const int32_t tp_max = std::max(cluster_.gpus_per_node, options_.tp.value_or(1));
    for (int32_t tp = 1; tp <= tp_max; ++tp) {
      for (int32_t pp = 1; pp <= preset_.model.layers; ++pp) {
        if (Allows({tp, pp})) {
          layouts.push_back({tp, pp});
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

  [[nodiscard]] Result<Choice> ChooseSmallest() const {
    const double room = kMemoryShare * static_cast<double>(cluster_.gpu.memory_bytes);
    const std::vector<Layout> candidates = Candidates();
    for (const Layout& layout : candidates) {
      const double bytes = EstimatedBytes(layout);
      if (bytes <= room) {
        return Choice{
            layout, fmt::format("chosen: states and activations take about {:.0f} % of {}'s memory",
                                100 * bytes / static_cast<double>(cluster_.gpu.memory_bytes),
                                cluster_.gpu.name)};
      }
    }
    if (candidates.empty()) {
      return InvalidArgument(fmt::format(
          "no layout of {} GPUs divides {} ({} layers, {} heads){}; choose another --target-gpus",
          options_.target_gpus, preset_.model.name, preset_.model.layers, preset_.model.heads,
          GivenDegrees()));
    }
    return InvalidArgument(fmt::format(
        "no layout of {} GPUs holds {} in {:.0f} % of {}'s memory; use more GPUs, or give --tp and "
        "--pp to try all the same",
        options_.target_gpus, preset_.model.name, 100 * kMemoryShare, cluster_.gpu.name));
  }

  // " with --tp 3 --dp 4": those that leave no choice.
  [[nodiscard]] std::string GivenDegrees() const {
    std::string given;
    for (const auto& [flag, degree] : {std::pair("tp", options_.tp), std::pair("pp", options_.pp),
                                       std::pair("dp", options_.dp)}) {
      given += degree ? fmt::format(" --{} {}", flag, *degree) : "";
    }
    return given.empty() ? given : " with" + given;
  }

  // Of the fullest rank, for choosing a layout only; the run measures.
  [[nodiscard]] double EstimatedBytes(const Layout& layout) const {
    graph::JobSpec job;
    job.model = preset_.model;
    job.seq_len = options_.seq_len.value_or(preset_.model.seq_len);
    job.micro_batch_size = options_.micro_batch_size.value_or(preset_.layout.micro_batch_size);
    job.recompute = options_.recompute.value_or(preset_.layout.recompute);
    const int32_t dp = options_.target_gpus / (layout.tp * layout.pp);
    return StateBytes(preset_.model, layout, dp, zero()) + ActivationBytes(job, layout);
  }

  const Options& options_;
  const ModelPreset& preset_;
  const graph::ClusterSpec& cluster_;
};

// Micro-batches of a rank for the preset's global batch, brought into a sensible range.
int64_t SensibleMicrobatches(const graph::JobSpec& job, int64_t preset_batch) {
  const int64_t pp = job.parallel.pp;
  const int64_t per_round = job.micro_batch_size * job.parallel.dp;
  int64_t count = std::clamp(preset_batch / per_round, pp, std::max<int64_t>(8 * pp, 32));
  if (job.parallel.vpp > 1) {
    count = std::max<int64_t>(count / pp, 1) * pp;
  }
  return count;
}

Status FillBatch(const Options& options, const ModelPreset& preset, graph::JobSpec* job) {
  job->micro_batch_size = options.micro_batch_size.value_or(preset.layout.micro_batch_size);
  const int64_t per_round = job->micro_batch_size * job->parallel.dp;
  if (!options.global_batch_size) {
    const int64_t usual = std::max<int64_t>(preset.layout.global_batch_size, 1);
    job->global_batch_size = SensibleMicrobatches(*job, usual) * per_round;
    return OkStatus();
  }
  job->global_batch_size = *options.global_batch_size;
  if (job->global_batch_size % per_round != 0) {
    const int64_t below = job->global_batch_size / per_round * per_round;
    return InvalidArgument(fmt::format(
        "--global-batch-size {} is no multiple of micro-batch {} × dp {} = {}; use {}{}",
        job->global_batch_size, job->micro_batch_size, job->parallel.dp, per_round,
        below > 0 ? fmt::format("{} or ", below) : std::string(), below + per_round));
  }
  if (job->parallel.vpp > 1 && job->microbatches() % job->parallel.pp != 0) {
    return InvalidArgument(
        fmt::format("interleaving needs micro-batches a rank ({}) that pp ({}) divides; change "
                    "--global-batch-size",
                    job->microbatches(), job->parallel.pp));
  }
  return OkStatus();
}

Status FillRest(const Options& options, const ModelPreset& preset, graph::JobSpec* job) {
  job->name = preset.model.name;
  job->model = preset.model;
  job->seq_len = options.seq_len.value_or(preset.model.seq_len);
  job->sequence_parallel = options.sequence_parallel.value_or(true) && job->parallel.tp > 1;
  job->recompute = options.recompute.value_or(preset.layout.recompute);
  job->seed = options.seed;
  if (job->parallel.vpp > 1 && job->parallel.pp == 1) {
    return InvalidArgument(fmt::format(
        "--vpp {} needs a pipeline (pp > 1); give --pp or leave --vpp out", job->parallel.vpp));
  }
  if (job->sequence_parallel && job->seq_len % job->parallel.tp != 0) {
    return InvalidArgument(
        fmt::format("--seq-len {} is no multiple of tp {}, which sequence parallelism needs; "
                    "change it or give --sequence-parallel off",
                    job->seq_len, job->parallel.tp));
  }
  return OkStatus();
}

std::string FileName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// What env is to start: "python" of "env NAME=VALUE python -u train.py". The end where nothing is.
size_t FirstWord(const std::vector<std::string>& program) {
  size_t first = 0;
  if (FileName(program[0]) == "env") {
    do {
      ++first;
    } while (first < program.size() && program[first].find('=') != std::string::npos);
  }
  return first;
}

// Where the program's own name is: the script or module of an interpreter, else the first word.
size_t NameWord(const std::vector<std::string>& program) {
  const size_t first = FirstWord(program);
  if (first == program.size() || !FileName(program[first]).starts_with("python")) {
    return first == program.size() ? 0 : first;
  }
  for (size_t i = first + 1; i < program.size(); ++i) {
    if (program[i] == "-m" && i + 1 < program.size()) {
      return i + 1;
    }
    if (!program[i].starts_with("-")) {
      return i;
    }
  }
  return first;
}

// Of "env NAME=VALUE python -u folder/train.py --steps 3" it is "train", of "python -m
// package.train" the module.
std::string ProgramName(const std::vector<std::string>& program) {
  const size_t word = NameWord(program);
  if (word <= FirstWord(program)) {
    return FileName(program[word]);
  }
  return program[word - 1] == "-m" ? program[word]
                                   : std::filesystem::path(program[word]).stem().string();
}

// A launcher would start the ranks of a node; here each rank is started by itself.
Status RefuseLauncher(const std::vector<std::string>& program) {
  constexpr const char* kLaunchers[] = {"torchrun",
                                        "torch.distributed.run",
                                        "torch.distributed.launch",
                                        "accelerate",
                                        "accelerate.commands.launch",
                                        "deepspeed",
                                        "mpirun",
                                        "mpiexec",
                                        "srun"};
  const std::string name = FileName(program[NameWord(program)]);
  if (std::find(std::begin(kLaunchers), std::end(kLaunchers), name) == std::end(kLaunchers)) {
    return OkStatus();
  }
  return InvalidArgument(fmt::format(
      "{} starts ranks, and so does prism-emulate, with the environment that torchrun gives them: "
      "name what {} would start, as in -- python train.py",
      name, name));
}

}  // namespace

Result<ResolvedJob> ResolveJob(const Options& options,
                               const ModelPreset& preset,
                               const graph::ClusterSpec& cluster) {
  PRISM_RETURN_IF_ERROR(CheckGpus(options, cluster));
  const LayoutChooser chooser(options, preset, cluster);
  PRISM_ASSIGN_OR_RETURN(const Choice choice, chooser.Choose());
  ResolvedJob resolved;
  resolved.layout_origin = choice.origin;
  graph::JobSpec& job = resolved.job;
  job.parallel.tp = choice.layout.tp;
  job.parallel.pp = choice.layout.pp;
  job.parallel.vpp = chooser.vpp();
  job.parallel.dp = options.target_gpus / (choice.layout.tp * choice.layout.pp);
  job.zero_stage = chooser.zero();
  PRISM_RETURN_IF_ERROR(CheckDp(options, job.parallel));
  PRISM_RETURN_IF_ERROR(FillRest(options, preset, &job));
  PRISM_RETURN_IF_ERROR(FillBatch(options, preset, &job));
  return resolved;
}

Result<ResolvedJob> ResolveProgramJob(const Options& options, const graph::ClusterSpec& cluster) {
  if (options.given.count("model") != 0) {
    return InvalidArgument(
        "--model together with -- PROGRAM: the program brings its own; leave "
        "one out");
  }
  PRISM_RETURN_IF_ERROR(RefuseLauncher(options.program));
  PRISM_RETURN_IF_ERROR(CheckGpus(options, cluster));
  const Layout layout = {options.tp.value_or(1), options.pp.value_or(1)};
  PRISM_RETURN_IF_ERROR(CheckProduct(options.target_gpus, layout));
  ResolvedJob resolved;
  resolved.layout_origin = "of the program's groups";
  graph::JobSpec& job = resolved.job;
  job.user_program = true;
  job.parallel.tp = layout.tp;
  job.parallel.pp = layout.pp;
  job.parallel.vpp = options.vpp.value_or(1);
  job.parallel.dp = options.target_gpus / (layout.tp * layout.pp);
  PRISM_RETURN_IF_ERROR(CheckDp(options, job.parallel));
  job.name = ProgramName(options.program);
  job.sequence_parallel = options.sequence_parallel.value_or(false);
  job.recompute = options.recompute.value_or(graph::Recompute::kNone);
  job.zero_stage = options.zero.value_or(0);
  job.seq_len = options.seq_len.value_or(0);
  job.seed = options.seed;
  ModelPreset unknown;
  unknown.layout.micro_batch_size = 1;
  unknown.layout.global_batch_size = job.parallel.dp;
  PRISM_RETURN_IF_ERROR(FillBatch(options, unknown, &job));
  return resolved;
}

void SetProgramLayout(const Options& options,
                      const graph::ParallelSizes& sizes,
                      graph::JobSpec* job) {
  const int32_t vpp = job->parallel.vpp;
  job->parallel = sizes;
  job->parallel.vpp = vpp;
  if (!options.global_batch_size) {
    job->global_batch_size = job->micro_batch_size * job->parallel.dp;
  }
}

}  // namespace prism::launch
