// The options of prism-emulate: one typed struct, and its table (option_table.h). Precedence: flag,
// then PRISM_* environment, then config file, then preset, then default. Anything that is not in
// the table is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/enum_names.h"
#include "graph/base/input_hashes.h"
#include "graph/base/log.h"
#include "graph/base/status.h"
#include "graph/job/job.h"
#include "launch/inputs/launchers.h"
#include "launch/inputs/option_table.h"
#include "replayer/engine/network_model.h"

namespace prism::launch {

enum class OnMismatch : uint8_t { kAbort, kHang, kAdopt };
enum class Device : uint8_t { kVirtual, kCuda, kAuto };
enum class OutputFormat : uint8_t { kText, kJson };

// The names of these choices in options.
inline constexpr EnumNames<OnMismatch, 3> kOnMismatchNames = {
    {{OnMismatch::kAbort, "abort"}, {OnMismatch::kHang, "hang"}, {OnMismatch::kAdopt, "adopt"}}};
inline constexpr EnumNames<Device, 3> kDeviceNames = {
    {{Device::kVirtual, "virtual"}, {Device::kCuda, "cuda"}, {Device::kAuto, "auto"}}};
inline constexpr EnumNames<OutputFormat, 2> kOutputFormatNames = {
    {{OutputFormat::kText, "text"}, {OutputFormat::kJson, "json"}}};
inline constexpr EnumNames<replayer::NetworkModel, 2> kNetworkNames = {
    {{replayer::NetworkModel::kAnalytic, "analytic"}, {replayer::NetworkModel::kFlow, "flow"}}};

// The forms of --perturb, for --help and messages.
//
// RANKS are numbers and ranges with + between them (straggler:0-7+64:1.5). straggler slows what
// runs on the device, host what the host spends issuing. periodic takes the device for SECONDS out
// of every PERIOD seconds, or, if PERIOD is a number of iterations (100i: a checkpoint, an
// evaluation), the host every time that many have passed. jitter has the shape normal (the
// default), lognormal, exponential or uniform.
inline constexpr const char* kPerturbationForms =
    "one of straggler:RANKS:FACTOR, link:NODE-NODE:FACTOR, kill:RANK@ITERATION, late:RANK:SECONDS, "
    "host:RANKS:FACTOR, periodic:RANKS:PERIOD:SECONDS (PERIOD in seconds, or in iterations as in "
    "100i), jitter:FRACTION[:normal|lognormal|exponential|uniform] or, with --network flow, "
    "fail:LINK|SWITCH; repeatable";

inline constexpr const char* kJobGroup = "Job";

// A text of --perturb, and where it is in a file ("FILE:LINE" or "FILE: KEY"; "" on the command
// line or in the environment).
struct PerturbationText {
  std::string text;
  std::string file;

  bool operator==(const PerturbationText&) const = default;
};

// Typed values. An empty optional means: from the preset, or derived (job_resolution.h).
struct Options {
  int32_t target_gpus = 8192;
  std::optional<int32_t> nproc_per_node;  // unset: the launcher's, else the cluster's GPUs per node
  std::string model = "gpt3-175b";
  std::optional<int32_t> tp;
  std::optional<int32_t> pp;
  std::optional<int32_t> dp;
  std::optional<int32_t> cp;
  std::optional<int32_t> ep;
  std::optional<int32_t> vpp;
  std::optional<bool> sequence_parallel;
  std::optional<int64_t> micro_batch_size;
  std::optional<int64_t> global_batch_size;
  std::optional<int64_t> seq_len;
  std::optional<graph::Recompute> recompute;
  std::optional<int32_t> zero;
  std::string routing = "uniform";  // as shim/observer/routing_rule.h reads it
  int32_t iterations = 3;
  uint64_t seed = 0;
  // What runs instead of the built-in workload, with its arguments: everything after "--", or
  // `program` in a config file.
  std::vector<std::string> program;
  Launch launch;  // PlanRun: the launcher that the program was given with, which leaves `program`

  std::string cluster = "h100-8x";
  replayer::NetworkModel network = replayer::NetworkModel::kAnalytic;
  std::vector<PerturbationText> perturb;
  Device device = Device::kVirtual;         // PlanRun resolves kAuto to what is available
  Device record_device = Device::kVirtual;  // likewise
  double device_scale = 1;                  // the target GPU's times relative to the local GPU's
  std::string host_framework;               // framework whose host costs apply; "": the cluster's
  double host_factor = 0;                   // measured host costs times this count; 0: not measured
  // The preset or file with costs by sort of op, or kFixedHost; "" for kAutoHost and with the two
  // above.
  std::string host_costs;

  std::string sandbox_ranks = "auto";
  OnMismatch on_mismatch = OnMismatch::kAbort;
  bool interactive = false;  // the one sandbox rank has the terminal
  std::string log_ranks;
  int32_t max_roles = 256;
  std::string record_ranks;             // recorded besides those that a program's roles need
  bool no_check = false;                // of a program
  std::optional<double> check_seconds;  // unset: a share of what a recording takes
  int32_t check_iterations = 0;         // 0: until every kind was seen twice
  bool stand_in = false;                // for a program's files that are not there
  int32_t stall_timeout_s = 600;
  int32_t host_timeout_s = 20;

  std::string out;  // "" = the default folder
  bool force = false;
  bool resume = false;
  std::string graph;
  OutputFormat format = OutputFormat::kText;
  bool perfetto = false;
  std::string trace_ranks;
  std::string memory_snapshot;  // list of sandbox ranks
  std::string config;           // the file that some options are read from
  bool print_config = false;
  bool dry_run = false;
  LogLevel log_level = LogLevel::kInfo;
  bool quiet = false;
  std::string color = "auto";
  bool strict = false;
  bool cold_start = false;
  std::optional<double> max_error_pct;  // deviation of the emulated iteration time from the
                                        // replayed one

  InputHashes inputs;  // files that the options were read from

  GivenOptions given;  // what set the others

  bool operator==(const Options&) const = default;
};

inline constexpr const char* kAutoHost = "auto";
inline constexpr const char* kFixedHost = "fixed";
inline constexpr const char* kPythonHost = "python";

// Whether costs by sort of op were chosen.
inline bool HasHostCosts(const Options& options) {
  return !options.host_costs.empty() && options.host_costs != kFixedHost;
}

// The options of the command line, the environment and config files, in the order of --help.
const std::vector<Option<Options>>& OptionTable();

// `program` of a config file: what follows "--" on a command line.
const Option<Options>& ProgramOption();

// What a main function has to do with a command line.
struct CommandLine {
  Options options;
  bool show_help = false;
  bool show_version = false;
  std::vector<std::string> unknown_variables;  // PRISM_* that no option and no part of Prism reads
};

// Reads command line, environment and config file. kInvalidArgument for what is unknown,
// contradictory or not available; kBadFile for a config file that cannot be used.
Result<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

// Options from a config file only, ignoring the environment. Fails as ParseCommandLine does.
Result<Options> ReadRunOptions(const std::string& config_file);

// A refusal of what the options with these keys ask for together. If only a config file gave them
// it is a fault of that file: kBadFile, naming file and keys. What one variable of the environment
// asks for is refused by its name, unless the refusal names the option (NamingOrigins).
Status AtOrigin(const Options& options,
                const std::vector<std::string_view>& keys,
                const Status& status);

// The same refusal, which names options, with the variables of the environment and the config file
// that set them.
Status NamingOrigins(const Options& options, const Status& status);

// The whole text of --help.
std::string HelpText();

// A config file that reproduces the run, also with another --target-gpus: sizes that were derived
// from others are comments.
std::string ConfigText(const Options& options, const graph::JobSpec& job);

}  // namespace prism::launch
