// The files of the output folder and the final block on stdout.
#pragma once

#include <string>
#include <vector>

#include "graph/base/input_hashes.h"
#include "graph/base/status.h"
#include "launch/emulate/run/master.h"
#include "launch/emulate/run/output_folder.h"
#include "launch/emulate/run/run_context.h"
#include "launch/process/mpi_session.h"
#include "replayer/report/summary.h"

namespace prism::launch {

// Versions of the libraries of a run, "" if not known: for a user's program only the CUDA and NCCL
// that it was shown; without sandbox ranks and recording, nothing at all.
struct LibraryVersions {
  std::string torch;
  std::string cuda;
  std::string nccl;
  std::string mpi;
};

// The versions of this run.
LibraryVersions VersionsOf(const RunContext& context, const MpiSession& session);

// Numbers of a run that belong to this machine and day: run.json.
struct RunRecord {
  std::vector<std::string> command;
  Launch launch;  // of the program
  int processes = 1;
  int64_t max_rss_bytes = 0;
  std::string graph_hash;  // of graph.prism
  InputHashes inputs;      // "" for a file that is too large to hash
  LibraryVersions versions;
};

// Writes all files but run.json.
Status WriteResultFiles(const RunContext& context,
                        const RunOutcome& outcome,
                        const replayer::Summary& summary,
                        OutputFolder* folder);

std::string RunJson(const RunRecord& record, const RunOutcome& outcome);

// "12.1 s: plan 0.5, slice ...", and what took most.
std::string WallText(const RunOutcome& outcome);

// What --dry-run prints: the plan, and a forecast of its time and memory
// (launch/emulate/run/forecast.h).
std::string PlanText(const RunContext& context);

// The same as JSON: job, layout and its origin, number of roles, recorded ranks and sandbox ranks,
// forecast; null where a program has to run first.
std::string PlanJson(const RunContext& context);

}  // namespace prism::launch
