#include "launch/emulate/run/run_report.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "graph/base/time.h"
#include "graph/base/units.h"
#include "graph/describe.h"
#include "launch/emulate/run/forecast.h"
#include "launch/emulate/run/program_layout.h"
#include "launch/inputs/options.h"
#include "launch/version.h"
#include "replayer/report/csv.h"
#include "replayer/report/json.h"
#include "replayer/report/perfetto.h"
#include "replayer/report/text.h"
#include "shim/channel/versions.h"

namespace prism::launch {
namespace {

std::string RankTexts(const std::vector<Rank>& ranks) {
  if (ranks.empty()) {
    return "none";
  }
  std::vector<uint32_t> numbers;
  for (const Rank rank : ranks) {
    numbers.push_back(rank.value());
  }
  return fmt::format("{}", fmt::join(numbers, ", "));
}

// Nothing is known about a user's program before some of its ranks have run.
std::string ProgramPlanText(const RunContext& context) {
  const graph::ParallelSizes& sizes = context.job.parallel;
  std::string given;
  for (const auto& [name, size] : {std::pair{"tp", sizes.tp}, std::pair{"pp", sizes.pp}}) {
    given += size > 1 ? fmt::format(", {} {} given", name, size) : "";
  }
  std::string text =
      fmt::format("{} on {} × {} ({})\n", context.job.name, FormatCount(sizes.world_size()),
                  context.cluster.gpu.name, context.cluster.name);
  text += fmt::format("  layout         from the program's groups{}\n", given);
  text += "  roles          from ranks recorded along each axis of the layout\n";
  const slicer::ProbeOptions options = MakeProbeOptions(context);
  if (const auto first = slicer::NextProbe(options, {}); first.ok()) {
    text += fmt::format("  record         {} first: {}\n",
                        FormatCounted(static_cast<int64_t>(first->record.size()), "rank"),
                        RankTexts(first->record));
  }
  return text + fmt::format("  sandbox ranks  {}\n", context.options.sandbox_ranks);
}

std::string ForecastText(const RunContext& context) {
  const std::optional<Forecast> forecast = ForecastOf(context);
  if (!forecast) {
    return "";
  }
  std::string text;
  if (const auto& time = forecast->iteration_time_s) {
    text += fmt::format("  forecast       {:.{}f} s an iteration\n", *time,
                        replayer::TimeDecimals(*time));
  }
  const replayer::PeakMemory& peak = forecast->peak_memory;
  if (peak.is_known()) {
    const int64_t capacity = context.cluster.gpu.memory_bytes;
    text += fmt::format("  {:<13}  about {} on rank {}, which needs most; a GPU has {}{}\n",
                        text.empty() ? "forecast" : "", FormatBytes(peak.device_bytes),
                        peak.rank.value(), FormatBytes(capacity),
                        peak.device_bytes > capacity ? ", too little" : "");
  }
  if (const auto& search = forecast->search) {
    text += fmt::format("  prism search   {:.{}f} s for this plan under {}{}{}\n",
                        search->iteration_time_s, replayer::TimeDecimals(search->iteration_time_s),
                        search->framework, search->differences.empty() ? "" : "; it differs in: ",
                        fmt::join(search->differences, ", "));
  }
  return text;
}

void WriteForecast(const RunContext& context, JsonWriter* json) {
  const std::optional<Forecast> forecast = ForecastOf(context);
  if (!forecast) {
    json->NullField("forecast");
    return;
  }
  json->Key("forecast").BeginObject();
  json->OptionalField("iteration_time_s", forecast->iteration_time_s);
  if (const auto& search = forecast->search) {
    json->Key("search").BeginObject();
    json->Field("framework", search->framework);
    json->Field("iteration_time_s", search->iteration_time_s);
    json->Key("differences").BeginArray();
    for (const std::string& difference : search->differences) {
      json->Value(difference);
    }
    json->EndArray().EndObject();
  } else {
    json->NullField("search");
  }
  replayer::WritePeakMemory(forecast->peak_memory, json);
  json->Field("gpu_memory_bytes", context.cluster.gpu.memory_bytes);
  json->EndObject();
}

}  // namespace

Status WriteResultFiles(const RunContext& context,
                        const RunOutcome& outcome,
                        const replayer::Summary& summary,
                        OutputFolder* folder) {
  PRISM_RETURN_IF_ERROR(folder->Write("summary.json", replayer::SummaryJson(summary)));
  PRISM_RETURN_IF_ERROR(
      folder->Write("ranks.csv", replayer::RanksCsv(outcome.graph, outcome.result)));
  PRISM_RETURN_IF_ERROR(folder->Write("communicators.csv",
                                      replayer::CommunicatorsCsv(outcome.graph, outcome.result)));
  PRISM_RETURN_IF_ERROR(folder->Write("graph.prism", outcome.graph_bytes));
  PRISM_RETURN_IF_ERROR(folder->Write("config.toml", ConfigText(context.options, context.job)));
  if (context.measured_host) {
    PRISM_RETURN_IF_ERROR(folder->Write("host.toml", HostCostsText(*context.measured_host)));
  }
  if (!outcome.result.timelines.empty()) {
    PRISM_RETURN_IF_ERROR(folder->WriteBy("trace.pftrace", [&](const std::string& path) {
      return replayer::WritePerfetto(outcome.graph, outcome.result.timelines, path);
    }));
  }
  for (const auto& [rank, log] : outcome.logs) {
    PRISM_RETURN_IF_ERROR(folder->Write(fmt::format("logs/rank{}.log", rank.value()), log));
  }
  for (const auto& [rank, snapshot] : outcome.snapshots) {
    PRISM_RETURN_IF_ERROR(
        folder->Write(fmt::format("memory/rank{}.pickle", rank.value()), snapshot));
  }
  return OkStatus();
}

// null for what is not known.
void WriteKnown(const std::string& key, const std::string& text, JsonWriter* json) {
  if (text.empty()) {
    json->NullField(key);
  } else {
    json->Field(key, text);
  }
}

std::string DottedVersion(int code, int major_step, int minor_step) {
  return fmt::format("{}.{}", code / major_step, code % major_step / minor_step);
}

LibraryVersions VersionsOf(const RunContext& context, const MpiSession& session) {
  LibraryVersions versions;
  versions.mpi = session.LibraryVersion();
  const Options& options = context.options;
  if (!options.graph.empty() && context.sandbox_ranks.empty()) {
    return versions;  // a replay alone
  }
  const DeviceLibraries& libraries = context.paths.virtual_device;
  const int cuda = context.gpu ? context.gpu->cuda_version : libraries.cuda_version;
  versions.cuda = cuda == 0 ? "" : DottedVersion(cuda, 1000, 10);
  const int nccl = libraries.nccl_version == 0 ? channel::kNcclVersion : libraries.nccl_version;
  versions.nccl = fmt::format("{}.{}", DottedVersion(nccl, 10'000, 100), nccl % 100);
  versions.torch = context.paths.torch ? context.paths.torch->version : "";
  return versions;
}

std::string RunJson(const RunRecord& record, const RunOutcome& outcome) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.ArrayField("command", record.command);
  if (const Launch& launch = record.launch; !launch.names.empty()) {
    json.Key("launcher").BeginObject();
    json.ArrayField("names", launch.names);
    WriteKnown("interpreter", launch.interpreter, &json);
    json.ArrayField("without_meaning", launch.ignored);
    json.ArrayField("notes", launch.notes);
    json.EndObject();
  }
  json.Key("versions").BeginObject();
  json.Field("prism", kVersion);
  for (const auto& [library, version] : {std::pair{"torch", &record.versions.torch},
                                         {"cuda", &record.versions.cuda},
                                         {"nccl", &record.versions.nccl},
                                         {"mpi", &record.versions.mpi}}) {
    WriteKnown(library, *version, &json);
  }
  json.EndObject();
  json.Key("input_hashes").BeginObject();
  json.Field("graph", record.graph_hash);
  json.Key("files").BeginObject();
  for (const auto& [path, hash] : record.inputs) {
    WriteKnown(path, hash, &json);
  }
  json.EndObject();
  json.EndObject();
  json.Field("processes", record.processes);
  const WallTimes& wall = outcome.wall;
  json.Key("wall").BeginObject();
  json.Field("plan_s", wall.plan_s);
  json.Field("slice_s", wall.slice_s);
  json.Field("build_s", wall.build_s);
  json.Field("replay_s", wall.replay_s);
  json.Field("emulate_s", wall.emulate_s);
  json.Field("report_s", wall.report_s);
  json.Field("total_s", wall.total_s);
  json.EndObject();
  if (outcome.checked_until.empty()) {
    json.NullField("check");
  } else {
    json.Key("check").BeginObject().Field("until", outcome.checked_until);
    json.Field("ranks", outcome.checked_ranks).EndObject();
  }
  json.Field("max_rss_bytes", record.max_rss_bytes);
  json.ArrayField("startup_s", outcome.startup_seconds);
  json.ArrayField("iteration_s", outcome.iteration_seconds);
  json.EndObject();
  return text + "\n";
}

// Recording counts as what its ranks' processes spent most of their time on.
std::string_view LargestPart(const RunOutcome& outcome) {
  const WallTimes& wall = outcome.wall;
  const double starts_s =
      std::reduce(outcome.startup_seconds.begin(), outcome.startup_seconds.end());
  const bool mostly_starts = starts_s > outcome.iterations_s;
  const std::vector<std::pair<double, std::string_view>> parts = {
      {wall.plan_s, "the plan"},
      {wall.slice_s, mostly_starts ? "starts of recorded ranks" : "iterations of recorded ranks"},
      {wall.build_s, "building the graph"},
      {wall.replay_s, "the replay"},
      {wall.emulate_s, "the emulation of sandbox ranks"},
      {wall.report_s, "the report"}};
  return std::ranges::max_element(parts)->second;
}

std::string WallText(const RunOutcome& outcome) {
  const WallTimes& wall = outcome.wall;
  return fmt::format(
      "{:.1f} s: plan {:.1f}, slice {:.1f}, build {:.1f}, replay {:.1f}, emulate {:.1f}, report "
      "{:.1f}; most for {}",
      wall.total_s, wall.plan_s, wall.slice_s, wall.build_s, wall.replay_s, wall.emulate_s,
      wall.report_s, LargestPart(outcome));
}

std::string PlanText(const RunContext& context) {
  if (context.job.user_program && context.options.graph.empty()) {
    return ProgramPlanText(context);
  }
  const graph::JobSpec& job = context.job;
  const graph::ParallelSizes& sizes = job.parallel;
  std::string text = fmt::format("{} on {} × {} ({})\n", job.name, FormatCount(sizes.world_size()),
                                 context.cluster.gpu.name, context.cluster.name);
  text += fmt::format("  layout         {} ({})\n", graph::LayoutText(job), context.layout_origin);
  if (job.seq_len > 0) {  // else nothing is known about the user's program
    text += fmt::format("  batch          {} of {} tokens, micro-batch {}, {} a rank\n",
                        FormatCounted(job.global_batch_size, "sequence"), FormatCount(job.seq_len),
                        job.micro_batch_size, FormatCounted(job.microbatches(), "micro-batch"));
  }
  text += fmt::format("  roles          {}\n", context.plan.roles.size());
  if (!context.options.graph.empty()) {
    text += fmt::format("  record         nothing: {} is reused\n", context.options.graph);
  } else {
    const std::vector<Rank> recorded = context.plan.RecordedRanks();
    text += fmt::format("  record         {}: {}\n",
                        FormatCounted(static_cast<int64_t>(recorded.size()), "rank"),
                        RankTexts(recorded));
  }
  text += fmt::format("  sandbox ranks  {}\n", RankTexts(context.sandbox_ranks));
  text += ForecastText(context);
  for (const std::string& line : context.model_assumptions) {
    text += fmt::format("  assumed        {}\n", line);
  }
  return text;
}

std::string PlanJson(const RunContext& context) {
  const graph::ParallelSizes& sizes = context.job.parallel;
  const bool is_open = context.job.user_program && context.options.graph.empty();
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  if (is_open) {
    json.Key("job").BeginObject();
    json.Field("name", context.job.name).Field("target_gpus", sizes.world_size()).EndObject();
  } else {
    replayer::WriteJob(
        context.job,
        context.job.user_program
            ? std::nullopt
            : std::optional<double>(static_cast<double>(graph::ModelParameters(context.job.model))),
        &json);
  }
  json.Field("cluster", context.cluster.name);
  if (is_open) {
    for (const char* key : {"layout", "layout_origin", "roles", "record", "sandbox_ranks"}) {
      json.NullField(key);
    }
  } else {
    json.Field("layout", graph::LayoutText(context.job));
    json.Field("layout_origin", context.layout_origin);
    json.Field("roles", context.plan.roles.size());
    const std::vector<Rank> recorded =
        context.options.graph.empty() ? context.plan.RecordedRanks() : std::vector<Rank>();
    json.ArrayField("record", graph::NumbersOf(recorded));
    json.ArrayField("sandbox_ranks", graph::NumbersOf(context.sandbox_ranks));
  }
  WriteForecast(context, &json);
  if (!context.model_assumptions.empty()) {
    json.ArrayField("assumptions", context.model_assumptions);
  }
  json.EndObject();
  return text + "\n";
}

}  // namespace prism::launch
