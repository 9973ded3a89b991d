#include "launch/emulate/run/run_plan.h"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/executable.h"
#include "graph/file.h"
#include "graph/validate/limits.h"
#include "graph/validate/valid_graph.h"
#include "launch/emulate/run/nccl_settings.h"
#include "launch/emulate/run/rank_choice.h"
#include "launch/emulate/run/script_start.h"
#include "launch/inputs/job_resolution.h"
#include "launch/inputs/model_config.h"
#include "launch/inputs/perturbation.h"
#include "launch/inputs/presets.h"
#include "launch/inputs/program_command.h"
#include "launch/process/color.h"
#include "launch/process/mpi_session.h"

namespace prism::launch {
namespace {

// The options that determine a layout.
const std::vector<std::string_view>& LayoutKeys() {
  static const std::vector<std::string_view> keys = {"target_gpus",
                                                     "model",
                                                     "tp",
                                                     "pp",
                                                     "dp",
                                                     "cp",
                                                     "ep",
                                                     "vpp",
                                                     "sequence_parallel",
                                                     "micro_batch_size",
                                                     "global_batch_size",
                                                     "seq_len",
                                                     "recompute",
                                                     "zero"};
  return keys;
}

// Options that describe the job: with --graph, the graph defines it.
Status RefuseJobOptions(const Options& options) {
  for (const OptionRow& row : OptionTable()) {
    const bool allowed = row.flag == "iterations" || row.flag == "seed";
    if (row.group == kJobGroup && !allowed && options.given.contains(row.key())) {
      return AtOrigin(
          options, {row.key(), "graph"},
          InvalidArgument(fmt::format(
              "--{} and --graph exclude each other: the graph contains its job; leave one out",
              row.flag)));
    }
  }
  return OkStatus();
}

Status UseCluster(RunContext* context) {
  Result<graph::ClusterSpec> cluster = LoadCluster(context->options.cluster, &context->inputs);
  PRISM_RETURN_IF_ERROR(AtOrigin(context->options, {"cluster"}, cluster.status()));
  context->cluster = *std::move(cluster);
  return OkStatus();
}

Status ResolveFromGraph(RunContext* context) {
  context->options.graph = graph::GraphFileOf(context->options.graph);
  const Options& options = context->options;
  PRISM_RETURN_IF_ERROR(RefuseJobOptions(options));
  if (options.host_factor > 0 || HasHostCosts(options)) {
    return AtOrigin(options, {"host_time", "graph"},
                    InvalidArgument(fmt::format(
                        "--host-time {} and --graph exclude each other: without recording there "
                        "is nothing to measure; leave one out",
                        options.host_factor > 0 ? "measured" : options.host_costs)));
  }
  if (options.resume) {
    return AtOrigin(options, {"resume", "graph"},
                    InvalidArgument("--resume and --graph exclude each other: nothing is recorded; "
                                    "leave one out"));
  }
  PRISM_ASSIGN_OR_RETURN(const graph::Graph graph, graph::ReadGraph(options.graph));
  PRISM_ASSIGN_OR_RETURN(context->inputs[options.graph], HashOfFile(options.graph));
  if (graph.job.user_program && options.program.empty() && options.sandbox_ranks != "none") {
    return InvalidArgument(fmt::format(
        "{} is the graph of a program ({}); name the program after --, or use --sandbox-ranks none",
        options.graph, graph.job.name));
  }
  context->job = graph.job;
  if (options.given.count("seed") != 0) {
    context->job.seed = options.seed;
  } else {
    context->options.seed = graph.job.seed;
  }
  context->layout_origin = "graph";
  context->cluster = graph.cluster;
  if (options.given.count("cluster") != 0) {
    PRISM_RETURN_IF_ERROR(UseCluster(context));
  }
  return OkStatus();
}

// What other programs of the same ZeRO stage do otherwise.
std::vector<std::string> AssumedSharding(const graph::JobSpec& job) {
  if (job.user_program || job.zero_stage < 2 || job.parallel.dp * job.parallel.cp == 1) {
    return {};
  }
  if (job.zero_stage == 3) {
    return {
        "ZeRO 3 of the built-in program: units (a layer, the embedding, the head) are gathered one "
        "ahead, before the forward and again before the backward pass of every micro-batch; their "
        "gradients are reduce-scattered in every micro-batch and added to the shards in fp32 (as "
        "DeepSpeed; FSDP in a pipeline does it once an iteration)"};
  }
  return {
      "ZeRO 2 of the built-in program: gradients are reduce-scattered in every micro-batch, bucket "
      "by bucket, and added to the shards in fp32 (as DeepSpeed; FSDP in a pipeline does it once "
      "an iteration)"};
}

// The batch of a run with other sizes than the preset's.
std::vector<std::string> AssumedBatch(const Options& options,
                                      const ModelPreset& preset,
                                      const graph::JobSpec& job) {
  const int64_t usual = preset.layout.global_batch_size;
  if (options.global_batch_size || usual == 0 || usual == job.global_batch_size) {
    return {};
  }
  return {fmt::format(
      "global batch {} in place of the model's {}: whole micro-batches of {} for "
      "each of {} replicas, as many as a pipeline of {} needs",
      job.global_batch_size, usual, job.micro_batch_size, job.parallel.dp, job.parallel.pp)};
}

// Every process makes the plan; one says it.
void AddWarning(graph::Warning warning, RunContext* context) {
  if (MpiSession::LaunchedRank() == 0) {
    context->logger.Warning("{}", warning.example);
  }
  context->warnings.push_back(std::move(warning));
}

// Programs are recorded on a CUDA device.
Status CheckVendor(const Options& options, const graph::ClusterSpec& cluster) {
  if (!cluster.gpu.name.starts_with("AMD ") || (options.dry_run && options.program.empty())) {
    return OkStatus();
  }
  return InvalidArgument(
      fmt::format("--cluster {}: programs are recorded on a CUDA device, and an {} runs other "
                  "kernels; --dry-run forecasts the built-in job, prism search plans it",
                  cluster.name, cluster.gpu.name));
}

// Where the description of the model differs from the model.
void AssumeOfModel(const ModelPreset& model, RunContext* context) {
  context->model_assumptions = model.assumptions;
  context->assumptions.insert(context->assumptions.end(), model.assumptions.begin(),
                              model.assumptions.end());
  if (const auto& keys = model.unknown_keys; !keys.empty()) {
    AddWarning({"model_keys_unknown", static_cast<int64_t>(keys.size()),
                fmt::format("--model {}: keys that are not known, and are taken to change nothing: "
                            "{}",
                            context->options.model, ListOf(keys))},
               context);
  }
}

void WarnOfProgramOptions(RunContext* context) {
  const std::vector<std::string> flags = OptionsWithoutEffect(context->options);
  if (flags.empty()) {
    return;
  }
  AddWarning(
      {"options_without_effect", static_cast<int64_t>(flags.size()),
       fmt::format("options of no effect on the program, which does what its own options say: {}; "
                   "leave them out",
                   fmt::join(flags, ", "))},
      context);
}

// Why a program that was not found cannot be started. A shell finds none in the current folder
// either.
std::string WhyNotStarted(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_directory(name, ignored)) {
    return "is a folder; name a program after --";
  }
  if (!fs::is_regular_file(name, ignored)) {
    return "not found or not executable; name a program after --";
  }
  if (access(name.c_str(), X_OK) == 0) {
    return fmt::format("not in PATH; start it as -- ./{}", name);
  }
  return fs::path(name).extension() == ".py"
             ? fmt::format("not executable; start it as -- python {}, or chmod +x", name)
             : "not executable; chmod +x it";
}

// An interpreter is found though what it is to run is not.
Status CheckScript(const std::vector<std::string>& program) {
  const std::string script = program.empty() ? "" : ProgramScript(program);
  std::error_code ignored;
  if (script.empty() || std::filesystem::exists(script, ignored)) {
    return OkStatus();
  }
  return BadFile(fmt::format("{}: not found; name a script that exists after {}", script,
                             std::filesystem::path(program.front()).filename().string()));
}

// The user's program as a path.
Status FindProgram(std::vector<std::string>* program) {
  std::string& name = program->front();
  const std::string path = FindExecutable(name);
  if (path.empty()) {
    return BadFile(fmt::format("{}: {}", name, WhyNotStarted(name)));
  }
  name = path;
  return OkStatus();
}

Status CheckAsked(const Launch& launch, int64_t asked) {
  const std::string& launcher = launch.names.back();
  if (asked == 0) {
    return InvalidArgument(fmt::format(
        "{} says no number of ranks; give it one, or give --gpus N in front of --", launcher));
  }
  return asked <= graph::kMaxRanks
             ? OkStatus()
             : InvalidArgument(fmt::format("{} asks for {} ranks; at most {} can be emulated",
                                           launcher, asked, graph::kMaxRanks));
}

// The number of ranks of a node, and that of the job where the user leaves it to the launcher.
Status UseRanks(RunContext* context) {
  Options& options = context->options;
  Launch& launch = options.launch;
  const bool has_gpus = options.given.contains("target_gpus");
  if (has_gpus && !launch.asks_for_ranks) {
    launch.ranks_per_node.reset();
  }
  const std::optional<int32_t> of_node =
      options.nproc_per_node ? options.nproc_per_node : launch.ranks_per_node;
  int32_t& gpus_per_node = context->cluster.gpus_per_node;
  if (of_node.value_or(1) > gpus_per_node) {
    return InvalidArgument(fmt::format(
        "{} ranks of a node, but a node of {} has {} GPUs; use more nodes, or another --cluster",
        *of_node, context->cluster.name, gpus_per_node));
  }
  const int32_t local = of_node.value_or(gpus_per_node);
  if (!launch.names.empty()) {
    const int64_t asked = launch.ranks ? *launch.ranks : int64_t{launch.nodes.value_or(0)} * local;
    if (!has_gpus) {
      PRISM_RETURN_IF_ERROR(CheckAsked(launch, asked));
      options.target_gpus = static_cast<int32_t>(asked);
    } else if (launch.asks_for_ranks && asked > 0 && asked != options.target_gpus) {
      launch.notes.push_back(fmt::format("--target-gpus {} is used, not the {} ranks of {}",
                                         options.target_gpus, asked, launch.names.back()));
    }
  }
  gpus_per_node = options.target_gpus > local ? local : gpus_per_node;
  return OkStatus();
}

void SayLaunch(const RunContext& context) {
  const Launch& launch = context.options.launch;
  if (launch.names.empty() || MpiSession::LaunchedRank() != 0) {
    return;
  }
  for (const std::string& note : launch.notes) {
    context.logger.Info("{}", note);
  }
  if (!launch.ignored.empty()) {
    context.logger.Info("of no meaning here, since Prism starts the ranks: {}",
                        fmt::join(launch.ignored, ", "));
  }
}

// Leaves as the program what each rank runs.
Status ReadLauncher(Options* options) {
  if (options->program.empty()) {
    return OkStatus();
  }
  PRISM_ASSIGN_OR_RETURN(options->launch, ReadLaunch(options->program));
  options->program = options->launch.program;
  options->launch.in_script = MayStartLauncher(options->program);
  PRISM_RETURN_IF_ERROR(FindProgram(&options->program));
  options->launch.program = options->program;
  return CheckScript(options->program);
}

Status ResolveFromPresets(RunContext* context) {
  const Options& options = context->options;
  PRISM_RETURN_IF_ERROR(UseCluster(context));
  PRISM_RETURN_IF_ERROR(CheckVendor(options, context->cluster));
  if (options.launch.in_script) {
    PRISM_RETURN_IF_ERROR(StartScript(context));
  }
  PRISM_RETURN_IF_ERROR(AtOrigin(options, {"nproc_per_node"}, UseRanks(context)));
  SayLaunch(*context);
  Result<ResolvedJob> resolved = ResolvedJob();
  if (options.program.empty()) {
    const Result<ModelPreset> model = LoadModel(options.model, &context->inputs);
    PRISM_RETURN_IF_ERROR(AtOrigin(options, {"model"}, model.status()));
    resolved = ResolveJob(options, *model, context->cluster);
    if (resolved.ok()) {
      context->assumptions = AssumedBatch(options, *model, resolved->job);
      AssumeOfModel(*model, context);
    }
  } else {
    resolved = ResolveProgramJob(options, context->cluster);
  }
  PRISM_RETURN_IF_ERROR(AtOrigin(options, LayoutKeys(), resolved.status()));
  if (!options.program.empty()) {
    WarnOfProgramOptions(context);
  }
  context->job = std::move(resolved->job);
  context->layout_origin = std::move(resolved->layout_origin);
  for (std::string& line : AssumedSharding(context->job)) {
    context->assumptions.push_back(std::move(line));
  }
  return OkStatus();
}

// The program and the files that its command line names: its script, a configuration. A file too
// large to be either is data, and gets no hash.
void NoteProgram(const std::vector<std::string>& program, InputHashes* inputs) {
  namespace fs = std::filesystem;
  constexpr uintmax_t kLargest = uintmax_t{1} << 28U;
  for (const std::string& word : program) {
    std::error_code error;
    if (!fs::is_regular_file(word, error)) {
      continue;
    }
    const uintmax_t bytes = fs::file_size(word, error);
    const Result<std::string> hash =
        !error && bytes <= kLargest ? HashOfFile(word) : Result<std::string>("");
    (*inputs)[word] = hash.ok() ? *hash : "";
  }
}

// Finds the GPU of an option, if it asks for one. With `auto`, a warning says why none is used. The
// host of process 0 must have one; others without get no ranks.
Status ChooseGpu(std::string_view option,
                 const char* instead,
                 Device* device,
                 std::optional<Gpu>* found,
                 RunContext* context) {
  if (*device == Device::kVirtual) {
    return OkStatus();
  }
  const Result<Gpu> gpu = FindGpu(option);
  if (gpu.ok()) {
    *found = *gpu;
    *device = Device::kCuda;
    return OkStatus();
  }
  if (*device == Device::kCuda) {
    return MpiSession::LaunchedRank() == 0 ? gpu.status() : OkStatus();
  }
  *device = Device::kVirtual;
  AddWarning(
      {"device_fallback", 1, fmt::format("{} auto: this machine has no GPU; {}", option, instead)},
      context);
  return OkStatus();
}

// Chooses what sandbox ranks run on, and where kernels are timed.
Status ChooseDevices(RunContext* context) {
  Options& options = context->options;
  const bool none = options.device == Device::kVirtual && options.record_device == Device::kVirtual;
  if (none && options.given.count("device_scale") != 0) {
    return AtOrigin(
        options, {"device", "device_scale"},
        InvalidArgument("--device-scale has no effect without --device cuda; leave it out"));
  }
  if (options.record_device != Device::kVirtual && !options.graph.empty()) {
    return AtOrigin(options, {"record_device", "graph"},
                    InvalidArgument("--record-device has no effect with --graph, by which nothing "
                                    "is recorded; leave it out"));
  }
  PRISM_RETURN_IF_ERROR(ChooseGpu("--device", "sandbox ranks run on the virtual device",
                                  &options.device, &context->gpu, context));
  PRISM_RETURN_IF_ERROR(ChooseGpu("--record-device", "kernels take the model's times",
                                  &options.record_device, &context->record_gpu, context));
  for (const std::optional<Gpu>& gpu : {context->gpu, context->record_gpu}) {
    if (gpu && gpu->is_test) {
      context->warnings.push_back(
          {"test_device", 1, fmt::format("all of CUDA goes to {}", gpu->driver)});
      break;
    }
  }
  return OkStatus();
}

}  // namespace

Result<RunContext> PlanRun(Options options) {
  RunContext context;
  context.logger =
      ColoredLogger(options.quiet ? LogLevel::kError : options.log_level, options.color);
  context.options = std::move(options);
  PRISM_RETURN_IF_ERROR(CheckRankOptions(context.options));
  WarnOfNcclSettings(environ, &context.warnings);
  PRISM_RETURN_IF_ERROR(ChooseDevices(&context));
  PRISM_RETURN_IF_ERROR(ReadLauncher(&context.options));
  context.inputs = context.options.inputs;
  NoteProgram(context.options.program, &context.inputs);
  PRISM_RETURN_IF_ERROR(context.options.graph.empty() ? ResolveFromPresets(&context)
                                                      : ResolveFromGraph(&context));
  if (!context.options.host_framework.empty()) {
    PRISM_RETURN_IF_ERROR(AtOrigin(context.options, {"host_time"},
                                   UseFramework(context.options.host_framework, &context.cluster)));
  }
  if (HasHostCosts(context.options)) {
    Result<HostCosts> costs = LoadHostCosts(context.options.host_costs, &context.inputs);
    PRISM_RETURN_IF_ERROR(AtOrigin(context.options, {"host_time"}, costs.status()));
  }
  PRISM_ASSIGN_OR_RETURN(replayer::ReplayOptions replay,
                         MakeReplayOptions(context.options, context.job, context.cluster));
  context.perturbations = std::move(replay.perturbations);
  PRISM_RETURN_IF_ERROR(CheckNetwork(context.options, context.job, context.cluster));
  slicer::PlanOptions plan_options;
  plan_options.max_roles = context.options.max_roles;
  PRISM_ASSIGN_OR_RETURN(context.plan, slicer::MakePlan(context.job, plan_options));
  const bool is_open = context.job.user_program && context.options.graph.empty();
  PRISM_ASSIGN_OR_RETURN(context.record_ranks, RanksToRecord(context));
  PRISM_RETURN_IF_ERROR(is_open ? ChooseNumberedRanks(&context) : ChooseRanks(&context));
  return context;
}

}  // namespace prism::launch
