// What prism-published runs: `prism bench accuracy`, its --ablation, and `prism bench collectives`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/bench/bench.h"

namespace prism::launch {

struct PublishedOutput {
  std::vector<BenchCase> cases;
  std::string text;  // the same for people
  std::string rows;  // CSV, if the bench has rows
};

struct BenchAccuracyOptions {
  std::vector<std::string> tables;  // paths
  // File with one set of parameters per line, "profile:key=value ..."; instead of errors the text
  // is one line of predicted seconds per set, in the order of the rows, "nan" for rows that cannot
  // be predicted. For fits (experiments/fit). "": none.
  std::string parameter_sets;
  std::vector<std::string> without;  // effects to leave out (experiments/published/effects.h)
};

// Predicts published runs; a case a source.
Result<PublishedOutput> BenchAccuracy(const BenchAccuracyOptions& options);

// Leaves out each effect that options.without names (every effect if it names none) in turn: one
// case per effect with the errors without it, over all rows of the tables together, and by source
// in `rows`.
Result<PublishedOutput> BenchAblation(const BenchAccuracyOptions& options);

struct BenchCollectivesOptions {
  std::string table;      // path
  bool fit = false;       // fit the profiles to the table and print the values
  bool leave_out = true;  // also predict each curve from a fit to the others
};

// Predicts measured collectives: one case per curve, then one for all. The rows have nccl-tests'
// columns, measured values and errors.
Result<PublishedOutput> BenchCollectives(const BenchCollectivesOptions& options);

struct CollectiveSweepOptions {
  std::string cluster = "h100-8x";
  std::string collective = "all_reduce";
  int32_t ranks = 8;
};

// Sizes from 8 B to 8 GiB, doubled: a case a size, and nccl-tests' table.
Result<PublishedOutput> SweepCollective(const CollectiveSweepOptions& options);

}  // namespace prism::launch
