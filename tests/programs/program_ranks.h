// Runs a Python program as some ranks of a large job, the way the launcher does, but without
// recording or emulating it: the shim, the store server and the exchange are the real ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/emulate/store/store_server.h"

namespace prism::launch {

struct ProgramRun {
  // A script in tests/programs, preceded by options for Python.
  std::string script;
  std::vector<std::string> python_arguments = {};
  int32_t world_size = 8192;
  int32_t ranks_per_node = 8;
  std::vector<int32_t> ranks;  // ascending; run at the same time
  int64_t blocked_after_ms = 10'000;
  std::string torch_libraries = {};  // folder; "": those of the program's torch
};

struct RankOutcome {
  Status exit;      // of the process
  std::string log;  // stdout and stderr
  // Lines of the log that begin with "same ", in order: must be equal on all ranks.
  std::string agreed;
  double startup_seconds = 0;  // until the program says "started"
};

struct ProgramOutcome {
  std::vector<RankOutcome> ranks;  // as in ProgramRun
  Status store;                    // StoreServer::status() at the end
  std::vector<std::string> reports;
  int64_t store_requests = 0;
};

// "" or why programs of torch cannot run here.
std::string WhyNoPrograms();

// Ends the processes when the store fails. kEnvironment when nothing could be started.
Result<ProgramOutcome> RunProgram(const ProgramRun& run);

}  // namespace prism::launch
