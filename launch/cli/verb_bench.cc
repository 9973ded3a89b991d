#include "launch/cli/verb_bench.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

Status ReadSwitch(const VerbArguments& arguments, const char* flag, bool* on) {
  std::string word = *on ? "on" : "off";
  PRISM_RETURN_IF_ERROR(arguments.ReadChoice(flag, {"on", "off"}, &word));
  *on = word == "on";
  return OkStatus();
}

// Those that apply to the bench; the others are not given (CheckBench). The file of --export FORMAT
// is the operand after the bench's name.
Result<BenchOptions> ReadBench(const VerbArguments& arguments, BenchWorkload workload) {
  BenchOptions options;
  options.workload = std::move(workload);
  PRISM_RETURN_IF_ERROR(
      arguments.ReadChoice("workload", slicer::WorkloadNames(), &options.workload.name));
  PRISM_RETURN_IF_ERROR(ReadCount(arguments, "ranks", graph::kMaxRanks, &options.workload.ranks));
  PRISM_RETURN_IF_ERROR(ReadCount(arguments, "threads", kMaxThreads, &options.threads));
  PRISM_RETURN_IF_ERROR(ReadCount(arguments, "iterations", kMaxIterations, &options.iterations));
  PRISM_RETURN_IF_ERROR(ReadSwitch(arguments, "classes", &options.classes));
  PRISM_RETURN_IF_ERROR(ReadSwitch(arguments, "fold", &options.fold));
  options.perturb = arguments.Texts("perturb");
  PRISM_RETURN_IF_ERROR(arguments.ReadChoice("export", {"goal", "chakra"}, &options.export_format));
  const std::vector<std::string>& operands = arguments.operands();
  options.path = operands.size() > 1 ? operands[1] : "";
  if (arguments.Has("export") && options.path.empty()) {
    return InvalidArgument("--export needs a file, as in prism bench replay --export goal FILE");
  }
  return options;
}

// Benches of published numbers are a program of their own.
Result<VerbOutput> StartPublished(const VerbArguments& arguments) {
  return BecomeProgram("prism-published", arguments.words());
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

struct Bench {
  std::string_view name;
  size_t operands;                                      // after its name, at most
  std::vector<std::string> options;                     // that apply to it
  BenchResult (*measure)(const BenchOptions& options);  // null: `run` instead
  Result<VerbOutput> (*run)(const VerbArguments& arguments) = nullptr;
  BenchWorkload workload = {};  // the default
};

const std::vector<Bench>& Benches() {
  static const std::vector<Bench> benches = {
      {"accuracy",
       63,
       {"out", "parameter-sets", "without", "ablation", "calibrated"},
       nullptr,
       StartPublished},
      {"collectives", 1, {"out", "fit", "ranks", "cluster", "collective"}, nullptr, StartPublished},
      {"device", 0, {}, BenchDevice},
      {"exchange", 0, {}, BenchExchange},
      {"graph", 0, {"workload", "ranks"}, BenchGraph},
      {"host", 63, {"o", "ranks"}, nullptr, RunHost},
      // Thousands of ranks are gigabytes of GOAL.
      {"import", 0, {"workload", "ranks"}, BenchImport, nullptr, {"llm", 128}},
      {"network", 1, {"workload", "ranks", "iterations"}, BenchNetwork},
      {"record", 0, {}, BenchRecord},
      {"replay",
       1,
       {"workload", "ranks", "threads", "iterations", "classes", "fold", "perturb", "export"},
       BenchReplay},
      {"search", 0, {"threads"}, BenchSearch}};
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
  const Bench& bench = *std::ranges::find(Benches(), arguments.operands().front(), &Bench::name);
  if (bench.measure == nullptr) {
    return bench.run(arguments);
  }
  PRISM_ASSIGN_OR_RETURN(const BenchOptions options, ReadBench(arguments, bench.workload));
  PRISM_ASSIGN_OR_RETURN(const std::vector<BenchCase> cases, bench.measure(options));
  VerbOutput output;
  for (const BenchCase& line : cases) {
    output.text += arguments.as_json() ? CaseJson(line) : CaseText(line);
  }
  return output;
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
