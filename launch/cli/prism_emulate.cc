// prism-emulate: parse, plan, run the stages, report, exit code.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/input_hashes.h"
#include "graph/base/time.h"
#include "launch/cli/stand_in.h"
#include "launch/emulate/run/check_report.h"
#include "launch/emulate/run/kept_ranks.h"
#include "launch/emulate/run/master.h"
#include "launch/emulate/run/output_folder.h"
#include "launch/emulate/run/run_context.h"
#include "launch/emulate/run/run_key.h"
#include "launch/emulate/run/run_plan.h"
#include "launch/emulate/run/run_report.h"
#include "launch/emulate/run/worker.h"
#include "launch/exit_codes.h"
#include "launch/inputs/options.h"
#include "launch/process/color.h"
#include "launch/process/interrupt.h"
#include "launch/process/mpi_session.h"
#include "launch/process/output.h"
#include "launch/process/progress.h"
#include "launch/process/stop_watch.h"
#include "launch/process/torch_libraries.h"
#include "replayer/report/json.h"
#include "replayer/report/text.h"

namespace prism::launch {
namespace {

constexpr const char* kProgram = "prism-emulate";

OutputChoice ChooseOutput(const RunContext& context) {
  OutputChoice choice;
  choice.force = context.options.force;
  for (const auto& [path, hash] : context.inputs) {
    choice.inputs.push_back(path);
  }
  choice.by_default = context.options.out.empty();
  std::string name = context.job.name;  // of a graph file, maybe
  std::replace(name.begin(), name.end(), '/', '_');
  choice.path = choice.by_default
                    ? fmt::format("prism-out/{}-{}gpus", name, context.job.parallel.world_size())
                    : context.options.out;
  while (choice.path.size() > 1 && choice.path.back() == '/') {
    choice.path.pop_back();
  }
  return choice;
}

Status PrintReport(const RunContext& context,
                   const replayer::Summary& summary,
                   const OutputFolder& folder,
                   const std::string& wall) {
  if (context.options.format == OutputFormat::kJson) {
    return Print(replayer::SummaryJson(summary));
  }
  replayer::TextOptions text;
  text.output_folder = folder.path();
  if (context.options.perfetto) {
    std::error_code unknown;
    text.trace_bytes =
        static_cast<int64_t>(std::filesystem::file_size(folder.path() + "/trace.pftrace", unknown));
  }
  text.wall = wall;
  return Print(ColoredSummary(Harmless(replayer::SummaryText(summary, text)),
                              ShowsColor(context.options.color, STDOUT_FILENO)));
}

// Writes the files of the run.
Result<replayer::Summary> Report(const RunContext& context,
                                 const RunRecord& record,
                                 const StopWatch& whole,
                                 RunOutcome* outcome,
                                 OutputFolder* folder) {
  const StopWatch report;
  replayer::SummaryInput input;
  input.graph = &outcome->graph;
  input.result = &outcome->result;
  input.low_ns = outcome->low_ns;
  input.high_ns = outcome->high_ns;
  input.graph_bytes = static_cast<int64_t>(outcome->graph_bytes.size());
  input.warnings = outcome->replay_warnings;
  for (const std::vector<graph::Warning>& more : {outcome->warnings, context.warnings}) {
    input.warnings.insert(input.warnings.end(), more.begin(), more.end());
  }
  input.odd_iterations = outcome->odd_iterations;
  input.phases = outcome->phases;
  input.device = NameOf(kDeviceNames, context.options.device);
  if (context.gpu) {
    input.device_scale = context.options.device_scale;
  }
  replayer::Summary summary = replayer::Summarise(input);
  PRISM_RETURN_IF_ERROR(WriteResultFiles(context, *outcome, summary, folder));
  outcome->wall.report_s = report.Seconds();
  outcome->wall.total_s = whole.Seconds();
  PRISM_RETURN_IF_ERROR(folder->Write("run.json", RunJson(record, *outcome)));
  PRISM_RETURN_IF_ERROR(folder->Commit());
  return summary;
}

// What remains to be reported after a run has written its files.
struct RunSummary {
  replayer::Summary summary;
  std::string wall;
  DurationNs emulated_ns = 0;  // steady iteration
  DurationNs replayed_ns = 0;  // of the graph before any emulation
};

Status CheckStrict(const std::vector<graph::Warning>& warnings) {
  if (warnings.empty()) {
    return OkStatus();
  }
  const graph::Warning& first = warnings.front();
  return GateNotMet(fmt::format("--strict: {} kind{} of warnings, the first {}: {}",
                                warnings.size(), warnings.size() == 1 ? "" : "s", first.code,
                                first.example));
}

// "+12.3 %", "+49500 %".
std::string PercentText(double percent) {
  return std::abs(percent) < 100 ? fmt::format("{:+.3g} %", percent)
                                 : fmt::format("{:+.0f} %", percent);
}

// Checks the emulated iteration time against the replayed one.
Status CheckError(double allowed_pct, const RunSummary& run) {
  const double emulated = SecondsFromNs(run.emulated_ns);
  const double replayed = SecondsFromNs(run.replayed_ns);
  const double error_pct = emulated == replayed ? 0 : 100 * (emulated / replayed - 1);
  if (std::abs(error_pct) <= allowed_pct) {
    return OkStatus();
  }
  return GateNotMet(
      fmt::format("--max-error {}: an iteration takes {:.6g} s with the sandbox ranks and {:.6g} s "
                  "in the replay of the graph: {}",
                  allowed_pct, emulated, replayed, PercentText(error_pct)));
}

Status CheckGates(const Options& options, const RunSummary& run) {
  if (options.max_error_pct) {
    PRISM_RETURN_IF_ERROR(CheckError(*options.max_error_pct, run));
  }
  return options.strict ? CheckStrict(run.summary.warnings) : OkStatus();
}

// All stages, then the files.
Result<RunSummary> RunAndReport(const RunContext& context,
                                Master& master,
                                RunRecord record,
                                const StopWatch& whole,
                                OutputFolder* folder) {
  const double plan_s = whole.Seconds();
  PRISM_ASSIGN_OR_RETURN(RunOutcome outcome, master.Run());
  outcome.wall.plan_s = plan_s;
  record.max_rss_bytes = master.max_rss_bytes();
  record.graph_hash = HashText(outcome.graph_bytes);
  RunSummary finished;
  PRISM_ASSIGN_OR_RETURN(finished.summary, Report(context, record, whole, &outcome, folder));
  finished.wall = WallText(outcome);
  finished.emulated_ns = outcome.result.steady_iteration_ns();
  finished.replayed_ns = outcome.replayed_ns;
  return finished;
}

Result<KeptRanks> OpenKept(const RunContext& context, const std::string& output_folder) {
  PRISM_ASSIGN_OR_RETURN(const RunKey key, KeyOfRun(context));
  return KeptRanks::Open(output_folder + ".recorded", key, context.logger);
}

// Process 0.
Status RunAsMaster(RunContext& context,
                   MpiSession& session,
                   const std::vector<std::string>& command,
                   const StopWatch& whole) {
  Result<OutputFolder> folder = OutputFolder::Create(ChooseOutput(context));
  Progress progress(kProgram, context.options.quiet || context.options.interactive ||
                                  context.options.log_level < LogLevel::kInfo);
  Master master(context, session, progress);
  std::optional<KeptRanks> kept;
  if (!folder.ok()) {
    master.Stop(folder.status());
    return folder.status();
  }
  if (context.options.resume) {
    Result<KeptRanks> opened = OpenKept(context, folder->path());
    if (!opened.ok()) {
      master.Stop(opened.status());
      return opened.status();
    }
    master.Resume(&kept.emplace(*std::move(opened)));
  }
  RunRecord record;
  record.command = command;
  record.launch = context.options.launch;
  record.processes = session.size();
  record.inputs = context.inputs;
  record.versions = VersionsOf(context, session);
  const Result<RunSummary> run = RunAndReport(context, master, record, whole, &*folder);
  if (!run.ok()) {
    folder->CommitFailure(run.status().message());
    if (kept) {
      context.logger.Info("what was recorded is in {}; --resume goes on from there",
                          kept->folder());
    }
    return run.status();
  }
  if (kept) {
    kept->Remove();
  }
  PRISM_RETURN_IF_ERROR(PrintReport(context, run->summary, *folder, run->wall));
  return CheckGates(context.options, *run);
}

// The output of what needs no run; null if a run is asked for.
std::optional<std::string> Answer(const CommandLine& line) {
  if (line.show_help) {
    return HelpText();
  }
  return line.show_version ? std::make_optional(VersionText(kProgram)) : std::nullopt;
}

int Run(const std::vector<std::string>& arguments) {
  if (IsStandIn(arguments.front())) {
    return RunStandIn(arguments);
  }
  const StopWatch whole;
  Result<CommandLine> line =
      ParseCommandLine(std::vector<std::string>(arguments.begin() + 1, arguments.end()));
  if (!line.ok()) {
    return Fail(kProgram, line.status());
  }
  if (const std::optional<std::string> answer = Answer(*line)) {
    return Say(kProgram, *answer);
  }
  Result<RunContext> context = PlanRun(line->options);
  if (!context.ok()) {
    return Fail(kProgram, NamingOrigins(line->options, context.status()), line->options.color);
  }
  if (MpiSession::LaunchedRank() == 0) {
    for (const std::string& variable : line->unknown_variables) {
      context->logger.Info("{} is set in the environment, but is not an option", variable);
    }
  }
  if (context->options.print_config) {
    return Say(kProgram, ConfigText(context->options, context->job));
  }
  // The others write nothing there.
  if (MpiSession::LaunchedRank() == 0) {
    const Status output = OutputFolder::Check(ChooseOutput(*context));
    if (!output.ok()) {
      return Fail(kProgram, output, context->options.color);
    }
  }
  if (context->options.dry_run) {
    return Say(kProgram, context->options.format == OutputFormat::kJson ? PlanJson(*context)
                                                                        : PlanText(*context));
  }
  InstallInterruptHandlers();
  const Status found = FindPaths(&*context);
  if (!found.ok()) {
    return Fail(kProgram, found, context->options.color);
  }
  context->tells_lines = ChecksProgram(*context);
  if (context->options.graph.empty() && context->paths.torch) {
    context->job.facts.torch = context->paths.torch->version;
  }
  Result<MpiSession> session = MpiSession::Start();
  if (!session.ok()) {
    return Fail(kProgram, session.status(), context->options.color);
  }
  session->SetHostTimeout(context->options.host_timeout_s);
  if (session->rank() != 0) {
    return ServeAsWorker(*context, *session);
  }
  const Status status = RunAsMaster(*context, *session, arguments, whole);
  if (status.ok()) {
    return kExitOk;
  }
  std::string message = status.message();
  if (const size_t more = message.find(kOutputHeading); more != message.npos) {
    message.insert(more, "\nmore in the file FAILED of the output folder");
  }
  const int code = Fail(kProgram, Status(status.code(), message), context->options.color);
  if (!InterruptStatus().ok()) {
    session->Abort(code);  // other processes may be gone already: no normal end
  }
  return code;
}

}  // namespace
}  // namespace prism::launch

int main(int argc, char** argv) {
  return prism::launch::Run(std::vector<std::string>(argv, argv + argc));
}
