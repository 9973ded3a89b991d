// prism-emulate: parse, plan, run the stages, report, exit code.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/hash.h"
#include "launch/exit_codes.h"
#include "launch/options/options.h"
#include "launch/process/interrupt.h"
#include "launch/process/mpi_session.h"
#include "launch/process/stop_watch.h"
#include "launch/run/master.h"
#include "launch/run/output_folder.h"
#include "launch/run/progress.h"
#include "launch/run/run_context.h"
#include "launch/run/run_plan.h"
#include "launch/run/run_report.h"
#include "launch/run/worker.h"
#include "launch/version.h"
#include "replayer/report/json.h"
#include "replayer/report/text.h"

namespace prism::launch {
namespace {

void Print(std::FILE* file, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

int Fail(const Status& status) {
  Print(stderr, fmt::format("prism-emulate: {}\n", status.message()));
  return ExitCode(status);
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
  input.warnings = outcome->warnings;
  input.warnings.insert(input.warnings.end(), context.warnings.begin(), context.warnings.end());
  input.device = DeviceName(context.options.device);
  if (context.gpu) {
    input.device_scale = context.options.device_scale;
  }
  const replayer::Summary summary = replayer::Summarise(input);
  PRISM_RETURN_IF_ERROR(WriteResultFiles(context, *outcome, summary, folder));
  outcome->wall.report_s = report.Seconds();
  outcome->wall.total_s = whole.Seconds();
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
                   const StopWatch& whole) {
  const double plan_s = whole.Seconds();
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
    status = Report(context, record, whole, &*outcome, &*folder);
  }
  if (!status.ok() && status.code() != StatusCode::kGateNotMet) {
    folder->CommitFailure(status.message());
  }
  return status;
}

int Run(const std::vector<std::string>& arguments) {
  const StopWatch whole;
  Result<CommandLine> line =
      ParseCommandLine(std::vector<std::string>(arguments.begin() + 1, arguments.end()));
  if (!line.ok()) {
    return Fail(line.status());
  }
  if (line->show_help || line->show_version) {
    Print(stdout, line->show_help ? HelpText() : fmt::format("prism-emulate {}\n", kVersion));
    return kExitOk;
  }
  Result<RunContext> context = PlanRun(line->options);
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
  Result<InstallPaths> paths = FindInstallPaths(context->gpu.has_value());
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
  const Status status = RunAsMaster(*context, *session, arguments, whole);
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
