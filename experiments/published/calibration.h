// What a site's own runs say about it. A profile of launch/presets/ describes a kind of machine;
// a site differs from it by its clocks and cooling, its cables and switches, its CPUs and Python.
// Three factors on the profile's parameters stand for that, and measured seconds of iterations
// determine as many of them as they can.
//
// The fit finds the most probable factors: each run's logarithm of predicted over measured seconds
// has the spread of repeated runs, each factor's logarithm that of sites, both with the tails of
// Student's t (the constants in calibration.cc, with how they were chosen). So one run moves what
// it depends on most, in proportion to how unsure that is; no factor moves that has no effect on
// the runs, and what two factors explain alike is shared between them. A factor whose spread the
// runs do not at least halve is called not determined.
#pragma once

#include <array>
#include <functional>
#include <string_view>
#include <vector>

#include "graph/base/status.h"
#include "graph/job/cluster.h"

namespace prism::launch {

// Ratios to the profile.
struct Site {
  double compute = 1;  // rates of matrix units and memory: gpu.sustained_clock, gpu.hbm_efficiency
  double network = 1;  // what NICs and NVLinks achieve: [net|nccl].*_efficiency, at most nominal
  double host = 1;     // every time of the host thread: host.*_ns

  bool operator==(const Site&) const = default;
};

inline constexpr size_t kSiteFactors = 3;

// What the factors change, with `source` and as fitted; a factor of 1 changes nothing.
void ApplySite(const Site& site, std::string_view source, graph::ClusterSpec* cluster);

struct FittedFactor {
  std::string_view name;        // "rate of the GPU"
  std::string_view parameters;  // "gpu.sustained_clock, hbm_efficiency"
  double value = 1;
  double spread_before = 0;  // standard deviation of its logarithm
  double spread_after = 0;
  bool determined = false;
  bool unlikely = false;  // six spreads away: rather a run that is not what its columns say
};

struct Calibration {
  Site site;
  std::array<FittedFactor, kSiteFactors> factors;
  std::vector<double> before_s;  // predicted, by run
  std::vector<double> after_s;
};

// Predicted seconds of all runs at a site.
using PredictRuns = std::function<Result<std::vector<double>>(const Site&)>;

// `measured_s`: at least one, all above 0. Fails as `predict` does.
Result<Calibration> Calibrate(const std::vector<double>& measured_s, const PredictRuns& predict);

}  // namespace prism::launch
