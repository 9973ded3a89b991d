// The table of all options, and the help text generated from it.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graph/names.h"
#include "launch/exit_codes.h"
#include "launch/options/command_line.h"
#include "launch/options/options.h"

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

constexpr const char* kHelpHead =
    "prism-emulate: run the ranks you care about of a training job with thousands of GPUs on one\n"
    "machine; every other rank is virtual. Prints iteration time, memory and what limits the job.\n"
    "\n"
    "Usage: prism-emulate [options] [-- PROGRAM ARGS...]\n"
    "       mpirun -n 4 prism-emulate [options]     (the same result, sandbox ranks in parallel)\n";

constexpr const char* kHelpExamples =
    "\nExamples:\n"
    "  mpirun -n 4 prism-emulate --target-gpus 8192\n"
    "      GPT-3 175B on 1,024 nodes of eight H100\n"
    "  prism-emulate --model llama3-70b --target-gpus 512 --cluster h200-8x --dry-run\n"
    "      the plan only: layout, roles, ranks to record\n"
    "  prism-emulate --target-gpus 8192 --sandbox-ranks stage:3\n"
    "      one rank of pipeline stage 3 with its own output, live\n"
    "  prism-emulate --target-gpus 8192 --perturb straggler:4096:1.5\n"
    "      rank 4096 takes 1.5 times as long to compute\n"
    "  prism-emulate --target-gpus 64 --tp 2 --pp 4 -- ./train --lr 0.1\n"
    "      a program of yours, an iteration for each step of its optimizer\n";

constexpr const char* kHelpTail =
    "\nEvery option can also be set by PRISM_<NAME> in the environment (PRISM_TARGET_GPUS) or by\n"
    "<name> in a --config file (target_gpus). Precedence: flag, environment, config file, preset,\n"
    "default.\n";

std::vector<OptionSpec> JobOptions() {
  using enum OptionGroup;
  return {
      {"target-gpus", kJob, "N", "8192", "GPUs of the job to emulate"},
      {"model", kJob, "PRESET|FILE", "gpt3-175b", "model preset (prism presets) or TOML file"},
      {"tp", kJob, "N", "by preset", "tensor-parallel size"},
      {"pp", kJob, "N", "by preset", "pipeline-parallel size"},
      {"dp", kJob, "N", "the rest", "data-parallel size"},
      {"cp", kJob, "N", "1",
       "context-parallel size of the built-in program, which exchanges parts of the sequence for "
       "heads (all-to-all)"},
      {"ep", kJob, "N", "by preset",
       "expert-parallel size of the built-in program, inside dp: experts of a mixture are divided "
       "over that many ranks, and over tp"},
      {"vpp", kJob, "N", "by preset", "interleaved model chunks per stage"},
      {"sequence-parallel", kJob, "on|off", "on", "sequence parallelism beside tensor parallelism"},
      {"micro-batch-size", kJob, "N", "by preset", "sequences in a micro-batch"},
      {"global-batch-size", kJob, "N", "by preset",
       "sequences of the whole job in an optimizer step"},
      {"seq-len", kJob, "N", "by preset", "tokens in a sequence"},
      {"recompute", kJob, JoinedNames(graph::kRecomputeNames), "by preset",
       "activation recomputation"},
      {"zero", kJob, "0|1|2|3", "1",
       "what data-parallel ranks share out among them: 1 optimizer states, 2 gradients as well, 3 "
       "parameters as well, which are gathered layer by layer"},
      {"routing", kJob, "uniform|zipf:S", "uniform",
       "how often a mixture of experts chooses each expert, where a program's scores are not "
       "known: "
       "all alike, or expert i as often as 1/(i+1)^S"},
      {"iterations", kJob, "N", "3", "iterations replayed and emulated"},
      {"seed", kJob, "N", "0", "seed of spot checks, jitter and values"},
  };
}

std::vector<OptionSpec> ClusterOptions() {
  using enum OptionGroup;
  return {
      {"cluster", kCluster, "PRESET|FILE", "h100-8x", "cluster preset or TOML file"},
      {"network", kCluster, JoinedNames(kNetworkNames), "analytic",
       "network model; flow: links are shared"},
      {"perturb", kCluster, "SPEC", "none", kPerturbationForms, true},
      {"device", kCluster, JoinedNames(kDeviceNames), "virtual",
       "what sandbox ranks run on: no GPU at all, the GPUs at hand, or those where there are any"},
      {"device-scale", kCluster, "FACTOR", "1",
       "with --device cuda: a kernel of the target's GPU takes FACTOR times as long as on the GPU "
       "at hand"},
      {"host-time", kCluster, "fixed[:FRAMEWORK]|measured:FACTOR", "fixed",
       "cost of the host thread's work: constant per op, as the cluster has it or as a framework's "
       "preset (python, megatron-core, torchtitan, ...); or the CPU time that the program took "
       "between ops while recording on this machine, mean by kind of op, times FACTOR"},
  };
}

std::vector<OptionSpec> RankOptions() {
  using enum OptionGroup;
  return {
      {"sandbox-ranks", kRanks, "LIST", "auto",
       "ranks that run inside the emulation: numbers, ranges (3-5), first, last, stage:K, "
       "role:NAME, none, auto"},
      {"on-mismatch", kRanks, JoinedNames(kOnMismatchNames), "abort",
       "when a sandbox rank departs from the graph: end with the report, let it hang as on the "
       "cluster, or take what it does for its whole role and go on"},
      {"interactive", kRanks, "", "",
       "give the one sandbox rank this terminal: a debugger works, virtual time stands still in "
       "it"},
      {"log-ranks", kRanks, "LIST", "those named by --sandbox-ranks",
       "sandbox ranks whose output is shown live; all, none"},
      {"max-roles", kRanks, "N", "256", "roles at most"},
      {"stall-timeout", kRanks, "SECONDS", "600",
       "ends the run when a program issues nothing for that long and waits for nobody"},
  };
}

std::vector<OptionSpec> OutputOptions() {
  using enum OptionGroup;
  return {
      {"out", kOutput, "DIR", "prism-out/<job>-<n>gpus", "output folder"},
      {"force", kOutput, "", "",
       "replace an existing --out folder; one that holds only FAILED is replaced without"},
      {"graph", kOutput, "FILE", "",
       "reuse this graph instead of recording one; what absent ranks of a program give is then not "
       "known"},
      {"format", kOutput, JoinedNames(kOutputFormatNames), "text", "final report on stdout"},
      {"perfetto", kOutput, "", "", "write trace.pftrace: sandbox ranks and --trace-ranks"},
      {"trace-ranks", kOutput, "LIST", "none", "further ranks in trace.pftrace"},
      {"memory-snapshot", kOutput, "LIST", "none",
       "sandbox ranks whose memory history is written to memory/rank<r>.pickle, for the PyTorch "
       "memory viewer; all, none"},
      {"config", kOutput, "FILE", "", "read options from a TOML file"},
      {"print-config", kOutput, "", "", "print the resolved config file and leave"},
      {"dry-run", kOutput, "", "", "print the plan and leave"},
      {"log-level", kOutput, JoinedNames(kLogLevelNames), "info", "what is reported on stderr"},
      {"quiet", kOutput, "", "", "only errors on stderr, no progress"},
      {"color", kOutput, "auto|on|off", "auto",
       "colours of errors, warnings and the summary's head; auto: on a terminal, without mpirun; "
       "never in files "
       "or where NO_COLOR is set"},
      {"strict", kOutput, "", "", "warnings make the exit code 4"},
      {"max-error", kOutput, "PCT", "",
       "the exit code is 4 where the sandbox ranks' iteration takes more than PCT % longer or "
       "shorter than the graph's replay"},
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
  size_t best_distance = name.size() / 3 + 2;  // further away it is a different word
  for (const std::string& candidate : known) {
    const bool begins = name.size() > 2 && candidate.starts_with(name);
    const size_t distance = begins ? 1 : EditDistance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace prism::launch
