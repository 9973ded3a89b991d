// A perturbation of a job, as --perturb asks for it: which ranks, links or parts of the network it
// affects, and how.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/time.h"

namespace prism::replayer {

// One --perturb option, parsed (launch/inputs/perturbation.h).
enum class PerturbationKind : uint8_t {
  kStraggler,
  kLink,
  kKill,
  kLate,
  kJitter,
  kHost,
  kPeriodic,
  kFail
};

// Distribution of the factor by which noise multiplies a duration; its mean is 1, its standard
// deviation the relative spread. Never below 0.
enum class JitterShape : uint8_t { kNormal, kLognormal, kExponential, kUniform };
inline constexpr size_t kJitterShapes = 4;

struct Perturbation {
  PerturbationKind kind = PerturbationKind::kStraggler;
  std::vector<Rank> ranks;  // kStraggler, kKill, kLate, kHost, kPeriodic
  double factor = 1;        // kStraggler, kLink: compute or transfers take this times as long;
                            // kHost: the same for the host's issuing, not its sleeps; kJitter:
                            // relative spread
  JitterShape shape = JitterShape::kNormal;
  int32_t node_a = -1;  // kLink
  int32_t node_b = -1;
  int32_t iteration = -1;   // kKill: the rank stops at the start of this iteration, from 0
  DurationNs delay_ns = 0;  // kLate: host time before the first op
  // kPeriodic: every period_ns the device is stopped for duration_ns
  // (replayer/perturb/interference.h); or the host is, before each iteration whose number is a
  // multiple of period_iterations, except the first.
  DurationNs period_ns = 0;
  int32_t period_iterations = 0;
  DurationNs duration_ns = 0;
  std::string part = {};  // kFail: switch, NIC or link out of service (replayer/network/topology.h)
  std::string text = {};  // as the user wrote it, for messages
};

}  // namespace prism::replayer
