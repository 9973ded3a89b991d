#include "launch/inputs/job_resolution.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/describe.h"
#include "launch/inputs/layout_choice.h"
#include "launch/inputs/program_command.h"

namespace prism::launch {
namespace {

Status CheckGpus(const Options& options, const graph::ClusterSpec& cluster) {
  const int32_t gpus = options.target_gpus;
  if (gpus > cluster.gpus_per_node && gpus % cluster.gpus_per_node != 0) {
    const int32_t below = gpus - gpus % cluster.gpus_per_node;
    return InvalidArgument(
        fmt::format("--target-gpus {} does not fill nodes of {} GPUs ({}); use {} or {}", gpus,
                    cluster.gpus_per_node, cluster.name, below, below + cluster.gpus_per_node));
  }
  return OkStatus();
}

// `sizes` follow from --target-gpus; a --dp has to agree.
Status CheckDp(const Options& options, const graph::ParallelSizes& sizes) {
  if (!options.dp || *options.dp == sizes.dp) {
    return OkStatus();
  }
  return InvalidArgument(fmt::format(
      "--dp {} × tp {}{} × pp {} is not --target-gpus {}; change one of them, or leave --dp out",
      *options.dp, sizes.tp, graph::ContextText(sizes.cp), sizes.pp, options.target_gpus));
}

// Micro-batches of a rank for the preset's global batch, clamped to a sensible range.
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
        "--global-batch-size {} is not a multiple of micro-batch {} × dp {} = {}; use {}{}",
        job->global_batch_size, job->micro_batch_size, job->parallel.dp, per_round,
        below > 0 ? fmt::format("{} or ", below) : std::string(), below + per_round));
  }
  if (job->parallel.vpp > 1 && job->microbatches() % job->parallel.pp != 0) {
    return InvalidArgument(
        fmt::format("--vpp above 1 needs a number of micro-batches per rank that pp divides, not "
                    "{} with pp {}; change --global-batch-size",
                    job->microbatches(), job->parallel.pp));
  }
  return OkStatus();
}

// What the built-in program does not support together with experts.
Status CheckExperts(const Options& options, const graph::JobSpec& job) {
  if (job.parallel.cp > 1) {
    return InvalidArgument(
        fmt::format("--cp {}: the built-in program cannot combine context parallelism with experts "
                    "({}); leave --cp out",
                    job.parallel.cp, job.model.name));
  }
  if (job.parallel.tp > 1 && !job.sequence_parallel) {
    return InvalidArgument(
        fmt::format("--sequence-parallel off: experts ({}) with tp {} need sequence parallelism; "
                    "leave it on, or use --tp 1",
                    job.model.name, job.parallel.tp));
  }
  if (job.zero_stage == 3) {
    return InvalidArgument(
        fmt::format("--zero 3: the built-in program cannot shard the parameters of a model with "
                    "experts ({}); use --zero 2",
                    job.model.name));
  }
  if (options.routing != "uniform") {
    return InvalidArgument(
        fmt::format("--routing {}: the built-in program routes equally many tokens to each expert; "
                    "leave --routing out",
                    options.routing));
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
  if (preset.model.moe.experts > 0) {
    PRISM_RETURN_IF_ERROR(CheckExperts(options, *job));
  }
  const int64_t parts = int64_t{job->parallel.tp} * job->parallel.cp;
  if (job->sequence_parallel && job->seq_len % parts != 0) {
    return InvalidArgument(
        fmt::format("--seq-len {} is not a multiple of tp {}{}, which sequence parallelism needs; "
                    "change it, or use --sequence-parallel off",
                    job->seq_len, job->parallel.tp, graph::ContextText(job->parallel.cp)));
  }
  return OkStatus();
}

// The built-in program has two kinds of layers, and experts in one of them.
Status CheckModel(const graph::ModelSpec& model) {
  const auto lacks = [&](const char* what) {
    return InvalidArgument(
        fmt::format("--model {}: the built-in program does not support {}; name your own program "
                    "after --, or plan the model with prism search",
                    model.name, what));
  };
  const graph::MoeShape& moe = model.moe;
  if (moe.experts > 0 && moe.biased) {
    return lacks("experts with biases");
  }
  if (moe.experts > 0 && model.block != graph::BlockKind::kLlama) {
    return lacks("experts outside llama blocks");
  }
  if (model.latent.kv_rank > 0 || model.sliding_window > 0) {
    return lacks("latent attention or a sliding window");
  }
  if (model.block == graph::BlockKind::kNemotron || model.mtp_layers > 0) {
    return lacks("blocks other than gpt and llama, or multi-token prediction");
  }
  return OkStatus();
}

Status FillJob(const Options& options,
               const ModelPreset& preset,
               const Layout& layout,
               graph::JobSpec* job) {
  job->parallel.tp = layout.tp;
  job->parallel.pp = layout.pp;
  job->parallel.vpp = options.vpp.value_or(preset.layout.vpp);
  job->parallel.cp = layout.cp;
  job->parallel.ep = layout.ep;
  job->parallel.etp = preset.model.moe.experts > 0 ? layout.tp : 1;
  job->parallel.dp = static_cast<int32_t>(options.target_gpus / layout.product());
  job->zero_stage = options.zero.value_or(preset.layout.zero);
  PRISM_RETURN_IF_ERROR(CheckDp(options, job->parallel));
  PRISM_RETURN_IF_ERROR(FillRest(options, preset, job));
  return FillBatch(options, preset, job);
}

}  // namespace

Result<ResolvedJob> ResolveJob(const Options& options,
                               const ModelPreset& preset,
                               const graph::ClusterSpec& cluster) {
  PRISM_RETURN_IF_ERROR(CheckModel(preset.model));
  PRISM_RETURN_IF_ERROR(CheckGpus(options, cluster));
  // What a check of the job refuses is refused once its layout is chosen.
  const auto job_of = [&preset](const Options& of, const Layout& layout) {
    graph::JobSpec job;
    (void)FillJob(of, preset, layout, &job);
    return job;
  };
  PRISM_ASSIGN_OR_RETURN(const LayoutChoice choice, ChooseLayout(options, preset, cluster, job_of));
  ResolvedJob resolved;
  resolved.layout_origin = choice.origin;
  PRISM_RETURN_IF_ERROR(FillJob(options, preset, choice.layout, &resolved.job));
  return resolved;
}

Result<ResolvedJob> ResolveProgramJob(const Options& options, const graph::ClusterSpec& cluster) {
  if (options.given.count("model") != 0) {
    return InvalidArgument(
        "--model and -- PROGRAM exclude each other: a program brings its own model; leave one out");
  }
  for (const auto& [flag, degree] : {std::pair("cp", options.cp), std::pair("ep", options.ep)}) {
    if (degree) {
      return InvalidArgument(fmt::format(
          "--{0} and -- PROGRAM exclude each other: a program's groups set its {0}; leave one out",
          flag));
    }
  }
  PRISM_RETURN_IF_ERROR(CheckProgram(options.program));
  PRISM_RETURN_IF_ERROR(CheckGpus(options, cluster));
  const Layout layout = {options.tp.value_or(1), options.pp.value_or(1)};
  PRISM_RETURN_IF_ERROR(CheckProduct(options.target_gpus, layout));
  ResolvedJob resolved;
  resolved.layout_origin = "of the program's groups";
  graph::JobSpec& job = resolved.job;
  job.user_program = true;
  job.parallel.tp = layout.tp;
  job.parallel.pp = layout.pp;
  job.parallel.dp = options.target_gpus / (layout.tp * layout.pp);
  PRISM_RETURN_IF_ERROR(CheckDp(options, job.parallel));
  const std::vector<std::string>& reached = options.launch.reached;
  job.name = ProgramName(reached.empty() ? options.program : reached);
  job.sequence_parallel = false;
  job.zero_stage = 0;
  job.seq_len = options.seq_len.value_or(0);
  job.seed = options.seed;
  ModelPreset unknown;
  unknown.layout.micro_batch_size = 1;
  unknown.layout.global_batch_size = job.parallel.dp;
  PRISM_RETURN_IF_ERROR(FillBatch(options, unknown, &job));
  return resolved;
}

std::vector<std::string> OptionsWithoutEffect(const Options& options) {
  std::vector<std::string> flags;
  const auto add = [&](const char* flag, bool is_given) {
    if (is_given) {
      flags.emplace_back(flag);
    }
  };
  add("--vpp", options.vpp.has_value());
  add("--sequence-parallel", options.sequence_parallel.has_value());
  add("--recompute", options.recompute.has_value());
  add("--zero", options.zero.has_value());
  const bool has_length = options.seq_len.has_value();
  add("--micro-batch-size without --seq-len", options.micro_batch_size && !has_length);
  add("--global-batch-size without --seq-len", options.global_batch_size && !has_length);
  return flags;
}

void SetProgramLayout(const Options& options,
                      const graph::ParallelSizes& sizes,
                      graph::JobSpec* job) {
  job->parallel = sizes;
  if (!options.global_batch_size) {
    job->global_batch_size = job->micro_batch_size * job->parallel.dp;
  }
}

}  // namespace prism::launch
