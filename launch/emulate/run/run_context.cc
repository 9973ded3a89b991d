#include "launch/emulate/run/run_context.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launch/emulate/sandbox/device_config.h"
#include "launch/emulate/sandbox/fork_server.h"
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
  environment->emplace_back("PRISM_DRIVER", context.gpu->driver);
  environment->emplace_back("CUDA_VISIBLE_DEVICES",
                            VisibleGpu(request.place_on_host % context.gpu->count));
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

// What its files cost, if the cluster states that (shim/clock/file_calls.cc).
void AddStorage(const graph::ParameterTable& parameters, Variables* environment) {
  const auto stated = [&](const char* key) { return std::llround(parameters.ValueOr(key, 0)); };
  environment->emplace_back(
      "PRISM_STORAGE",
      fmt::format("{} {} {}", stated("storage.read_bytes_per_s"),
                  stated("storage.write_bytes_per_s"), stated("storage.latency_ns")));
}

void AddHostNetwork(const graph::ParameterTable& parameters, Variables* environment) {
  const double rate = std::min(kHostBytesPerS, parameters.Value("net.nic_bytes_per_s"));
  environment->emplace_back(
      "PRISM_HOST_NETWORK",
      fmt::format("{} {}", std::llround(parameters.ValueOr("net.host_message_ns", kHostMessageNs)),
                  std::llround(parameters.ValueOr("net.host_bytes_per_s", rate))));
}

// On a real GPU a rank sees only one, so that it is the first of its node.
LaunchPlace PlaceOf(const RunContext& context, const SandboxRequest& request) {
  LaunchPlace place;
  place.rank = static_cast<int64_t>(request.rank.value());
  place.world = context.job.parallel.world_size();
  place.local_world = std::min<int64_t>(context.cluster.gpus_per_node, place.world);
  place.local = request.mode == channel::Mode::kDevice ? 0 : place.rank % place.local_world;
  return place;
}

std::vector<std::string> CommandOf(const RunContext& context, const SandboxRequest& request) {
  if (!context.options.program.empty()) {
    return RankProgram(context.options.launch, PlaceOf(context, request));
  }
  std::vector<std::string> command = {context.paths.workload};
  for (std::string& argument : WorkloadArgs(context.job, request.iterations)) {
    command.push_back(std::move(argument));
  }
  return command;
}

// What the rank's launcher sets. A script that starts one sees itself as on a node, and tells the
// stand-in for its launcher which rank this is.
void AddLaunch(const RunContext& context, const SandboxRequest& request, SandboxSpec* spec) {
  const Launch& launch = context.options.launch;
  const LaunchPlace place = PlaceOf(context, request);
  if (!launch.in_script) {
    spec->environment = RankVariables(launch, place);
    return;
  }
  Launch of_node = launch;
  of_node.variables = NodeVariables(launch);
  spec->environment = RankVariables(of_node, place);
  spec->stand_in = context.paths.stand_in;
  spec->environment.emplace_back("PRISM_LAUNCH_PLACE", PlaceText(place));
}

}  // namespace

SandboxSpec MakeScriptSpec(const RunContext& context) {
  RunContext node = context;
  node.job.parallel = {.dp = context.cluster.gpus_per_node};
  SandboxRequest request;
  request.rank = Rank(0);
  request.mode = channel::Mode::kStandalone;
  request.present = {Rank(0)};
  SandboxSpec spec;
  spec.rank = request.rank;
  spec.command = context.options.program;
  spec.config = MakeDeviceConfig(context.cluster, node.job, request.rank, request.present);
  spec.config.mode = request.mode;
  spec.environment = context.options.launch.names.empty()
                         ? Variables()
                         : RankVariables(context.options.launch, LaunchPlace());
  spec.stand_in = context.paths.stand_in;
  AddDevice(context, request, &spec.environment);
  return spec;
}

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

  AddLaunch(context, request, &spec);
  // Nobody can use a debugger while recording.
  if (context.options.interactive && records) {
    spec.environment.emplace_back("PYTHONBREAKPOINT", "0");
  }
  AddDevice(context, request, &spec.environment);
  // One thread: the kernels do nothing, and the host's work must not depend on the machine.
  spec.environment.emplace_back("OMP_NUM_THREADS", "1");
  spec.environment.emplace_back("PRISM_ROUTING", context.options.routing);
  if (context.tells_lines) {
    spec.environment.emplace_back("PRISM_CHECK", "1");
  }
  if (context.options.stand_in) {
    spec.environment.emplace_back("PRISM_ABSENT_FILES", "1");
    AddPythonFolder(&spec);
  }
  AddStorage(context.cluster.parameters, &spec.environment);
  AddHostNetwork(context.cluster.parameters, &spec.environment);
  AddMeeting(request.meeting, request.rank, &spec.environment);
  return spec;
}

Status FindPaths(RunContext* context) {
  const Launch& launch = context->options.launch;
  PRISM_ASSIGN_OR_RETURN(
      context->paths,
      FindInstallPaths(
          launch.interpreter.empty() ? context->options.program : std::vector{launch.interpreter},
          context->gpu.has_value() || context->record_gpu.has_value()));
  return OkStatus();
}

Result<std::unique_ptr<StoreServer>> StartStore(const RunContext& context,
                                                size_t present,
                                                std::shared_ptr<const StoreValues> written,
                                                int64_t blocked_after_ms,
                                                const StorePatience& patience) {
  if (context.options.program.empty()) {
    return std::unique_ptr<StoreServer>();
  }
  StoreServerOptions options;
  options.ranks.world_size = static_cast<int32_t>(context.job.parallel.world_size());
  options.ranks.ranks_per_node =
      std::min(static_cast<int32_t>(context.cluster.gpus_per_node), options.ranks.world_size);
  options.ranks.present = static_cast<int32_t>(present);
  options.ranks.written = std::move(written);
  options.blocked_after_ms = blocked_after_ms;
  options.patience = patience;
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
