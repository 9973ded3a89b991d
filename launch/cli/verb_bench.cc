#include "launch/cli/verb_bench.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/file.h"
#include "graph/base/json_writer.h"
#include "graph/base/units.h"
#include "graph/validate/limits.h"
#include "launch/process/install_paths.h"
#include "slicer/workloads/workloads.h"

namespace prism::launch {
namespace {

constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kMaxIterations = 1000;

// JSON numbers without a fraction are written without one.
void WriteNumber(double value, JsonWriter* json) {
  if (value == std::floor(value) && std::abs(value) < 9e15) {
    json->Value(static_cast<int64_t>(value));
  } else {
    json->Value(value);
  }
}

std::string CaseText(const BenchCase& line) {
  std::string text = fmt::format("{}: {}\n", line.bench, line.name);
  for (const BenchMetric& metric : line.metrics) {
    const std::string value = metric.value == std::floor(metric.value)
                                  ? FormatCount(static_cast<int64_t>(metric.value))
                                  : fmt::format("{:.6g}", metric.value);
    text += fmt::format("  {:<24}{:>18}  {}\n", metric.name, value, metric.unit);
  }
  return text;
}

Status ReadCount(const VerbArguments& arguments,
                 const char* flag,
                 int64_t highest,
                 int32_t* count) {
  int64_t value = *count;
  PRISM_RETURN_IF_ERROR(arguments.ReadInt(flag, 1, highest, &value));
  *count = static_cast<int32_t>(value);
  return OkStatus();
}

Status ReadWorkload(const VerbArguments& arguments, BenchWorkload* workload) {
  PRISM_RETURN_IF_ERROR(arguments.ReadChoice("workload", slicer::WorkloadNames(), &workload->name));
  return ReadCount(arguments, "ranks", graph::kMaxRanks, &workload->ranks);
}

// Benches of published numbers are a program of their own.
Result<VerbOutput> StartPublished(const VerbArguments& arguments) {
  return BecomeProgram("prism-published", arguments.words());
}

struct BenchExport {
  std::string format;
  std::string path;  // "": none is asked for
};

// --export FORMAT FILE: the file is the operand after the bench's name.
Status ReadExport(const VerbArguments& arguments, BenchExport* result) {
  if (!arguments.Has("export")) {
    return OkStatus();
  }
  PRISM_RETURN_IF_ERROR(arguments.ReadChoice("export", {"goal", "chakra"}, &result->format));
  if (arguments.operands().size() < 2) {
    return InvalidArgument("--export needs a file, as in prism bench replay --export goal FILE");
  }
  result->path = arguments.operands()[1];
  return OkStatus();
}

Result<VerbOutput> PrintCases(const VerbArguments& arguments, const BenchResult& cases) {
  PRISM_RETURN_IF_ERROR(cases.status());
  VerbOutput output;
  for (const BenchCase& line : *cases) {
    output.text += arguments.as_json() ? CaseJson(line) : CaseText(line);
  }
  return output;
}

Result<VerbOutput> RunDevice(const VerbArguments& arguments) {
  return PrintCases(arguments, BenchDevice());
}

Result<VerbOutput> RunExchange(const VerbArguments& arguments) {
  return PrintCases(arguments, BenchExchange());
}

Result<VerbOutput> RunRecord(const VerbArguments& arguments) {
  return PrintCases(arguments, BenchRecord());
}

Result<VerbOutput> RunGraph(const VerbArguments& arguments) {
  BenchWorkload workload;
  PRISM_RETURN_IF_ERROR(ReadWorkload(arguments, &workload));
  return PrintCases(arguments, BenchGraph(workload));
}

// Those after the bench's name are the program.
Result<VerbOutput> RunHost(const VerbArguments& arguments) {
  int32_t ranks = 8;
  PRISM_RETURN_IF_ERROR(ReadCount(arguments, "ranks", graph::kMaxRanks, &ranks));
  PRISM_RETURN_IF_ERROR(arguments.CheckOutput("o"));
  const std::vector<std::string> program(arguments.operands().begin() + 1,
                                         arguments.operands().end());
  PRISM_ASSIGN_OR_RETURN(const std::string costs, BenchHost(ranks, program));
  if (!arguments.Has("o")) {
    return VerbOutput{costs};
  }
  PRISM_RETURN_IF_ERROR(WriteFileAtomically(arguments.Text("o"), costs));
  return VerbOutput();
}

Result<VerbOutput> RunImport(const VerbArguments& arguments) {
  BenchWorkload workload = {"llm", 128};  // thousands of ranks are gigabytes of GOAL
  PRISM_RETURN_IF_ERROR(ReadWorkload(arguments, &workload));
  return PrintCases(arguments, BenchImport(workload));
}

Result<VerbOutput> RunBenchSearch(const VerbArguments& arguments) {
  int32_t threads = 1;
  PRISM_RETURN_IF_ERROR(ReadCount(arguments, "threads", kMaxThreads, &threads));
  return PrintCases(arguments, BenchSearch(threads));
}

Result<VerbOutput> RunNetwork(const VerbArguments& arguments) {
  BenchReplayOptions options;
  PRISM_RETURN_IF_ERROR(ReadWorkload(arguments, &options.workload));
  PRISM_RETURN_IF_ERROR(ReadCount(arguments, "iterations", kMaxIterations, &options.iterations));
  const std::string path = arguments.operands().size() > 1 ? arguments.operands()[1] : "";
  return PrintCases(arguments, BenchNetwork(options, path));
}

Result<VerbOutput> RunBenchReplay(const VerbArguments& arguments) {
  BenchReplayOptions options;
  std::string classes = "on";
  std::string fold = "on";
  PRISM_RETURN_IF_ERROR(ReadWorkload(arguments, &options.workload));
  PRISM_RETURN_IF_ERROR(ReadCount(arguments, "threads", kMaxThreads, &options.threads));
  PRISM_RETURN_IF_ERROR(ReadCount(arguments, "iterations", kMaxIterations, &options.iterations));
  PRISM_RETURN_IF_ERROR(arguments.ReadChoice("classes", {"on", "off"}, &classes));
  PRISM_RETURN_IF_ERROR(arguments.ReadChoice("fold", {"on", "off"}, &fold));
  options.classes = classes == "on";
  options.fold = fold == "on";
  options.perturb = arguments.Texts("perturb");
  BenchExport written;
  PRISM_RETURN_IF_ERROR(ReadExport(arguments, &written));
  const BenchResult measured = BenchReplay(options);
  // Afterwards: what its buffers leave on the heap would count as the replay's.
  if (measured.ok() && !written.path.empty()) {
    PRISM_RETURN_IF_ERROR(ExportWorkload(options.workload, written.format, written.path));
  }
  return PrintCases(arguments, measured);
}

struct Bench {
  std::string_view name;
  size_t operands;                   // after its name, at most
  std::vector<std::string> options;  // that apply to it
  Result<VerbOutput> (*run)(const VerbArguments& arguments);
};

const std::vector<Bench>& Benches() {
  static const std::vector<Bench> benches = {
      {"accuracy",
       63,
       {"out", "parameter-sets", "without", "ablation", "calibrated"},
       StartPublished},
      {"collectives", 1, {"out", "fit", "ranks", "cluster", "collective"}, StartPublished},
      {"device", 0, {}, RunDevice},
      {"exchange", 0, {}, RunExchange},
      {"graph", 0, {"workload", "ranks"}, RunGraph},
      {"host", 63, {"o", "ranks"}, RunHost},
      {"import", 0, {"workload", "ranks"}, RunImport},
      {"network", 1, {"workload", "ranks", "iterations"}, RunNetwork},
      {"record", 0, {}, RunRecord},
      {"replay",
       1,
       {"workload", "ranks", "threads", "iterations", "classes", "fold", "perturb", "export"},
       RunBenchReplay},
      {"search", 0, {"threads"}, RunBenchSearch}};
  return benches;
}

// Names of the benches to which the option applies.
std::vector<std::string> BenchesWith(std::string_view flag) {
  std::vector<std::string> names;
  for (const Bench& bench : Benches()) {
    if (std::ranges::find(bench.options, flag) != bench.options.end()) {
      names.emplace_back(bench.name);
    }
  }
  return names;
}

Status UnknownBench(const std::string& name) {
  std::vector<std::string> known;
  for (const Bench& bench : Benches()) {
    known.emplace_back(bench.name);
  }
  const std::string near = NearestName(name, known);
  return InvalidArgument(fmt::format(
      "unknown bench '{}'; {}", name,
      near.empty() ? fmt::format("choose one of {}", fmt::join(known, ", "))
                   : fmt::format("did you mean {}? prism bench --help names them all", near)));
}

Result<VerbOutput> RunBench(const VerbArguments& arguments) {
  PRISM_RETURN_IF_ERROR(CheckBench(arguments));
  const std::string& name = arguments.operands().front();
  return std::ranges::find(Benches(), name, &Bench::name)->run(arguments);
}

}  // namespace

std::string CaseJson(const BenchCase& line) {
  std::string text;
  JsonWriter json(&text, JsonWriter::Style::kOneLine);
  json.BeginObject();
  json.Field("bench", line.bench).Field("case", line.name);
  json.Key("metrics").BeginObject();
  for (const BenchMetric& metric : line.metrics) {
    json.Key(metric.name);
    WriteNumber(metric.value, &json);
  }
  json.EndObject();
  json.Key("units").BeginObject();
  for (const BenchMetric& metric : line.metrics) {
    json.Field(metric.name, metric.unit);
  }
  json.EndObject().EndObject();
  return text + "\n";
}

Status RefuseOptions(const VerbArguments& arguments, const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    if (arguments.Has(flag)) {
      return InvalidArgument(fmt::format("--{} does not apply to bench {}; leave it out", flag,
                                         arguments.operands().front()));
    }
  }
  return OkStatus();
}

Status CheckBench(const VerbArguments& arguments) {
  const std::vector<std::string>& operands = arguments.operands();
  const auto bench = std::ranges::find(Benches(), operands.front(), &Bench::name);
  if (bench == Benches().end()) {
    return UnknownBench(operands.front());
  }
  std::vector<std::string> meaningless;
  for (const OptionRow& option : BenchVerb().spec.options) {
    if (std::ranges::find(bench->options, option.flag) == bench->options.end()) {
      meaningless.emplace_back(option.flag);
    }
  }
  PRISM_RETURN_IF_ERROR(RefuseOptions(arguments, meaningless));
  // The only file operand of replay is that of its --export.
  const bool none = bench->name == "replay" && !arguments.Has("export");
  const size_t most = none ? 0 : bench->operands;
  if (operands.size() > most + 1) {
    return InvalidArgument(fmt::format("bench {} takes no argument '{}'; leave it out", bench->name,
                                       operands[most + 1]));
  }
  return OkStatus();
}

Verb BenchVerb() {
  Verb verb;
  verb.spec = {
      "bench",
      "NAME [TABLE.csv...]",
      "measure this installation: device, record, exchange, graph, host, import, replay, network, "
      "search, accuracy "
      "or "
      "collectives",
      "  device  time that the virtual device adds to a kernel launch\n"
      "  record  records per second through the channel and the recorder\n"
      "  exchange  bytes a second and microseconds a message between sandbox ranks of one host;\n"
      "          under mpirun or srun over several hosts, also between two\n"
      "  graph   encode, decode, validate and refine a synthetic job\n"
      "  host [-- PROGRAM]  time of the host by sort of op, for --host-time FILE: of a program, or "
      "of\n"
      "          ops of each sort in the Python found\n"
      "  import  write a profile of torch.profiler and a synthetic job as GOAL, read them back\n"
      "  replay  replay a synthetic job; --export goal|chakra FILE writes it for other tools "
      "first\n"
      "  network [GRAPH]  solve for max-min fair rates, and replay a job with a shared network\n"
      "  search  evaluate plans of GPT-3 175B on 8,192 GPUs, and search all of them\n"
      "  accuracy TABLE.csv...  predict published runs: one line id,predicted_s,low_s,high_s,\n"
      "          measured_s,error_pct,reason_skipped per run, then the errors by source\n"
      "  collectives [TABLE.csv]  predict measured collectives: one line per row, then the errors\n"
      "          by curve; without a table, a sweep over sizes as nccl-tests prints it\n"
      "--format json prints one object per line: bench, case, metrics, units. Stored ops are the\n"
      "ops of roles; rank-ops are the ops of ranks whose start and end were computed.\n",
      1,
      64,
      {{"workload", "NAME", "gpt3-layer; import: llm",
        "ring, stencil, llm, dlrm, astra, gpt3-layer or gpt3-kernel"},
       {"ranks", "N", "8192; import: 128; collectives, host: 8",
        "ranks of the synthetic job, of the sweep or of the program"},
       {"threads", "N", "1", "threads"},
       {"iterations", "N", "1", "iterations replayed"},
       {"classes", "on|off", "on", "off: evaluate every rank by itself"},
       {"fold", "on|off", "on", "off: evaluate every kernel of a run by itself"},
       {"perturb", "SPEC", "none", "as for prism replay; repeatable", true},
       {"export", "goal|chakra", "none", "also write the job to the file that follows"},
       {"o", "FILE", "stdout", "the file of host times to write"},
       {"out", "FILE", "stdout", "where the rows go"},
       {"parameter-sets", "FILE", "none",
        "parameter sets, one line profile:key=value... each; prints only predicted seconds"},
       {"without", "EFFECT", "none",
        "predict without this effect; repeatable; an unknown name lists them all", true},
       {"ablation", "", "off",
        "instead: predict without each effect in turn, or without those of --without"},
       {"calibrated", "N", "0",
        "instead: give N rows of every table and machine to prism calibrate, and predict the "
        "others before and after"},
       {"fit", "", "off", "fit the profiles to the table and print the fitted values"},
       {"cluster", "PRESET|FILE", "h100-8x", "cluster of the sweep"},
       {"collective", "NAME", "all_reduce", "collective of the sweep, by its name in nccl-tests"}}};
  for (OptionRow& option : verb.spec.options) {
    option.help += fmt::format(" ({})", fmt::join(BenchesWith(option.flag), ", "));
  }
  for (const Bench& bench : Benches()) {
    verb.spec.words.emplace_back(bench.name);
  }
  verb.run = RunBench;
  return verb;
}

}  // namespace prism::launch
