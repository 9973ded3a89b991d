// prism import: replay formats of others → a graph.

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
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
#include "launch/inputs/cluster_text.h"
#include "launch/inputs/measured_cluster.h"
#include "launch/inputs/named_format.h"
#include "launch/inputs/nccl_topology.h"
#include "launch/inputs/network_cluster.h"
#include "launch/inputs/presets.h"
#include "launch/inputs/topology_times.h"
#include "slicer/import/astra/network_file.h"
#include "slicer/import/astra/simai_topology.h"
#include "slicer/import/astra/workload_import.h"
#include "slicer/import/chakra/chakra_import.h"
#include "slicer/import/chakra/trace_names.h"
#include "slicer/import/goal/goal_import.h"
#include "slicer/import/kineto/kineto_import.h"
#include "slicer/import/nsys/nsys_file.h"

namespace prism::launch {
namespace {

using slicer::ImportOptions;
using slicer::ImportResult;

struct ImportArguments {
  std::string out;
  std::string cluster = "h100-8x";
  std::string groups;
  std::string network;
  std::string system;
  std::string range;        // NAME[:N]
  std::string time_unit;    // "": the format's
  int64_t step = -1;        // -1: that of median duration
  int32_t target_gpus = 0;  // 0: as the files say
};

// What the command line says besides the files.
struct Settings {
  ImportOptions options;
  std::string groups;         // a file
  std::vector<int64_t> dims;  // ranks along each dimension of the network; none without one
  slicer::AstraNetwork network;
  AstraSystem system;
  std::string time_unit;
  slicer::KinetoChoice choice;
  bool measured = true;  // collectives of profiles keep their measured times
  slicer::Notes notes;   // of the network
};

struct ImportFormat {
  const char* name;
  size_t max_files;
  // Null: it becomes no graph.
  Result<ImportResult> (*read)(std::vector<std::string> files, const Settings& settings);
  std::vector<std::string> flags;  // that apply to it
};

constexpr size_t kManyFiles = 1 << 20;

Result<ImportResult> ReadGoal(std::vector<std::string> files, const Settings& settings) {
  return slicer::ImportGoal(files.front(), settings.options);
}

// Of the system file if it says it, else as the cluster's GPU computes large products.
slicer::ChakraRoofline RooflineOf(const Settings& settings) {
  const AstraSystem& system = settings.system;
  if (system.flops_per_s > 0 && system.bytes_per_s > 0) {
    return {system.flops_per_s, system.bytes_per_s, 0, system.is_roofline,
            "compute nodes take the time of the system file's roofline"};
  }
  const graph::ParameterTable& table = settings.options.cluster.parameters;
  return {table.Value("gpu.peak_bf16_flops") * table.Value("gpu.matmul_efficiency"),
          table.Value("gpu.hbm_bytes_per_s") * table.Value("gpu.hbm_efficiency"),
          static_cast<DurationNs>(table.Value("gpu.kernel_floor_ns")), false,
          "compute nodes without a duration take the time of num_ops and tensor_size on the "
          "cluster's GPU, as large products of bf16"};
}

Result<ImportResult> ReadChakra(std::vector<std::string> files, const Settings& settings) {
  slicer::ChakraOptions chakra;
  chakra.groups_file = settings.groups;
  chakra.dims = settings.dims;
  chakra.roofline = RooflineOf(settings);
  return slicer::ImportChakra(files, settings.options, chakra);
}

Result<ImportResult> ReadLayers(const std::vector<std::string>& files,
                                const Settings& settings,
                                slicer::LayerDialect dialect) {
  slicer::LayerOptions layers;
  layers.dialect = dialect;
  layers.dims = settings.dims;
  layers.unit_ns = settings.time_unit == "ns" ? 1 : settings.time_unit == "us" ? kNsPerUs : 0;
  return slicer::ImportLayers(files.front(), settings.options, layers);
}

Result<ImportResult> ReadAstra(std::vector<std::string> files, const Settings& settings) {
  return ReadLayers(files, settings, slicer::LayerDialect::kAstra);
}

Result<ImportResult> ReadSimAi(std::vector<std::string> files, const Settings& settings) {
  return ReadLayers(files, settings, slicer::LayerDialect::kSimAi);
}

// The cluster and the transfers of what profiles gave.
Result<ImportResult> WithMeasured(Result<ImportResult> read, const Settings& settings) {
  PRISM_ASSIGN_OR_RETURN(ImportResult result, std::move(read));
  graph::Graph& graph = result.graph;
  if (settings.measured) {
    PRISM_ASSIGN_OR_RETURN(const std::optional<graph::ClusterSpec> cluster,
                           ClusterOfGpu(result.gpu, result.gpu_bytes));
    graph.cluster = cluster.value_or(graph.cluster);
    result.notes.Add(
        cluster ? fmt::format("the cluster is {}, by the GPU of the profiles", cluster->name)
                : fmt::format("the cluster is {}; --cluster names another", graph.cluster.name));
  }
  if (std::optional<graph::Warning> differ = MeasuredTransfersDiffer(graph)) {
    graph.warnings.push_back(*std::move(differ));
  }
  if (!settings.measured) {
    UseModelledTransfers(&graph);
  }
  return result;
}

Result<ImportResult> ReadKineto(std::vector<std::string> files, const Settings& settings) {
  return WithMeasured(slicer::ImportKineto(files, settings.options, settings.choice), settings);
}

Result<ImportResult> ReadNsys(std::vector<std::string> files, const Settings& settings) {
  return WithMeasured(slicer::ImportNsys(files, settings.options, settings.choice), settings);
}

const std::vector<ImportFormat>& Formats() {
  static const std::vector<ImportFormat> kImportFormats = {
      {"goal", 1, ReadGoal, {}},
      {"chakra", kManyFiles, ReadChakra, {"groups", "network", "system", "target-gpus"}},
      {"astra", 1, ReadAstra, {"network", "system", "target-gpus", "time-unit"}},
      {"simai", 1, ReadSimAi, {"network", "target-gpus"}},
      {"kineto", kManyFiles, ReadKineto, {"target-gpus", "step", "range"}},
      {"nsys", kManyFiles, ReadNsys, {"target-gpus", "range"}},
      {"nccl-topology", 1, nullptr, {}},
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
  for (const graph::Warning& warning : graph.warnings) {
    text += fmt::format("  warning   {}: {} (first: {})\n", warning.code, warning.count,
                        warning.example);
  }
  return text;
}

std::string ResultJson(const ImportResult& result, const std::string& out) {
  const graph::Graph& graph = result.graph;
  return JsonText([&](JsonWriter& json) {
    json.Field("graph", out).Field("job", graph.job.name).Field("cluster", graph.cluster.name);
    json.Field("ranks", graph.ranks.size()).Field("roles", graph.roles.size());
    json.Field("ops", graph.OpsPerIteration()).Field("communicators", graph.communicators.size());
    json.Field("tasks", result.tasks).Field("bytes_read", result.bytes_read);
    json.ObjectsField("assumptions", result.notes.counts(), [&](const auto& note) {
      json.Field("what", note.first).Field("count", note.second);
    });
    json.ObjectsField("warnings", graph.warnings, [&](const graph::Warning& warning) {
      json.Field("code", warning.code).Field("count", warning.count);
      json.Field("example", warning.example);
    });
  });
}

// An ASTRA-sim or SimAI network file: its shape and speed.
Status ReadNetwork(const std::string& path, Settings* settings) {
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  PRISM_ASSIGN_OR_RETURN(const slicer::AstraNetwork network,
                         slicer::IsSimAiTopology(text) ? slicer::ParseSimAiTopology(text, path)
                                                       : slicer::ParseAstraNetwork(text, path));
  settings->dims = network.ranks;
  settings->network = network;
  return UseNetwork(network, path, &settings->options.cluster, &settings->notes);
}

// Which step or range of profiles counts: "NAME:N" is the N-th of that name, if N is a number.
Status ReadChoice(const ImportArguments& asked, slicer::KinetoChoice* choice) {
  choice->step = asked.step;
  choice->range = asked.range;
  if (asked.step >= 0 && !asked.range.empty()) {
    return InvalidArgument("--step and --range both choose what counts; name one");
  }
  const size_t colon = asked.range.rfind(':');
  const char* const end = asked.range.data() + asked.range.size();
  int64_t number = 0;
  if (colon != std::string::npos && colon + 1 < asked.range.size()) {
    const auto [after, error] = std::from_chars(asked.range.data() + colon + 1, end, number);
    if (error == std::errc() && after == end && number > 0) {
      choice->range = asked.range.substr(0, colon);
      choice->number = number;
    }
  }
  return OkStatus();
}

Result<Settings> ReadSettings(const VerbArguments& arguments,
                              const ImportArguments& asked,
                              const ImportFormat& format) {
  for (const char* flag :
       {"groups", "network", "system", "target-gpus", "step", "range", "time-unit"}) {
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
  settings.time_unit = asked.time_unit;
  settings.measured = !arguments.Has("cluster");
  PRISM_RETURN_IF_ERROR(ReadChoice(asked, &settings.choice));
  PRISM_ASSIGN_OR_RETURN(settings.options.cluster, LoadCluster(asked.cluster));
  if (!asked.network.empty()) {
    PRISM_RETURN_IF_ERROR(ReadNetwork(asked.network, &settings));
  }
  if (!asked.system.empty()) {
    PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(asked.system));
    PRISM_ASSIGN_OR_RETURN(settings.system, ParseAstraSystem(text, asked.system, &settings.notes));
    if (settings.network.topology.empty() && settings.system.flops_per_s == 0) {
      return InvalidArgument("--system needs --network, of a file with topologies");
    }
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

// A machine as NCCL found it is no workload: a cluster file of it.
Result<VerbOutput> ImportTopology(const VerbArguments& arguments, const ImportArguments& asked) {
  const std::string& file = arguments.operands()[1];
  if (arguments.operands().size() > 2) {
    return InvalidArgument("nccl-topology takes one file");
  }
  for (const auto& [key, given] : arguments.given()) {
    if (key != "o" && key != "cluster") {
      return InvalidArgument(
          fmt::format("{} does not apply to nccl-topology; leave it out", given.origin));
    }
  }
  if (asked.out.empty()) {
    return InvalidArgument("no output file; name one with -o CLUSTER.toml");
  }
  PRISM_RETURN_IF_ERROR(arguments.CheckOutput("o", {file}));
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  PRISM_ASSIGN_OR_RETURN(const NcclTopology topology, ParseNcclTopology(text, file));
  const std::string found =
      arguments.Has("cluster") ? asked.cluster : PresetOfCompute(topology.compute);
  const std::string& base = found.empty() ? asked.cluster : found;
  PRISM_ASSIGN_OR_RETURN(graph::ClusterSpec cluster, LoadCluster(base));
  std::vector<std::string> notes;
  if (found.empty()) {
    notes.push_back(
        fmt::format("no preset has such GPUs: the base is {}; --cluster names another", base));
  }
  UseNcclTopology(topology, file, &cluster, &notes);
  cluster.name = std::filesystem::path(asked.out).stem();
  PRISM_RETURN_IF_ERROR(WriteFileAtomically(asked.out, ClusterText(cluster)));
  VerbOutput output;
  output.text =
      fmt::format("{}: {} GPUs of compute capability {}.{} a node, based on {}\n", asked.out,
                  topology.gpus, topology.compute / 10, topology.compute % 10, base);
  for (const std::string& note : notes) {
    output.text += fmt::format("  assumed   {}\n", note);
  }
  return output;
}

Result<VerbOutput> RunImportVerb(const VerbArguments& arguments, const ImportArguments& asked) {
  PRISM_ASSIGN_OR_RETURN(const ImportFormat* const format,
                         FindFormat(Formats(), arguments.operands().front()));
  if (format->read == nullptr) {
    return ImportTopology(arguments, asked);
  }
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
  AddPipelineBubble(result.bubble, &result.graph, &result.notes);
  if (format->read != ReadSimAi) {  // which has NCCL's algorithms
    UseTopologies(settings.network, settings.system, &result.graph, &result.notes);
  }
  result.graph.assumptions = result.notes.Lines();
  PRISM_RETURN_IF_ERROR(graph::WriteGraph(result.graph, out));
  return VerbOutput{arguments.as_json() ? ResultJson(result, out) : ResultText(result, out)};
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
       "          one trace with --target-gpus N: N ranks that do the same\n"
       "  astra   an ASTRA-sim text workload, one layer per line\n"
       "  simai   the same, as SimAI's AICB writes it\n"
       "  kineto  profiles of torch.profiler, one per rank: one step of each,\n"
       "          with the measured times of kernels, transfers and host; --target-gpus N: a "
       "larger job of\n"
       "          ranks like them; execution traces among them give shapes and groups to the "
       "profiles\n"
       "          in their order\n"
       "  nsys    Nsight Systems' SQLite exports, likewise: each process with kernels is a rank\n"
       "  nccl-topology\n"
       "          what NCCL_TOPO_DUMP_FILE names: a cluster file of that machine, not a graph\n"
       "Files may be packed as .gz or .zst.\nWhat the file leaves open is counted and listed among "
       "the graph's assumptions. A file "
       "that\n"
       "is damaged or cannot run gives exit code 3 and no graph. A schedule runs once, but\n"
       "prism replay repeats it: --iterations 1 gives its time from start to end.\n",
       2,
       kManyFiles,
       {},
       FormatNames(Formats()),
       true},
      {{"o", &A::out, Text("GRAPH"), "the file to write", "needed"},
       {"cluster", &A::cluster, Text("PRESET|FILE", PresetNames(PresetKind::kCluster)),
        "cluster preset or file that messages and collectives are timed on; if given, those of "
        "profiles as well, which otherwise keep their measured times on a cluster of their GPU"},
       {"groups", &A::groups, Text("FILE"), "ASTRA-sim's communicator groups, JSON (chakra)",
        "none"},
       {"network", &A::network, Text("FILE"),
        "ASTRA-sim's network or SimAI's topology: size, rates and latency of each dimension, "
        "instead of the cluster's (chakra, astra, simai)",
        "none"},
       {"system", &A::system, Text("FILE"),
        "ASTRA-sim's system file: with --network, the algorithm and pieces of collectives (chakra, "
        "astra), and the roofline of nodes with num_ops (chakra)",
        "one piece, by the dimension's kind"},
       {"target-gpus", &A::target_gpus, WholeNumber(1, graph::kMaxRanks),
        "ranks of the graph (chakra, astra, simai, kineto, nsys)", "as the files say"},
       {"time-unit", &A::time_unit, OneOf({"ns", "us"}), "unit of compute times (astra)", "us"},
       {"step", &A::step, WholeNumber(0, graph::kMaxProgramNs),
        "N of the mark ProfilerStep#N that counts (kineto)", "that of median duration"},
       {"range", &A::range, Text("NAME[:N]"),
        "the host range that counts as the step: of that name, the N-th of them (kineto, nsys)",
        "the marked steps; without N, that of median duration"}},
      RunImportVerb);
}

}  // namespace prism::launch
