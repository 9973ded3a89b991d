// prism-emulate: parse, plan, run the stages, report, exit code.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/hash.h"
#include "graph/file.h"
#include "launch/exit_codes.h"
#include "launch/options/job_resolution.h"
#include "launch/options/options.h"
#include "launch/options/perturbation.h"
#include "launch/options/presets.h"
#include "launch/process/interrupt.h"
#include "launch/process/mpi_session.h"
#include "launch/run/master.h"
#include "launch/run/output_folder.h"
#include "launch/run/progress.h"
#include "launch/run/rank_choice.h"
#include "launch/run/run_context.h"
#include "launch/run/run_report.h"
#include "launch/run/worker.h"
#include "launch/version.h"
#include "replayer/report/json.h"
#include "replayer/report/text.h"

namespace prism::launch {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void Print(std::FILE* file, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

int Fail(const Status& status) {
  Print(stderr, fmt::format("prism-emulate: {}\n", status.message()));
  return ExitCode(status);
}

// Options that describe the job: with --graph the graph says all that.
Status RefuseJobOptions(const Options& options) {
  for (const OptionSpec& spec : OptionTable()) {
    const bool allowed =
        std::string_view(spec.flag) == "iterations" || std::string_view(spec.flag) == "seed";
    if (spec.group == OptionGroup::kJob && !allowed && options.given.count(ConfigKey(spec)) != 0) {
      return InvalidArgument(fmt::format(
          "--{} together with --graph: the job is that of the graph; leave one out", spec.flag));
    }
  }
  return OkStatus();
}

Status ResolveFromGraph(RunContext* context) {
  const Options& options = context->options;
  PRISM_RETURN_IF_ERROR(RefuseJobOptions(options));
  PRISM_ASSIGN_OR_RETURN(const graph::Graph graph, graph::ReadGraph(options.graph));
  if (graph.job.user_program && options.program.empty() && options.sandbox_ranks != "none") {
    return InvalidArgument(
        fmt::format("{} is the graph of a program ({}); give the program after --, or "
                    "--sandbox-ranks none",
                    options.graph, graph.job.name));
  }
  context->job = graph.job;
  context->layout_origin = "graph";
  context->cluster = graph.cluster;
  if (options.given.count("cluster") != 0) {
    PRISM_ASSIGN_OR_RETURN(context->cluster, LoadCluster(options.cluster));
  }
  return OkStatus();
}

Status ResolveFromPresets(RunContext* context) {
  const Options& options = context->options;
  PRISM_ASSIGN_OR_RETURN(context->cluster, LoadCluster(options.cluster));
  ResolvedJob resolved;
  if (options.program.empty()) {
    PRISM_ASSIGN_OR_RETURN(const ModelPreset model, LoadModel(options.model));
    PRISM_ASSIGN_OR_RETURN(resolved, ResolveJob(options, model, context->cluster));
  } else {
    PRISM_ASSIGN_OR_RETURN(resolved, ResolveProgramJob(options, context->cluster));
  }
  context->job = std::move(resolved.job);
  context->layout_origin = std::move(resolved.layout_origin);
  return OkStatus();
}

// The program of the user's as a path: one without a slash is looked up in PATH, as a shell does.
Status FindProgram(std::vector<std::string>* program) {
  namespace fs = std::filesystem;
  if (program->empty()) {
    return OkStatus();
  }
  std::string& name = program->front();
  std::vector<fs::path> candidates = {name};
  if (name.find('/') == std::string::npos) {
    candidates.clear();
    const char* path = std::getenv("PATH");
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
      candidates.push_back(fs::path(folder) / name);
    }
  }
  for (const fs::path& candidate : candidates) {
    std::error_code ignored;
    if (fs::is_regular_file(candidate, ignored) && access(candidate.c_str(), X_OK) == 0) {
      name = fs::absolute(candidate, ignored).string();
      return OkStatus();
    }
  }
  return BadFile(
      fmt::format("{}: no such program, or one that cannot be executed; give its path "
                  "after --",
                  name));
}

// Everything that can be known without MPI. The same in all processes.
Result<RunContext> MakeContext(Options options) {
  RunContext context;
  context.logger = Logger(options.quiet ? LogLevel::kError : options.log_level);
  context.options = std::move(options);
  PRISM_RETURN_IF_ERROR(FindProgram(&context.options.program));
  PRISM_RETURN_IF_ERROR(context.options.graph.empty() ? ResolveFromPresets(&context)
                                                      : ResolveFromGraph(&context));
  PRISM_ASSIGN_OR_RETURN(const replayer::ReplayOptions unused,
                         MakeReplayOptions(context.options, context.job));
  static_cast<void>(unused);
  slicer::PlanOptions plan_options;
  plan_options.max_roles = context.options.max_roles;
  PRISM_ASSIGN_OR_RETURN(context.plan, slicer::MakePlan(context.job, plan_options));
  const bool is_open = context.job.user_program && context.options.graph.empty();
  PRISM_RETURN_IF_ERROR(is_open ? ChooseNumberedRanks(&context) : ChooseRanks(&context));
  return context;
}

OutputChoice ChooseOutput(const RunContext& context) {
  OutputChoice choice;
  choice.force = context.options.force;
  choice.by_default = context.options.out.empty();
  choice.path = choice.by_default ? fmt::format("prism-out/{}-{}gpus", context.job.name,
                                                context.job.parallel.world_size())
                                  : context.options.out;
  while (choice.path.size() > 1 && choice.path.back() == '/') {
    choice.path.pop_back();
  }
  return choice;
}

void PrintReport(const RunContext& context,
                 const replayer::Summary& summary,
                 const OutputFolder& folder,
                 const WallTimes& wall) {
  if (context.options.format == OutputFormat::kJson) {
    Print(stdout, replayer::SummaryJson(summary));
    return;
  }
  replayer::TextOptions text;
  text.output_folder = folder.path();
  text.wall = WallText(wall);
  Print(stdout, replayer::SummaryText(summary, text));
}

Status Report(const RunContext& context,
              const RunRecord& record,
              Clock::time_point begin,
              RunOutcome* outcome,
              OutputFolder* folder) {
  const Clock::time_point report_begin = Clock::now();
  replayer::SummaryInput input;
  input.graph = &outcome->graph;
  input.result = &outcome->result;
  input.low_ns = outcome->low_ns;
  input.high_ns = outcome->high_ns;
  input.graph_bytes = static_cast<int64_t>(outcome->graph_bytes.size());
  input.warnings = outcome->warnings;
  const replayer::Summary summary = replayer::Summarise(input);
  PRISM_RETURN_IF_ERROR(WriteResultFiles(context, *outcome, summary, folder));
  outcome->wall.report_s = SecondsSince(report_begin);
  outcome->wall.total_s = SecondsSince(begin);
  PRISM_RETURN_IF_ERROR(folder->Write("run.json", RunJson(record, *outcome)));
  PRISM_RETURN_IF_ERROR(folder->Commit());
  PrintReport(context, summary, *folder, outcome->wall);
  if (context.options.strict && !summary.warnings.empty()) {
    const graph::Warning& first = summary.warnings.front();
    return GateNotMet(fmt::format("--strict: {} kinds of warnings, the first {}: {}",
                                  summary.warnings.size(), first.code, first.example));
  }
  return OkStatus();
}

// Process 0: all stages, then the files.
Status RunAsMaster(RunContext& context,
                   MpiSession& session,
                   const std::vector<std::string>& command,
                   Clock::time_point begin) {
  const double plan_s = SecondsSince(begin);
  Result<OutputFolder> folder = OutputFolder::Create(ChooseOutput(context));
  Progress progress(context.options.quiet || context.options.interactive ||
                    context.options.log_level < LogLevel::kInfo);
  Master master(context, session, progress);
  if (!folder.ok()) {
    master.Stop(folder.status());
    return folder.status();
  }
  Result<RunOutcome> outcome = master.Run();
  Status status = outcome.status();
  if (outcome.ok()) {
    outcome->wall.plan_s = plan_s;
    RunRecord record;
    record.command = command;
    record.processes = session.size();
    record.max_rss_bytes = master.max_rss_bytes();
    record.graph_hash = fmt::format("{:016x}", Hash64(outcome->graph_bytes));
    status = Report(context, record, begin, &*outcome, &*folder);
  }
  if (!status.ok() && status.code() != StatusCode::kGateNotMet) {
    folder->CommitFailure(status.message());
  }
  return status;
}

int Run(const std::vector<std::string>& arguments) {
  const Clock::time_point begin = Clock::now();
  Result<CommandLine> line =
      ParseCommandLine(std::vector<std::string>(arguments.begin() + 1, arguments.end()));
  if (!line.ok()) {
    return Fail(line.status());
  }
  if (line->show_help || line->show_version) {
    Print(stdout, line->show_help ? HelpText() : fmt::format("prism-emulate {}\n", kVersion));
    return kExitOk;
  }
  Result<RunContext> context = MakeContext(line->options);
  if (!context.ok()) {
    return Fail(context.status());
  }
  if (context->options.print_config || context->options.dry_run) {
    Print(stdout, context->options.print_config ? ConfigText(context->options, context->job)
                                                : PlanText(*context));
    return kExitOk;
  }
  const Status output = OutputFolder::Check(ChooseOutput(*context));
  if (!output.ok()) {
    return Fail(output);
  }
  Result<InstallPaths> paths = FindInstallPaths();
  if (!paths.ok()) {
    return Fail(paths.status());
  }
  context->paths = *std::move(paths);
  InstallInterruptHandlers();
  Result<MpiSession> session = MpiSession::Start();
  if (!session.ok()) {
    return Fail(session.status());
  }
  if (session->rank() != 0) {
    return ServeAsWorker(*context, *session);
  }
  const Status status = RunAsMaster(*context, *session, arguments, begin);
  if (status.ok()) {
    return kExitOk;
  }
  const int code = Fail(status);
  const bool by_signal =
      status.code() == StatusCode::kInterrupted || status.code() == StatusCode::kTerminated;
  if (by_signal) {
    session->Abort(code);  // other processes may be gone already: no orderly end
  }
  return code;
}

}  // namespace
}  // namespace prism::launch

int main(int argc, char** argv) {
  return prism::launch::Run(std::vector<std::string>(argv, argv + argc));
}
