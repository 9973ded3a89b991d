#include "launch/emulate/run/run_context.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launch/emulate/sandbox/device_config.h"
#include "launch/trainer/args.h"
#include "replayer/perturb/rank_effects.h"

namespace prism::launch {

namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

// The name of a GPU among those that this process sees.
std::string VisibleGpu(int ordinal) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::istringstream names(visible == nullptr ? "" : visible);
  std::string name;
  for (int i = 0; i <= ordinal; ++i) {
    if (!std::getline(names, name, ',')) {
      return fmt::format("{}", ordinal);
    }
  }
  return name;
}

// The variables of this process name GPUs of this machine, none of which the program sees.
void ShowVirtualGpus(const RunContext& context, Variables* environment) {
  if (std::getenv("CUDA_VISIBLE_DEVICES") == nullptr) {
    return;
  }
  std::string names;
  for (int64_t gpu = 0; gpu < context.cluster.gpus_per_node; ++gpu) {
    names += fmt::format("{}{}", gpu == 0 ? "" : ",", gpu);
  }
  environment->emplace_back("CUDA_VISIBLE_DEVICES", names);
}

// Ours, then the user's own (a preloaded malloc).
std::string InFrontOf(const std::string& ours, const char* variable) {
  const char* const inherited = std::getenv(variable);
  const bool has_inherited = inherited != nullptr && inherited[0] != '\0';
  return has_inherited ? fmt::format("{}:{}", ours, inherited) : ours;
}

// Which libraries the program is loaded with, and which GPU it sees: only one, so that it is every
// rank's first.
void AddDevice(const RunContext& context, const SandboxRequest& request, Variables* environment) {
  const bool on_gpu = request.mode == channel::Mode::kDevice;
  const DeviceLibraries& libraries = on_gpu ? context.paths.gpu : context.paths.virtual_device;
  environment->emplace_back("LD_PRELOAD", InFrontOf(libraries.preload, "LD_PRELOAD"));
  std::string folders = libraries.folder;
  if (const auto& torch = context.paths.torch) {
    environment->emplace_back("PRISM_TORCH", torch->folder);
    environment->emplace_back("PRISM_TORCH_LIBRARIES", context.paths.torch_libraries);
    folders += context.options.program.empty() ? ":" + torch->folder + "/lib" : "";
  }
  environment->emplace_back("LD_LIBRARY_PATH", InFrontOf(folders, "LD_LIBRARY_PATH"));
  if (!on_gpu) {
    environment->emplace_back("PATH", InFrontOf(context.paths.programs, "PATH"));
    ShowVirtualGpus(context, environment);
    return;
  }
  const auto found = std::lower_bound(request.present.begin(), request.present.end(), request.rank);
  const auto place = static_cast<int>(found - request.present.begin());
  environment->emplace_back("PRISM_DRIVER", context.gpu->driver);
  environment->emplace_back("CUDA_VISIBLE_DEVICES", VisibleGpu(place % context.gpu->count));
  for (const char* local : {"LOCAL_RANK", "SLURM_LOCALID"}) {
    environment->emplace_back(local, "0");
  }
}

// What torchrun gives each rank that it starts, and what Slurm gives each task, on nodes of
// `local_world` ranks.
Variables LauncherEnvironment(int64_t rank, int64_t world, int64_t local_world) {
  const std::string global = fmt::format("{}", rank);
  const std::string local = fmt::format("{}", rank % local_world);
  const std::string node = fmt::format("{}", rank / local_world);
  const std::string ranks = fmt::format("{}", world);
  const std::string nodes = fmt::format("{}", world / local_world);
  return {{"RANK", global},
          {"WORLD_SIZE", ranks},
          {"LOCAL_RANK", local},
          {"LOCAL_WORLD_SIZE", fmt::format("{}", local_world)},
          {"GROUP_RANK", node},
          {"GROUP_WORLD_SIZE", nodes},
          {"ROLE_NAME", "default"},
          {"ROLE_RANK", global},
          {"ROLE_WORLD_SIZE", ranks},
          {"SLURM_PROCID", global},
          {"SLURM_NTASKS", ranks},
          {"SLURM_LOCALID", local},
          {"SLURM_NODEID", node},
          {"SLURM_NNODES", nodes},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_RESTART_COUNT", "0"},
          {"TORCHELASTIC_MAX_RESTARTS", "0"},
          {"TORCHELASTIC_RUN_ID", "none"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}};
}

// How the rank meets the other sandbox ranks, and what it receives from absent ones.
void AddMeeting(const MeetingPoint& meeting, Rank rank, Variables* environment) {
  if (!meeting.exchange.empty()) {
    environment->emplace_back("PRISM_EXCHANGE", meeting.exchange);
  }
  if (meeting.store_port != 0) {
    environment->emplace_back("PRISM_STORE", fmt::format("{}", meeting.store_port));
  }
  const auto bytes = meeting.value_bytes.find(rank);
  if (bytes != meeting.value_bytes.end() && bytes->second > 0) {
    environment->emplace_back("PRISM_VALUES", meeting.values);
    environment->emplace_back("PRISM_VALUES_BYTES", fmt::format("{}", bytes->second));
  }
}

std::vector<std::string> CommandOf(const RunContext& context, const SandboxRequest& request) {
  if (!context.options.program.empty()) {
    return context.options.program;
  }
  std::vector<std::string> command = {context.paths.workload};
  for (std::string& argument : WorkloadArgs(context.job, request.iterations)) {
    command.push_back(std::move(argument));
  }
  return command;
}

}  // namespace

SandboxSpec MakeSandboxSpec(const RunContext& context, const SandboxRequest& request) {
  const bool records = request.mode == channel::Mode::kRecord;
  SandboxSpec spec;
  spec.rank = request.rank;
  spec.command = CommandOf(context, request);
  spec.config = MakeDeviceConfig(context.cluster, context.job, request.rank, request.present);
  spec.config.mode = request.mode;
  spec.config.measures_host = context.options.host_factor > 0 && records ? 1 : 0;
  SlowHost(replayer::HostFactor(context.perturbations, request.rank), &spec.config);
  // A program that departs is held in its next NCCL call, to show where it is. The built-in
  // workload is spared the round trips.
  const bool may_depart = request.mode == channel::Mode::kEmulate;
  spec.config.fences = may_depart && !context.options.program.empty() ? 1 : 0;

  const int64_t world = context.job.parallel.world_size();
  spec.environment = LauncherEnvironment(static_cast<int64_t>(request.rank.value()), world,
                                         std::min<int64_t>(context.cluster.gpus_per_node, world));
  // Nobody can use a debugger while recording.
  if (context.options.interactive && records) {
    spec.environment.emplace_back("PYTHONBREAKPOINT", "0");
  }
  AddDevice(context, request, &spec.environment);
  // One thread: the kernels do nothing, and the host's work must not depend on the machine.
  spec.environment.emplace_back("OMP_NUM_THREADS", "1");
  spec.environment.emplace_back("PRISM_ROUTING", context.options.routing);
  AddMeeting(request.meeting, request.rank, &spec.environment);
  return spec;
}

bool SharesGpu(const RunContext& context) {
  return context.gpu && context.sandbox_ranks.size() > static_cast<size_t>(context.gpu->count);
}

Result<std::unique_ptr<StoreServer>> StartStore(const RunContext& context, size_t present) {
  if (context.options.program.empty()) {
    return std::unique_ptr<StoreServer>();
  }
  StoreServerOptions options;
  options.ranks.world_size = static_cast<int32_t>(context.job.parallel.world_size());
  options.ranks.ranks_per_node =
      std::min(static_cast<int32_t>(context.cluster.gpus_per_node), options.ranks.world_size);
  options.ranks.present = static_cast<int32_t>(present);
  return StoreServer::Start(options);
}

Status CheckStore(const RunContext& context, StoreServer* store) {
  if (store == nullptr) {
    return OkStatus();
  }
  for (const std::string& report : store->TakeReports()) {
    context.logger.Warning("{}", report);
  }
  return store->status();
}

}  // namespace prism::launch
