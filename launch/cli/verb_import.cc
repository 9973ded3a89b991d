// prism import: replay formats of others → a graph.
#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/base/json_writer.h"
#include "graph/base/units.h"
#include "graph/file.h"
#include "graph/validate/limits.h"
#include "launch/cli/verb.h"
#include "launch/inputs/named_format.h"
#include "launch/inputs/network_cluster.h"
#include "launch/inputs/presets.h"
#include "slicer/import/astra/network_file.h"
#include "slicer/import/astra/simai_topology.h"
#include "slicer/import/astra/workload_import.h"
#include "slicer/import/chakra/chakra_import.h"
#include "slicer/import/chakra/trace_names.h"
#include "slicer/import/goal/goal_import.h"
#include "slicer/import/kineto/kineto_import.h"

namespace prism::launch {
namespace {

using slicer::ImportOptions;
using slicer::ImportResult;

struct ImportArguments {
  std::string out;
  std::string cluster = "h100-8x";
  std::string groups;
  std::string network;
  int32_t target_gpus = 0;  // 0: as the files say
};

// What the command line says besides the files.
struct Settings {
  ImportOptions options;
  std::string groups;         // a file
  std::vector<int64_t> dims;  // ranks along each dimension of the network; none without one
  slicer::Notes notes;        // of the network
};

struct ImportFormat {
  const char* name;
  size_t max_files;
  Result<ImportResult> (*read)(std::vector<std::string> files, const Settings& settings);
  std::vector<std::string> flags;  // that apply to it
};

constexpr size_t kManyFiles = 1 << 20;

Result<ImportResult> ReadGoal(std::vector<std::string> files, const Settings& settings) {
  return slicer::ImportGoal(files.front(), settings.options);
}

Result<ImportResult> ReadChakra(std::vector<std::string> files, const Settings& settings) {
  slicer::ChakraOptions chakra;
  chakra.groups_file = settings.groups;
  chakra.dims = settings.dims;
  return slicer::ImportChakra(files, settings.options, chakra);
}

Result<ImportResult> ReadLayers(const std::vector<std::string>& files,
                                const Settings& settings,
                                slicer::LayerDialect dialect) {
  slicer::LayerOptions layers;
  layers.dialect = dialect;
  layers.dims = settings.dims;
  return slicer::ImportLayers(files.front(), settings.options, layers);
}

Result<ImportResult> ReadAstra(std::vector<std::string> files, const Settings& settings) {
  return ReadLayers(files, settings, slicer::LayerDialect::kAstra);
}

Result<ImportResult> ReadSimAi(std::vector<std::string> files, const Settings& settings) {
  return ReadLayers(files, settings, slicer::LayerDialect::kSimAi);
}

Result<ImportResult> ReadKineto(std::vector<std::string> files, const Settings& settings) {
  return slicer::ImportKineto(files, settings.options);
}

const std::vector<ImportFormat>& Formats() {
  static const std::vector<ImportFormat> kImportFormats = {
      {"goal", 1, ReadGoal, {}},
      {"chakra", kManyFiles, ReadChakra, {"groups", "network", "target-gpus"}},
      {"astra", 1, ReadAstra, {"network", "target-gpus"}},
      {"simai", 1, ReadSimAi, {"network", "target-gpus"}},
      {"kineto", kManyFiles, ReadKineto, {"target-gpus"}},
  };
  return kImportFormats;
}

std::string ResultText(const ImportResult& result, const std::string& out) {
  const graph::Graph& graph = result.graph;
  std::string text =
      fmt::format("{}: {} in {}, {} ops an iteration, {}\n", out,
                  FormatCounted(static_cast<int64_t>(graph.ranks.size()), "rank"),
                  FormatCounted(static_cast<int64_t>(graph.roles.size()), "role"),
                  FormatCount(graph.OpsPerIteration()),
                  FormatCounted(static_cast<int64_t>(graph.communicators.size()), "communicator"));
  text += fmt::format("  read      {} of {}\n", FormatCounted(result.tasks, "task"),
                      FormatBytes(result.bytes_read));
  for (const std::string& line : result.notes.Lines()) {
    text += fmt::format("  assumed   {}\n", line);
  }
  return text;
}

std::string ResultJson(const ImportResult& result, const std::string& out) {
  const graph::Graph& graph = result.graph;
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Field("graph", out).Field("job", graph.job.name).Field("cluster", graph.cluster.name);
  json.Field("ranks", graph.ranks.size()).Field("roles", graph.roles.size());
  json.Field("ops", graph.OpsPerIteration()).Field("communicators", graph.communicators.size());
  json.Field("tasks", result.tasks).Field("bytes_read", result.bytes_read);
  json.Key("assumptions").BeginArray();
  for (const auto& [what, count] : result.notes.counts()) {
    json.BeginObject().Field("what", what).Field("count", count).EndObject();
  }
  json.EndArray().EndObject();
  return text + "\n";
}

// An ASTRA-sim or SimAI network file: its shape and speed.
Status ReadNetwork(const std::string& path, Settings* settings) {
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  PRISM_ASSIGN_OR_RETURN(const slicer::AstraNetwork network,
                         slicer::IsSimAiTopology(text) ? slicer::ParseSimAiTopology(text, path)
                                                       : slicer::ParseAstraNetwork(text, path));
  settings->dims = network.ranks;
  return UseNetwork(network, path, &settings->options.cluster, &settings->notes);
}

Result<Settings> ReadSettings(const VerbArguments& arguments,
                              const ImportArguments& asked,
                              const ImportFormat& format) {
  for (const char* flag : {"groups", "network", "target-gpus"}) {
    const bool known =
        std::find(format.flags.begin(), format.flags.end(), flag) != format.flags.end();
    if (arguments.Has(flag) && !known) {
      return InvalidArgument(
          fmt::format("--{} does not apply to {}; leave it out", flag, format.name));
    }
  }
  Settings settings;
  settings.groups = asked.groups;
  settings.options.target_gpus = asked.target_gpus;
  PRISM_ASSIGN_OR_RETURN(settings.options.cluster, LoadCluster(asked.cluster));
  if (!asked.network.empty()) {
    PRISM_RETURN_IF_ERROR(ReadNetwork(asked.network, &settings));
  }
  return settings;
}

// The named files; for a prefix, those of all ranks.
Result<std::vector<std::string>> FilesOf(const VerbArguments& arguments,
                                         const ImportFormat& format) {
  std::vector<std::string> files(arguments.operands().begin() + 1, arguments.operands().end());
  std::error_code ignored;
  if (format.max_files == 1 || files.size() > 1 ||
      std::filesystem::exists(files.front(), ignored)) {
    return files;
  }
  std::vector<std::string> traces = slicer::TracesOf(files.front());
  if (traces.empty()) {
    return files;
  }
  PRISM_RETURN_IF_ERROR(slicer::SortByRank(&traces));
  return traces;
}

// The groups file that we export beside a set of traces is needed to read them again.
Status WithGroupsFile(const Status& status, const VerbArguments& arguments) {
  const std::string groups = arguments.operands()[1] + ".groups.json";
  std::error_code ignored;
  const bool left_out = arguments.operands()[0] == "chakra" && !arguments.Has("groups") &&
                        std::filesystem::exists(groups, ignored);
  return left_out ? status.WithContext("without --groups " + groups) : status;
}

Result<VerbOutput> RunImportVerb(const VerbArguments& arguments, const ImportArguments& asked) {
  PRISM_ASSIGN_OR_RETURN(const ImportFormat* const format,
                         FindFormat(Formats(), arguments.operands().front()));
  PRISM_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(arguments, *format));
  if (files.size() > format->max_files) {
    return InvalidArgument(fmt::format("{} takes one file, got {}", format->name,
                                       FormatCount(static_cast<int64_t>(files.size()))));
  }
  const std::string& out = asked.out;
  if (out.empty()) {
    return InvalidArgument("no output file; name one with -o GRAPH");
  }
  PRISM_RETURN_IF_ERROR(arguments.CheckOutput("o", files));
  PRISM_ASSIGN_OR_RETURN(const Settings settings, ReadSettings(arguments, asked, *format));
  Result<ImportResult> read = format->read(files, settings);
  if (!read.ok()) {
    return WithGroupsFile(read.status(), arguments);
  }
  ImportResult result = std::move(*read);
  result.notes.Add(settings.notes);
  result.graph.assumptions = result.notes.Lines();
  PRISM_RETURN_IF_ERROR(graph::WriteGraph(result.graph, out));
  VerbOutput output;
  output.text =
      arguments.format() == OutputFormat::kJson ? ResultJson(result, out) : ResultText(result, out);
  return output;
}

}  // namespace

Verb ImportVerb() {
  using A = ImportArguments;
  return MakeVerb<A>(
      {"import",
       "FORMAT FILE...",
       "make a graph from another tool's workload",
       "  goal    a GOAL schedule (LogGOPSim, ATLAHS), text or binary\n"
       "  chakra  Chakra execution traces, PREFIX.<rank>.et of every rank; PREFIX alone takes "
       "all;\n"
       "          one trace with --target-gpus N: N ranks that do the same; .et.gz works too\n"
       "  astra   an ASTRA-sim text workload, one layer per line\n"
       "  simai   the same, as SimAI's AICB writes it\n"
       "  kineto  profiles of torch.profiler, one per rank, .json or .json.gz: one step of each,\n"
       "          with the measured times of kernels and host; --target-gpus N: a larger job of\n"
       "          ranks like them\n"
       "What the file leaves open is counted and listed among the graph's assumptions. A file "
       "that\n"
       "is damaged or cannot run gives exit code 3 and no graph. A schedule runs once, but\n"
       "prism replay repeats it: --iterations 1 gives its time from start to end.\n",
       2,
       kManyFiles,
       {},
       FormatNames(Formats())},
      {{"o", &A::out, Text("GRAPH"), "the file to write", "needed"},
       {"cluster", &A::cluster, Text("PRESET|FILE", PresetNames(PresetKind::kCluster)),
        "cluster preset or file that messages and collectives are timed on"},
       {"groups", &A::groups, Text("FILE"), "ASTRA-sim's communicator groups, JSON (chakra)",
        "none"},
       {"network", &A::network, Text("FILE"),
        "ASTRA-sim's network or SimAI's topology: size, rates and latency of each dimension, "
        "instead of the cluster's (chakra, astra, simai)",
        "none"},
       {"target-gpus", &A::target_gpus, WholeNumber(1, graph::kMaxRanks),
        "ranks of the graph (chakra, astra, simai, kineto)", "as the files say"}},
      RunImportVerb);
}

}  // namespace prism::launch
