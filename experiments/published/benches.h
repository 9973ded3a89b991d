// What prism-published runs: `prism bench accuracy` with its --ablation and --calibrated, `prism
// bench collectives`, and `prism calibrate`.
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
  int64_t calibrated = 0;            // rows that are given to calibration; 0: without
};

// Predicts published runs; a case a source. Under mpirun together; then only process 0 has them.
Result<PublishedOutput> BenchAccuracy(const BenchAccuracyOptions& options);

// Leaves out each effect that options.without names (every effect if it names none) in turn: one
// case per effect with the errors without it, over all rows of the tables together, and by source
// in `rows`.
Result<PublishedOutput> BenchAblation(const BenchAccuracyOptions& options);

// Gives options.calibrated rows of every table and machine to calibration, and predicts the others
// before and after: a case each, then one for all.
Result<PublishedOutput> BenchCalibrated(const BenchAccuracyOptions& options);

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

struct CalibrateOptions {
  std::vector<std::string> inputs;  // as of measured_runs.h
  std::string out;                  // the cluster file
  std::string row;                  // "COLUMN=VALUE;..."
  std::string model;                // preset or file; "": none
  bool json = false;
};

// Writes the cluster file; the report.
Result<std::string> RunCalibration(const CalibrateOptions& options);

}  // namespace prism::launch
