#include "tests/programs/program_ranks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <sstream>

#include <fmt/format.h>

#include "launch/emulate/run/run_context.h"
#include "launch/inputs/presets.h"

namespace prism::launch {
namespace {

using Clock = std::chrono::steady_clock;

std::string PythonPath() {
  return std::string(PRISM_SOURCE_DIR) + "/.venv/bin/python";
}

struct Member {
  std::unique_ptr<SandboxProcess> process;
  Clock::time_point begin = Clock::now();
  double startup_seconds = 0;
  bool left = false;

  // Takes all records, so that the program never waits for room in the ring.
  void Step() {
    channel::Record record;
    std::span<const std::byte> payload;
    const bool exited = process->Exited();
    while (process->channel().TryPop(&record, &payload)) {
    }
    process->PumpOutput();
    if (startup_seconds == 0 && process->log().find("started\n") != std::string::npos) {
      startup_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    }
    left = exited;
  }
};

std::string LinesThatAgree(const std::string& log) {
  std::istringstream lines(log);
  std::string agreed;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("same ")) {
      agreed += line + "\n";
    }
  }
  return agreed;
}

Result<RunContext> MakeContext(const ProgramRun& run) {
  RunContext context;
  context.options.program = {PythonPath()};
  for (const std::string& argument : run.python_arguments) {
    context.options.program.push_back(argument);
  }
  context.options.program.push_back(std::string(PRISM_SOURCE_DIR) + "/tests/programs/" +
                                    run.script);
  context.options.launch.program = context.options.program;  // even of a launcher, which starts
  PRISM_ASSIGN_OR_RETURN(context.cluster, LoadCluster("h100-8x"));
  context.cluster.gpus_per_node = run.ranks_per_node;
  PRISM_ASSIGN_OR_RETURN(context.paths, FindInstallPaths(context.options.program, false));
  if (!run.torch_libraries.empty()) {
    context.paths.torch_libraries = run.torch_libraries;
  }
  context.job.parallel.dp = run.world_size;
  for (const int32_t rank : run.ranks) {
    context.sandbox_ranks.emplace_back(static_cast<uint32_t>(rank));
  }
  return context;
}

void RunUntilDone(std::vector<Member>* members, const StoreServer& store) {
  while (store.status().ok()) {
    bool running = false;
    for (Member& member : *members) {
      member.Step();
      running = running || !member.left;
    }
    if (!running) {
      return;
    }
    members->front().process->channel().WaitForRecord(5'000'000);
  }
  for (Member& member : *members) {
    member.process->Kill();
  }
}

}  // namespace

std::string WhyNoPrograms() {
  return std::filesystem::exists(PythonPath()) ? "" : "no Python with torch in .venv";
}

Result<ProgramOutcome> RunProgram(const ProgramRun& run) {
  PRISM_ASSIGN_OR_RETURN(const RunContext context, MakeContext(run));
  StoreServerOptions options;
  options.ranks.world_size = run.world_size;
  options.ranks.ranks_per_node = run.ranks_per_node;
  options.ranks.present = static_cast<int32_t>(run.ranks.size());
  options.blocked_after_ms = run.blocked_after_ms;
  PRISM_ASSIGN_OR_RETURN(const auto store, StoreServer::Start(options));
  const int exchange = memfd_create("prism-exchange", MFD_CLOEXEC);
  if (exchange < 0 || ftruncate(exchange, kExchangeBytes) != 0) {
    return EnvironmentLacks("no shared memory");
  }
  SandboxRequest request;
  request.mode = channel::Mode::kRecord;
  request.present = context.sandbox_ranks;
  request.meeting.store_port = store->port();
  request.meeting.exchange =
      run.ranks.size() > 1 ? fmt::format("/proc/{}/fd/{}", getpid(), exchange) : "";
  std::vector<Member> members;
  for (const Rank rank : context.sandbox_ranks) {
    request.rank = rank;
    PRISM_ASSIGN_OR_RETURN(auto process, SandboxProcess::Start(MakeSandboxSpec(context, request)));
    members.emplace_back().process = std::move(process);
  }
  RunUntilDone(&members, *store);
  ProgramOutcome outcome;
  for (const Member& member : members) {
    const std::string& log = member.process->log();
    outcome.ranks.push_back(
        {member.process->ExitStatus(), log, LinesThatAgree(log), member.startup_seconds});
  }
  outcome.store = store->status();
  outcome.reports = store->TakeReports();
  outcome.store_requests = store->request_count();
  close(exchange);
  return outcome;
}

}  // namespace prism::launch
