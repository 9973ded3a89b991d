// `prism bench collectives [TABLE.csv] [--out FILE]`: predicts measured collectives and reports the
// errors; without a table, prints a sweep on a cluster preset as nccl-tests does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/bench/bench.h"

#include "experiments/published/collective_row.h"

namespace prism::launch {

struct BenchCollectivesOptions {
  std::string table;      // path
  bool fit = false;       // fit the profiles to the table and print the values
  bool leave_out = true;  // also predict each curve from a fit to the others
};

struct BenchCollectivesOutput {
  std::vector<BenchCase> cases;  // one per curve, then one for all
  std::string text;              // the same for people
  std::string rows;              // CSV with nccl-tests' columns, measured values and errors
};

Result<BenchCollectivesOutput> BenchCollectives(const BenchCollectivesOptions& options);

struct CollectiveSweepOptions {
  std::string cluster = "h100-8x";
  std::string collective = "all_reduce";
  int32_t ranks = 8;
};

struct CollectiveSweep {
  std::vector<BenchCase> cases;  // one a size
  std::string text;              // nccl-tests' table
};

// Sizes from 8 B to 8 GiB, doubled.
Result<CollectiveSweep> SweepCollective(const CollectiveSweepOptions& options);

}  // namespace prism::launch
