// `prism bench accuracy TABLE.csv... [--out FILE]`: predicts published runs and says how far off it
// is.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/bench/bench.h"

namespace prism::launch {

struct BenchAccuracyOptions {
  std::vector<std::string> tables;  // paths
  std::string out;                  // file of the rows; "" none
  // File with a set of parameters a line, "profile:key=value ..." each; instead of errors the
  // output is a line of predicted seconds for each set, in the order of the rows, "nan" for those
  // that cannot be predicted. For fits (experiments/fit). "" none.
  std::string parameter_sets;
  std::vector<std::string> without;  // effects that are taken away (launch/accuracy/effects.h)
};

struct BenchAccuracyOutput {
  std::vector<BenchCase> cases;  // one a source
  std::string text;              // the same for people; of parameter sets: the predictions
  std::string rows;              // the CSV, whether or not it went to a file
};

Result<BenchAccuracyOutput> BenchAccuracy(const BenchAccuracyOptions& options);

// The effects options.without names, every one where it names none, taken away in turn: a line each
// with the errors without it, over all rows of the tables together, and by source in the rows.
Result<BenchAccuracyOutput> BenchAblation(const BenchAccuracyOptions& options);

}  // namespace prism::launch
