// The table of all options, and the help text generated from it.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graph/job/names.h"
#include "launch/exit_codes.h"
#include "launch/inputs/command_line.h"
#include "launch/inputs/options.h"

namespace prism::launch {
namespace {

const char* GroupTitle(OptionGroup group) {
  switch (group) {
    case OptionGroup::kJob:
      return "Job";
    case OptionGroup::kCluster:
      return "Cluster";
    case OptionGroup::kRanks:
      return "Ranks";
    case OptionGroup::kOutput:
      return "Output";
  }
  return "";
}

// Levenshtein distance; names are short, so the quadratic table is one row.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
    }
  }
  return row[b.size()];
}

// Whether the name is the beginning of the other, or words at its end: "dry", "gpus".
bool IsPart(std::string_view name, std::string_view whole) {
  constexpr size_t kShortest = 3;
  if (name.size() < kShortest || name.size() >= whole.size()) {
    return false;
  }
  const char before = whole[whole.size() - name.size() - 1];
  return whole.starts_with(name) ||
         (whole.ends_with(name) && (before == '-' || before == '_' || before == '.'));
}

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
    "      your own program; each optimizer step is an iteration\n";

constexpr const char* kHelpTail =
    "\n"
    "Every option can also be set in the environment (PRISM_TARGET_GPUS) or in a --config file\n"
    "(target_gpus). A flag wins over the environment, then come config file, preset and default.\n"
    "Several values of one option have spaces between them: PRISM_PERTURB='jitter:0.1 late:3:1'.\n"
    "\n"
    "SIGUSR1 asks a run, or its mpirun, where it is: it shows the stacks of all sandbox ranks.\n";

std::vector<OptionSpec> JobOptions() {
  using enum OptionGroup;
  return {
      {"target-gpus", kJob, "N", "8192", "GPUs of the job to emulate"},
      {"model", kJob, "PRESET|FILE", "gpt3-175b", "model preset (prism presets) or TOML file"},
      {"tp", kJob, "N", "by preset", "tensor-parallel size"},
      {"pp", kJob, "N", "by preset", "pipeline-parallel size"},
      {"dp", kJob, "N", "the rest", "data-parallel size"},
      {"cp", kJob, "N", "1",
       "context-parallel size of the built-in program, which uses all-to-alls of heads"},
      {"ep", kJob, "N", "by preset",
       "expert-parallel size of the built-in program, inside dp; each expert is also divided over "
       "tp"},
      {"vpp", kJob, "N", "by preset", "model chunks per pipeline stage (interleaving)"},
      {"sequence-parallel", kJob, "on|off", "on",
       "sequence parallelism along with tensor parallelism"},
      {"micro-batch-size", kJob, "N", "by preset", "sequences per micro-batch"},
      {"global-batch-size", kJob, "N", "by preset",
       "sequences per optimizer step, over the whole job"},
      {"seq-len", kJob, "N", "by preset", "tokens per sequence"},
      {"recompute", kJob, JoinedNames(graph::kRecomputeNames), "by preset",
       "activation recomputation"},
      {"zero", kJob, "0|1|2|3", "1",
       "what is sharded over data-parallel ranks: 1 optimizer states, 2 gradients too, 3 "
       "parameters too, gathered layer by layer"},
      {"routing", kJob, "uniform|zipf:S", "uniform",
       "how often each expert is chosen where a program's scores are not known: equally often, or "
       "expert i in proportion to 1/(i+1)^S"},
      {"iterations", kJob, "N", "3", "iterations replayed and emulated"},
      {"seed", kJob, "N", "0", "seed for spot checks, jitter and values"},
  };
}

std::vector<OptionSpec> ClusterOptions() {
  using enum OptionGroup;
  return {
      {"cluster", kCluster, "PRESET|FILE", "h100-8x", "cluster preset or TOML file"},
      {"network", kCluster, JoinedNames(kNetworkNames), "analytic",
       "network model; in flow, transfers share links"},
      {"perturb", kCluster, "SPEC", "none", kPerturbationForms, true},
      {"device", kCluster, JoinedNames(kDeviceNames), "virtual",
       "what sandbox ranks run on: no GPU, this machine's GPUs, or its GPUs if it has any"},
      {"device-scale", kCluster, "FACTOR", "1",
       "with --device cuda: a kernel takes FACTOR times as long on the target's GPU as on this "
       "machine's"},
      {"host-time", kCluster, "fixed[:FRAMEWORK]|measured:FACTOR", "fixed",
       "time of the host thread per op: the cluster's constants, those of a framework's preset "
       "(python, megatron-core, torchtitan, ...), or what the program took on this machine while "
       "recording (mean per kind of op) times FACTOR"},
  };
}

std::vector<OptionSpec> RankOptions() {
  using enum OptionGroup;
  return {
      {"sandbox-ranks", kRanks, "LIST", "auto",
       "ranks that run for real in the emulation: numbers, ranges (3-5), first, last, stage:K, "
       "role:NAME, none, auto"},
      {"on-mismatch", kRanks, JoinedNames(kOnMismatchNames), "abort",
       "when a sandbox rank departs from the graph: end with a report, let it hang as on the "
       "cluster, or let its whole role do the same and go on"},
      {"interactive", kRanks, "", "",
       "give the only sandbox rank this terminal, for a debugger; virtual time stops while it "
       "waits"},
      {"log-ranks", kRanks, "LIST", "those in --sandbox-ranks",
       "sandbox ranks whose output is shown live, or all or none"},
      {"max-roles", kRanks, "N", "256", "most roles that a job may have"},
      {"stall-timeout", kRanks, "SECONDS", "600",
       "end the run when a program issues nothing for that long and waits for no other rank"},
  };
}

std::vector<OptionSpec> OutputOptions() {
  using enum OptionGroup;
  return {
      {"out", kOutput, "DIR", "prism-out/<job>-<n>gpus", "output folder"},
      {"force", kOutput, "", "",
       "replace an existing --out folder (one that holds only FAILED is always replaced)"},
      {"graph", kOutput, "FILE", "",
       "reuse this graph instead of recording one; values that absent ranks would send are then "
       "unknown"},
      {"format", kOutput, JoinedNames(kOutputFormatNames), "text",
       "format of the report on stdout"},
      {"perfetto", kOutput, "", "", "write trace.pftrace with the sandbox ranks and --trace-ranks"},
      {"trace-ranks", kOutput, "LIST", "none", "more ranks for trace.pftrace"},
      {"memory-snapshot", kOutput, "LIST", "none",
       "sandbox ranks whose memory history is written to memory/rank<r>.pickle for the PyTorch "
       "memory viewer, or all or none"},
      {"config", kOutput, "FILE", "", "read options from a TOML file"},
      {"print-config", kOutput, "", "", "print the resolved config file and exit"},
      {"dry-run", kOutput, "", "", "print the plan with a forecast of time and memory, and exit"},
      {"log-level", kOutput, JoinedNames(kLogLevelNames), "info", "how much is reported on stderr"},
      {"quiet", kOutput, "", "", "report only errors on stderr, no progress"},
      {"color", kOutput, "auto|on|off", "auto",
       "colour errors, warnings and the head of the summary; auto: on a terminal without mpirun, "
       "unless NO_COLOR is set"},
      {"strict", kOutput, "", "", "exit with code 4 if there are warnings"},
      {"max-error", kOutput, "PCT", "",
       "exit with code 4 if an iteration of the sandbox ranks differs from the replay of the graph "
       "by more than PCT %"},
  };
}

}  // namespace

const std::vector<OptionSpec>& OptionTable() {
  static const std::vector<OptionSpec> table = [] {
    std::vector<OptionSpec> all;
    for (const auto& group : {JobOptions(), ClusterOptions(), RankOptions(), OutputOptions()}) {
      all.insert(all.end(), group.begin(), group.end());
    }
    return all;
  }();
  return table;
}

std::string EnvironmentName(const OptionSpec& spec) {
  std::string name = "PRISM_" + ConfigKey(spec);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return name;
}

std::string ConfigKey(const OptionSpec& spec) {
  std::string key = spec.flag;
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

std::string HelpText() {
  std::string text = kHelpHead;
  for (const OptionGroup group :
       {OptionGroup::kJob, OptionGroup::kCluster, OptionGroup::kRanks, OptionGroup::kOutput}) {
    text += fmt::format("\n{}:\n", GroupTitle(group));
    for (const OptionSpec& spec : OptionTable()) {
      if (spec.group != group) {
        continue;
      }
      text += OptionHelp(fmt::format("{} {}", spec.flag, spec.value_name), spec.help,
                         spec.default_text);
    }
  }
  text += "  --help, --version\n";
  return text + kHelpExamples + kHelpTail + kExitCodesHelp;
}

std::string NearestName(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  // In halves of an edit. Further away it is another word; parts count between one edit and two.
  size_t best_distance = 2 * std::max(name.size() / 3, size_t{1}) + 2;
  for (const std::string& candidate : known) {
    const bool is_part = IsPart(name, candidate) || IsPart(candidate, name);
    const size_t edits = 2 * EditDistance(name, candidate);
    const size_t distance = is_part ? std::min(edits, size_t{3}) : edits;
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace prism::launch
