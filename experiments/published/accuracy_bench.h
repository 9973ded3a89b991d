// `prism bench accuracy TABLE.csv... [--out FILE]`: predicts published runs and reports the errors.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/bench/bench.h"

namespace prism::launch {

struct BenchAccuracyOptions {
  std::vector<std::string> tables;  // paths
  std::string out;                  // file of the rows; "": none
  // File with one set of parameters per line, "profile:key=value ..."; instead of errors the output
  // is one line of predicted seconds per set, in the order of the rows, "nan" for rows that cannot
  // be predicted. For fits (experiments/fit). "": none.
  std::string parameter_sets;
  std::vector<std::string> without;  // effects to leave out (experiments/published/effects.h)
};

struct BenchAccuracyOutput {
  std::vector<BenchCase> cases;  // one a source
  std::string text;              // the same for people; for parameter sets: the predictions
  std::string rows;              // the CSV, whether or not it went to a file
};

Result<BenchAccuracyOutput> BenchAccuracy(const BenchAccuracyOptions& options);

// Leaves out each effect that options.without names (every effect if it names none) in turn: one
// line per effect with the errors without it, over all rows of the tables together, and by source
// in `rows`.
Result<BenchAccuracyOutput> BenchAblation(const BenchAccuracyOptions& options);

}  // namespace prism::launch
