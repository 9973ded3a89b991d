// prism mem: what fills the device of one rank at its peak; of a memory snapshot of torch, what its
// allocator did and what other settings would have taken.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "graph/base/units.h"
#include "graph/describe.h"
#include "graph/job/names.h"
#include "graph/validate/valid_graph.h"
#include "launch/analyse/memory/snapshot_report.h"
#include "launch/cli/verb.h"
#include "replayer/memory/approximated_peaks.h"
#include "replayer/memory/worst_rank.h"
#include "slicer/import/source_files.h"

namespace prism::launch {
namespace {

struct MemOptions {
  std::optional<int64_t> rank;
  std::optional<int64_t> device;
  std::vector<std::string> settings;
};

const char* MarkName(graph::Mark mark) {
  return NameOf(graph::kMarkNames, mark);
}

std::vector<graph::MemoryClass> LargestFirst(std::vector<graph::MemoryClass> classes) {
  std::stable_sort(classes.begin(), classes.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return classes;
}

// Which part of a rank's device memory is shown.
struct MemoryView {
  const graph::Graph& graph;
  Rank rank;
  Rank worst;

  [[nodiscard]] const graph::Role& role() const { return graph.role_of(rank); }
  [[nodiscard]] const graph::MemoryProfile& memory() const { return role().memory; }
  [[nodiscard]] graph::RankSource source() const { return graph.ranks.source[rank.value()]; }
  [[nodiscard]] bool recorded() const { return graph.WasRecorded(role()); }
};

std::string Line(const std::string& name, int64_t bytes, const std::string& remark = {}) {
  const std::string text =
      fmt::format("  {:<24}{:>12}  {:>20}", name, FormatBytes(bytes), FormatCount(bytes));
  return remark.empty() ? text + "\n" : fmt::format("{}  {}\n", text, remark);
}

std::string ClassLines(const std::vector<graph::MemoryClass>& classes) {
  std::string text;
  for (const graph::MemoryClass& part : LargestFirst(classes)) {
    text += Line("  " + part.name, part.bytes, MarkName(part.mark));
  }
  return text;
}

// For a rank that was not recorded and is only similar to its role: how far recorded ones were from
// it.
std::optional<replayer::PeakSpread> SpreadOf(const MemoryView& view) {
  if (view.source() != graph::RankSource::kApproximated) {
    return std::nullopt;
  }
  return replayer::SpreadOfApproximated(view.graph, view.role().stage);
}

std::string ApproximatedLine(const MemoryView& view) {
  const auto spread = SpreadOf(view);
  if (!spread) {
    return {};
  }
  const int64_t peak = view.memory().peak_allocated;
  return fmt::format("  {:<24}{} to {} bytes, as {} recorded ranks like it have\n", "  within",
                     FormatCount(peak - spread->below), FormatCount(peak + spread->above),
                     spread->ranks);
}

std::string MemText(const MemoryView& view) {
  const graph::MemoryProfile& memory = view.memory();
  std::string source = fmt::format("source {}", graph::RankSourceName(view.source()));
  if (!view.recorded()) {
    source += ", predicted";
  } else if (view.source() == graph::RankSource::kRole) {
    source += fmt::format(", recorded on rank {}", view.role().representative.value());
  } else if (view.source() == graph::RankSource::kApproximated) {
    source += fmt::format(" rank {}, which was recorded", view.role().representative.value());
  }
  std::string text = fmt::format("rank {} ({}; {})\n", view.rank.value(), view.role().name, source);
  text += Line("device memory", memory.device_bytes(),
               fmt::format("of {}", FormatBytes(view.graph.cluster.gpu.memory_bytes)));
  text += Line("allocated at the peak", memory.peak_allocated);
  text += ApproximatedLine(view);
  text += ClassLines(memory.at_peak);
  text += Line("reserved, not allocated", memory.peak_reserved - memory.peak_allocated);
  text += Line("outside the allocator", memory.outside_bytes());
  text += ClassLines(memory.outside);
  if (view.recorded()) {
    text += fmt::format("  {:<24}{} in {}\n", "op at the peak",
                        memory.peak_op.empty() ? "none" : memory.peak_op,
                        memory.peak_phase.empty() ? "no phase" : memory.peak_phase);
    text += Line("between iterations", memory.steady_allocated, "allocated");
  }
  const graph::MemoryProfile& worst = view.graph.role_of(view.worst).memory;
  text +=
      Line("worst rank of the job", worst.device_bytes(),
           fmt::format("rank {} ({})", view.worst.value(), view.graph.role_of(view.worst).name));
  return text;
}

void WriteClasses(const std::vector<graph::MemoryClass>& classes, JsonWriter* json) {
  json->BeginArray();
  for (const graph::MemoryClass& part : LargestFirst(classes)) {
    json->BeginObject();
    json->Field("name", part.name).Field("bytes", part.bytes).Field("mark", MarkName(part.mark));
    json->EndObject();
  }
  json->EndArray();
}

std::string MemJson(const MemoryView& view) {
  const graph::MemoryProfile& memory = view.memory();
  return JsonText([&](JsonWriter& json) {
    json.Field("rank", view.rank.value()).Field("role", view.role().name);
    json.Field("source", graph::RankSourceName(view.source()));
    view.recorded() ? json.Field("recorded_rank", view.role().representative.value())
                    : json.NullField("recorded_rank");
    json.Field("device_bytes", memory.device_bytes());
    json.Field("device_capacity_bytes", view.graph.cluster.gpu.memory_bytes);
    json.Field("peak_allocated_bytes", memory.peak_allocated);
    if (const auto spread = SpreadOf(view)) {
      json.Field("peak_allocated_low_bytes", memory.peak_allocated - spread->below);
      json.Field("peak_allocated_high_bytes", memory.peak_allocated + spread->above);
    }
    json.Field("peak_reserved_bytes", memory.peak_reserved);
    view.recorded() ? json.Field("steady_allocated_bytes", memory.steady_allocated)
                    : json.NullField("steady_allocated_bytes");
    json.Key("at_peak");
    WriteClasses(memory.at_peak, &json);
    json.Key("outside");
    WriteClasses(memory.outside, &json);
    json.Field("peak_op", memory.peak_op).Field("peak_phase", memory.peak_phase);
    json.Key("worst_rank").BeginObject();
    json.Field("rank", view.worst.value());
    json.Field("device_bytes", view.graph.role_of(view.worst).memory.device_bytes());
    json.EndObject();
  });
}

Result<VerbOutput> ReportSnapshot(const VerbArguments& arguments, const MemOptions& options) {
  if (options.rank) {
    return InvalidArgument("--rank does not apply to a memory snapshot; choose with --device");
  }
  const std::string& path = arguments.operands().front();
  PRISM_ASSIGN_OR_RETURN(const slicer::SourceFiles opened, slicer::SourceFiles::Open({path}));
  PRISM_ASSIGN_OR_RETURN(const SnapshotFile file,
                         ReadSnapshot(opened.sources().front().bytes, path));
  PRISM_ASSIGN_OR_RETURN(
      const TableReport report,
      ReportOfSnapshot(file, {options.device.value_or(-1), options.settings}, path));
  return VerbOutput{arguments.as_json() ? TablesJson(report) : TablesText(report)};
}

Result<VerbOutput> RunMem(const VerbArguments& arguments, const MemOptions& options) {
  const std::string& path = arguments.operands().front();
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored) &&
      IsPickle(slicer::BeginningOf(path, kPickleBegin))) {
    return ReportSnapshot(arguments, options);
  }
  if (options.device || !options.settings.empty()) {
    return InvalidArgument("--device and --settings are for memory snapshots; leave them out");
  }
  PRISM_ASSIGN_OR_RETURN(const graph::LoadedGraph loaded, graph::LoadValidGraph(path));
  const Rank worst = replayer::WorstRank(loaded.graph);
  if (loaded.graph.role_of(worst).memory.device_bytes() == 0) {
    return BadFile(
        fmt::format("{}: has no memory of any rank, like every imported graph; record the job with "
                    "prism-emulate",
                    path));
  }
  const int64_t rank = options.rank.value_or(worst.value());
  PRISM_RETURN_IF_ERROR(CheckRank(rank, loaded.graph));
  const MemoryView view = {loaded.graph, Rank(static_cast<uint32_t>(rank)), worst};
  return VerbOutput{arguments.as_json() ? MemJson(view) : MemText(view)};
}

}  // namespace

Verb MemVerb() {
  return MakeVerb<MemOptions>(
      {"mem",
       "GRAPH|SNAPSHOT",
       "what fills the device memory of one rank at its peak",
       "source: recorded (this rank ran while recording), sandbox (it ran in the emulation),\n"
       "role (as the recorded rank of its role, or predicted if none was recorded) or like (its\n"
       "role communicates the same way, but its optimizer shards differ, so the peak is a "
       "range).\n"
       "SNAPSHOT is what torch.cuda.memory._dump_snapshot writes: what is in use and free, the "
       "peak\nof its history, and the memory that other settings of the allocator would take.\n",
       1,
       1,
       {},
       {},
       true},
      {{"rank", &MemOptions::rank, AnyRank(), "global rank", "the worst"},
       {"device", &MemOptions::device, WholeNumber(0, 1023), "number of the device (snapshots)",
        "that of the most reserved memory"},
       {"settings", &MemOptions::settings, Text("PYTORCH_ALLOC_CONF"),
        "settings to simulate, in addition to the usual ones (snapshots); several times for "
        "several",
        "none"}},
      RunMem);
}

}  // namespace prism::launch
