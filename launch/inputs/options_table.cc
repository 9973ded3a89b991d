// The table of prism-emulate's options, and the text around it in --help.
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/job/names.h"
#include "graph/validate/limits.h"
#include "launch/exit_codes.h"
#include "launch/inputs/options.h"
#include "launch/inputs/presets.h"

namespace prism::launch {
namespace {

constexpr const char* kHelpHead =
    "prism-emulate: run the ranks you care about of a training job with thousands of GPUs on one\n"
    "machine; every other rank is virtual. Prints iteration time, memory and what limits the job.\n"
    "\n"
    "Usage: prism-emulate [options] [-- PROGRAM ARGS...]\n"
    "       mpirun -n 4 prism-emulate [options]     (same result, sandbox ranks in parallel)\n";

constexpr const char* kHelpExamples =
    "\n"
    "Examples:\n"
    "  mpirun -n 4 prism-emulate --target-gpus 8192\n"
    "      GPT-3 175B on 1,024 nodes with eight H100s each\n"
    "  prism-emulate --model llama3-70b --target-gpus 512 --cluster h200-8x --dry-run\n"
    "      print only the plan: layout, roles, ranks to record\n"
    "  prism-emulate --target-gpus 8192 --sandbox-ranks stage:3\n"
    "      run one rank of pipeline stage 3 and show its output live\n"
    "  prism-emulate --target-gpus 8192 --perturb straggler:4096:1.5\n"
    "      rank 4096 computes 1.5 times as long\n"
    "  prism-emulate --target-gpus 64 --tp 2 --pp 4 -- ./train --lr 0.1\n"
    "      your own program; each optimizer step is an iteration\n"
    "  prism run -- torchrun --nnodes 128 --nproc-per-node 8 train.py\n"
    "      the same by its launcher's command, or a script that ends in one; so accelerate "
    "launch,\n"
    "      deepspeed, srun and mpirun. prism run is prism-emulate\n";

constexpr const char* kHelpTail =
    "\n"
    "Every option can also be set in the environment (PRISM_TARGET_GPUS) or in a --config file\n"
    "(target_gpus). A flag wins over the environment, then come config file, preset and default.\n"
    "Several values of one option have spaces between them: PRISM_PERTURB='jitter:0.1 late:3:1'.\n"
    "\n"
    "SIGUSR1 asks a run, or its mpirun, where it is: it shows the stacks of all sandbox ranks.\n";

using Row = Option<Options>;
using O = Options;

constexpr double kMaxFactor = 1000;  // between two GPUs or hosts: far above any pair

Kind<std::string> Preset(PresetKind kind) {
  return Text("PRESET|FILE", PresetNames(kind));
}

Kind<int64_t> Degree() {
  return WholeNumber(1, graph::kMaxRanks);
}

// Sequences or tokens: far above any job.
Kind<int64_t> Batch() {
  return WholeNumber(1, int64_t{1} << 30);
}

// A share in percent, with or without the sign.
Kind<double> Percent() {
  static constexpr double kMost = 1000;
  Kind<double> kind = NumberAbove0("PCT");
  kind.read = [](std::string_view text, double* value) {
    const std::string_view number = text.substr(0, text.size() - (text.ends_with('%') ? 1 : 0));
    return ParseNumber(number, value) && *value >= 0 && *value <= kMost
               ? ""
               : fmt::format("'{}' is not a percentage from 0 to {}", text, kMost);
  };
  return kind;
}

Kind<std::string> Routing() {
  static constexpr double kMost = 10;  // the exponent; at this one all choose the same
  Kind<std::string> kind = Text("uniform|zipf:S");
  kind.read = [](std::string_view text, std::string* value) {
    constexpr std::string_view kZipf = "zipf:";
    double exponent = 0;
    const bool is_zipf =
        text.starts_with(kZipf) && ParseNumber(text.substr(kZipf.size()), &exponent);
    *value = text;
    return text == "uniform" || (is_zipf && exponent > 0 && exponent <= kMost)
               ? ""
               : fmt::format(
                     "'{}' is unknown; use uniform or zipf:S, with S above 0 and at most {}", text,
                     kMost);
  };
  return kind;
}

std::string ReadHostTime(const Given& given, Options* options) {
  constexpr std::string_view kFixed = "fixed:";
  constexpr std::string_view kMeasured = "measured:";
  const std::string_view text = given.texts.back();
  double factor = 0;
  if (text.starts_with(kFixed) && text.size() > kFixed.size()) {
    options->host_framework = text.substr(kFixed.size());
  } else if (text.starts_with(kMeasured) && ParseNumber(text.substr(kMeasured.size()), &factor) &&
             factor > 0 && factor <= kMaxFactor) {
    options->host_factor = factor;
  } else if (text.starts_with(kFixed) || text.starts_with(kMeasured) || text == "measured") {
    return fmt::format(
        "'{}' is unknown; use auto, fixed, fixed:FRAMEWORK or measured:FACTOR, with "
        "FACTOR above 0 and at most {}, or a preset or file of prism bench host",
        text, kMaxFactor);
  } else if (text != kAutoHost) {
    options->host_costs = text;  // PlanRun reads it
  }
  return "";
}

std::vector<std::string> HostTimeTexts(const Options& options) {
  return {options.host_factor > 0           ? fmt::format("measured:{}", options.host_factor)
          : !options.host_framework.empty() ? "fixed:" + options.host_framework
          : !options.host_costs.empty()     ? options.host_costs
                                            : kAutoHost};
}

std::string ReadPerturbations(const Given& given, Options* options) {
  options->perturb.clear();
  for (const std::string& text : given.texts) {
    options->perturb.push_back({text, given.file.empty() ? "" : given.origin});
  }
  return "";
}

std::vector<std::string> PerturbationTexts(const Options& options) {
  std::vector<std::string> texts;
  for (const PerturbationText& perturbation : options.perturb) {
    texts.push_back(perturbation.text);
  }
  return texts;
}

std::vector<Row> JobOptions() {
  static constexpr EnumNames<int32_t, 4> kStages = {{{0, "0"}, {1, "1"}, {2, "2"}, {3, "3"}}};
  return {
      {"target-gpus", &O::target_gpus, Degree(), "GPUs of the job to emulate"},
      {"nproc-per-node", &O::nproc_per_node, Degree(), "ranks of a node",
       "the launcher's, else all GPUs"},
      {"model", &O::model, Preset(PresetKind::kModel), "model preset (prism presets) or TOML file"},
      {"tp", &O::tp, Degree(), "tensor-parallel size", "by preset"},
      {"pp", &O::pp, Degree(), "pipeline-parallel size", "by preset"},
      {"dp", &O::dp, Degree(), "data-parallel size", "the rest"},
      {"cp", &O::cp, Degree(),
       "context-parallel size of the built-in program, which uses all-to-alls of heads", "1"},
      {"ep", &O::ep, Degree(),
       "expert-parallel size of the built-in program, inside dp; each expert is also divided over "
       "tp",
       "by preset"},
      {"vpp", &O::vpp, WholeNumber(1, 1024), "model chunks per pipeline stage (interleaving)",
       "by preset"},
      {"sequence-parallel", &O::sequence_parallel, OnOff(),
       "sequence parallelism along with tensor parallelism", "on"},
      {"micro-batch-size", &O::micro_batch_size, Batch(), "sequences per micro-batch", "by preset"},
      {"global-batch-size", &O::global_batch_size, Batch(),
       "sequences per optimizer step, over the whole job", "by preset"},
      {"seq-len", &O::seq_len, Batch(), "tokens per sequence", "by preset"},
      {"recompute", &O::recompute, OneOf(graph::kRecomputeNames), "activation recomputation",
       "by preset"},
      {"zero", &O::zero, OneOf(kStages),
       "what is sharded over data-parallel ranks: 1 optimizer states, 2 gradients too, 3 "
       "parameters too, gathered layer by layer",
       "1"},
      {"routing", &O::routing, Routing(),
       "how often each expert is chosen where a program's scores are not known: equally often, "
       "or expert i in proportion to 1/(i+1)^S"},
      {"iterations", &O::iterations, WholeNumber(1, 1000), "iterations replayed and emulated"},
      {"seed", &O::seed, WholeNumber(0, INT64_MAX), "seed for spot checks, jitter and values"},
  };
}

std::vector<Row> ClusterOptions() {
  return {
      {"cluster", &O::cluster, Preset(PresetKind::kCluster), "cluster preset or TOML file"},
      {"network", &O::network, OneOf(kNetworkNames),
       "network model; in flow, transfers share links"},
      {{"perturb", "SPEC", "none", kPerturbationForms, /*is_repeatable=*/true},
       ReadPerturbations,
       PerturbationTexts},
      {"device", &O::device, OneOf(kDeviceNames),
       "what sandbox ranks run on: no GPU, this machine's GPUs, or its GPUs if it has any"},
      {"device-scale", &O::device_scale, NumberAbove0("FACTOR", kMaxFactor),
       "with --device cuda: a kernel takes FACTOR times as long on the target's GPU as on this "
       "machine's"},
      {"record-device", &O::record_device, OneOf(kDeviceNames),
       "what kernels' times come from: the model, or this machine's GPUs, on which a rank of each "
       "role then runs, too"},
      {{"host-time", "auto|fixed[:FRAMEWORK]|measured:FACTOR|FILE", HostTimeTexts({}).front(),
        "time of the host thread per op: the cluster's constants (fixed), those of a framework's "
        "profile (fixed:megatron-core, fixed:torchtitan, ...), what the program took on this "
        "machine while recording (mean per kind of op) times FACTOR, or what prism bench host "
        "measured by sort of op (a file, or a preset: prism presets), on the cluster's CPU; auto: "
        "the preset of the framework that a recorded Python program loads, else fixed"},
       ReadHostTime,
       HostTimeTexts},
  };
}

std::vector<Row> RankOptions() {
  return {
      {"sandbox-ranks", &O::sandbox_ranks, Text("LIST"),
       "ranks that run for real in the emulation: numbers, ranges (3-5), first, last, stage:K, "
       "role:NAME, none, auto"},
      {"on-mismatch", &O::on_mismatch, OneOf(kOnMismatchNames),
       "when a sandbox rank departs from the graph: end with a report, let it hang as on the "
       "cluster, or let its whole role do the same and go on"},
      {"interactive", &O::interactive, Switch(),
       "give the only sandbox rank this terminal, for a debugger; virtual time stops while it "
       "waits"},
      {"log-ranks", &O::log_ranks, Text("LIST"),
       "sandbox ranks whose output is shown live, or all or none", "those in --sandbox-ranks"},
      {"max-roles", &O::max_roles, WholeNumber(1, 1 << 20), "most roles that a job may have"},
      {"record-ranks", &O::record_ranks, Text("all|LIST"),
       "ranks of a program that are recorded besides those that its roles need: numbers and ranges",
       "none"},
      {"no-check", &O::no_check, Switch(),
       "do not compare what the recorded ranks of a program do with each other, from its first "
       "group to its exit"},
      {"check-seconds", &O::check_seconds, NumberAbove0("S"),
       "how long a rank goes on for the check when it has been recorded",
       "60, and a share of the recording"},
      {"check-iterations", &O::check_iterations,
       WholeNumber(0, std::numeric_limits<int32_t>::max()),
       "steps that the check follows ranks for", "until every kind of step was seen twice"},
      {"stand-in", &O::stand_in, Switch(),
       "let files of a Python program that are not there (checkpoints, weights, tokenizers, data "
       "sets) count as files of their shapes, listed as assumptions"},
      {"stall-timeout", &O::stall_timeout_s, WholeNumber(1, 1 << 20, "SECONDS"),
       "end the run when a program issues nothing for that long and waits for no other rank"},
      {"host-timeout", &O::host_timeout_s, WholeNumber(5, 1 << 20, "SECONDS"),
       "end the run when another host of it has not answered for that long"},
  };
}

std::vector<Row> OutputOptions() {
  return {
      {"out", &O::out, Text("DIR"), "output folder", "prism-out/<job>-<n>gpus"},
      {"force", &O::force, Switch(),
       "replace an existing --out folder (one that holds only FAILED is always replaced)"},
      {"resume", &O::resume, Switch(),
       "keep recorded ranks in DIR.recorded until the run has its result, and go on from those "
       "that an earlier run with --resume has kept there"},
      {"graph", &O::graph, Text("FILE"),
       "reuse this graph instead of recording one; values that absent ranks would send are then "
       "unknown"},
      {"format", &O::format, OneOf(kOutputFormatNames), "format of the report on stdout"},
      {"perfetto", &O::perfetto, Switch(),
       "write trace.pftrace with the sandbox ranks and --trace-ranks"},
      {"trace-ranks", &O::trace_ranks, Text("LIST"), "more ranks for trace.pftrace", "none"},
      {"memory-snapshot", &O::memory_snapshot, Text("LIST"),
       "sandbox ranks whose memory history is written to memory/rank<r>.pickle for the PyTorch "
       "memory viewer, or all or none",
       "none"},
      {"config", &O::config, Text("FILE"), "read options from a TOML file"},
      {"print-config", &O::print_config, Switch(), "print the resolved config file and exit"},
      {"dry-run", &O::dry_run, Switch(),
       "print the plan with a forecast of time and memory, and exit"},
      {"log-level", &O::log_level, OneOf(kLogLevelNames), "how much is reported on stderr"},
      {"quiet", &O::quiet, Switch(), "report only errors on stderr, no progress"},
      {"color", &O::color, OneOf({"auto", "on", "off"}),
       "colour errors, warnings and the head of the summary; auto: on a terminal without "
       "mpirun, unless NO_COLOR is set"},
      {"cold-start", &O::cold_start, Switch(),
       "start the program of every rank by itself, instead of forking ranks from one start"},
      {"strict", &O::strict, Switch(), "exit with code 4 if there are warnings"},
      {"max-error", &O::max_error_pct, Percent(),
       "exit with code 4 if an iteration of the sandbox ranks differs from the replay of the graph "
       "by more than PCT %"},
  };
}

}  // namespace

const std::vector<Option<Options>>& OptionTable() {
  static const std::vector<Row> table = [] {
    const std::pair<const char*, std::vector<Row>> groups[] = {{kJobGroup, JobOptions()},
                                                               {"Cluster", ClusterOptions()},
                                                               {"Ranks", RankOptions()},
                                                               {"Output", OutputOptions()}};
    std::vector<Row> all;
    for (const auto& [group, rows] : groups) {
      for (const Row& row : rows) {
        all.push_back(row);
        all.back().group = group;
      }
    }
    all.front().alias = "gpus";
    return all;
  }();
  return table;
}

const Option<Options>& ProgramOption() {
  static const Row option = [] {
    Row row(
        {"program", "PROGRAM", "", "", /*is_repeatable=*/true},
        [](const Given& given, Options* options) {
          options->program = given.texts;
          return std::string();
        },
        [](const Options& options) {
          return options.launch.command.empty() ? options.program : options.launch.command;
        });
    row.group = kJobGroup;
    return row;
  }();
  return option;
}

std::string HelpText() {
  std::string text = kHelpHead;
  std::string group;
  for (const Row& row : OptionTable()) {
    if (std::exchange(group, row.group) != row.group) {
      text += fmt::format("\n{}:\n", row.group);
    }
    text += OptionHelp(row);
  }
  text += "  --help, --version\n";
  return text + kHelpExamples + kHelpTail + kExitCodesHelp;
}

}  // namespace prism::launch
