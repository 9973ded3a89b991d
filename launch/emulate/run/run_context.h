// What every stage of a run reads: the job, the cluster, the plan and where our programs are.
// Created in main, equal in all processes, before MPI starts. What only a recording shows (the job
// in the graph; for a user's program layout, plan, ranks and number of iterations) is filled in by
// process 0 (run/program_layout.h, run/master.h), which sends the part that the emulation needs to
// the workers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/log.h"
#include "graph/graph.h"
#include "graph/job/cluster.h"
#include "graph/job/job.h"
#include "launch/emulate/sandbox/gpu.h"
#include "launch/emulate/sandbox/sandbox_process.h"
#include "launch/emulate/store/store_server.h"
#include "launch/inputs/host_costs.h"
#include "launch/inputs/options.h"
#include "launch/process/install_paths.h"
#include "replayer/perturb/perturbation.h"
#include "slicer/plan.h"

namespace prism::launch {

struct RunContext {
  Options options;
  graph::JobSpec job;
  graph::ClusterSpec cluster;
  std::vector<replayer::Perturbation> perturbations;
  std::string layout_origin;
  slicer::SlicePlan plan;
  std::vector<Rank> sandbox_ranks;   // ascending
  std::vector<int> places_on_host;   // by sandbox rank, once placed: ranks before it on its host
  bool shares_gpu = false;           // once placed (SharesGpu of hosts.h)
  std::vector<Rank> log_ranks;       // output shown live
  std::vector<Rank> traced_ranks;    // ascending; whose timelines go into trace.pftrace
  std::vector<Rank> snapshot_ranks;  // ascending, sandbox ranks; whose memory history is written
  std::vector<Rank> record_ranks;    // ascending; that --record-ranks names
  bool tells_lines = false;          // ranks say which source line calls (prism check)
  std::optional<Gpu> gpu;            // of this host, for its sandbox ranks; process 0 has none:
                                     // all run on the virtual device
  std::optional<Gpu> record_gpu;     // that recorded ranks' kernels are timed on; null: none
  std::vector<graph::Warning> warnings;        // of the plan
  std::vector<std::string> assumptions;        // about how a program was run; added to the graph's
  std::vector<std::string> model_assumptions;  // those that the model brings, for the printed plan
  std::optional<HostCosts> measured_host;      // by --host-time measured, once recorded
  InputHashes inputs;                          // files that the plan was made from
  InstallPaths paths;
  Logger logger;
};

// Where our programs and libraries for the program's own torch are: that of the interpreter that a
// launcher starts, if it names one.
Status FindPaths(RunContext* context);

// What a message of a CPU group (gloo) takes between hosts, where the cluster does not say: TCP
// through the kernel, over one connection, which is slower than a fast NIC.
inline constexpr int64_t kHostMessageNs = 30'000;
inline constexpr double kHostBytesPerS = 2.5e9;

// Address space of the memory through which ranks that run together exchange data; only touched
// pages take memory.
inline constexpr int64_t kExchangeBytes = int64_t{1} << 32;

// How the ranks that run together find each other.
struct MeetingPoint {
  std::string exchange;     // path of the memory that they share; "" with one rank
  uint16_t store_port = 0;  // of their StoreServer; 0: the program makes no store
  std::string values;       // path of what recorded ranks sent to absent ones; "": none
  std::map<Rank, uint64_t> value_bytes;  // bytes of it by rank; 0 for the first one recorded
};

// How one rank is to be run in a pass.
struct SandboxRequest {
  Rank rank;
  channel::Mode mode = channel::Mode::kRecord;
  std::vector<Rank> present;  // ranks that run together, this one included
  int iterations = 1;
  int place_on_host = 0;  // which of its GPUs, modulo their number
  MeetingPoint meeting;
};

// Program, arguments, environment and channel of a rank. The environment is the one that its
// launcher would give it at the target's size, torchrun's if it has none.
SandboxSpec MakeSandboxSpec(const RunContext& context, const SandboxRequest& request);

// The program as a script that is to reach its launcher: it sees a node of the cluster, and nothing
// is recorded.
SandboxSpec MakeScriptSpec(const RunContext& context);

// The store for that many ranks that run together. None for the built-in workload, which brings its
// own. `written`: what others were seen to write.
Result<std::unique_ptr<StoreServer>> StartStore(
    const RunContext& context,
    size_t present,
    std::shared_ptr<const StoreValues> written = nullptr,
    int64_t blocked_after_ms = StoreServerOptions().blocked_after_ms,
    const StorePatience& patience = {});

// Logs the store's reports. Returns its failure, if any; OK without a store.
Status CheckStore(const RunContext& context, StoreServer* store);

}  // namespace prism::launch
