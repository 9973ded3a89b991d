// What can be asked of a replay beside its graph.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "replayer/cost/nccl_tuner.h"
#include "replayer/engine/network_model.h"
#include "replayer/perturb/perturbation.h"

namespace prism::replayer {

// NCCL_ALGO for the communicators of one name; an empty name means all.
struct ForcedAlgorithm {
  std::string communicator;
  NcclAlgorithm algorithm = NcclAlgorithm::kRing;
};

struct Speedup;        // replayer/engine/speedup.h
struct TransferTimes;  // replayer/engine/meeting.h

struct ReplayOptions {
  NetworkModel network = NetworkModel::kAnalytic;
  // Under kFlow: what transfers took in an earlier replay of the graph, instead of a network.
  std::shared_ptr<const TransferTimes> frozen;
  int32_t iterations = 3;  // replayed; the last gives the steady numbers
  std::vector<Perturbation> perturbations;
  std::vector<Rank> traced;                 // ranks whose whole timeline is kept (Timeline)
  std::vector<uint32_t> placement;          // by rank: its GPU; empty: rank r is on GPU r
  std::vector<ForcedAlgorithm> algorithms;  // the last that fits a communicator counts
  uint64_t seed = 0;                        // of jitter
  double compute_scale = 1;                 // multiplies every compute duration (intervals)
  double comm_scale = 1;                    // multiplies every transfer duration (intervals)
  std::shared_ptr<const Speedup> speedup;   // part of the job that is faster; null: none
  int32_t threads = 1;                      // never changes a result
  bool classes = true;    // false: every rank is evaluated separately; changes no result
  bool fold = true;       // false: every kernel of a run is evaluated; changes no result
  bool breakdown = true;  // false: of RankTimes only iteration_ns is filled, in half of the time
};

}  // namespace prism::replayer
