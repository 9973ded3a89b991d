// Changes that a user names by patterns, GPUs and parameters → the Edit that says op by op what
// they come to. Each call is one change; those of durations are of what kernels take on the cluster
// as it is edited by then. A change that names nothing of the job is kBadFile, and the edit is of
// no use after it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/delta/edit.h"
#include "replayer/replay.h"

namespace prism::replayer {

// What becomes of kernels whose name fits a pattern (graph/base/glob.h).
struct KernelChange {
  enum class Kind : uint8_t {
    kFactor,    // each takes that many times as long
    kDuration,  // each takes so long
    kFuse,      // runs of them on a stream, with nothing else issued between, become one: the first
                // takes what the longest did, the others nothing
  };

  std::string pattern;
  std::string shape;        // pattern of a product's "MxNxK"; "" any kernel
  std::vector<Rank> ranks;  // ascending; none: all
  Kind kind = Kind::kFactor;
  double factor = 1;
  DurationNs duration_ns = 0;
};

class EditBuilder {
 public:
  // `graph` must outlive the builder; `options` are those of the job that is edited.
  EditBuilder(const graph::Graph& graph, const ReplayOptions& options);

  // Everything that the other cluster's GPU profile states; nodes, links and hosts stay.
  void TakeGpuOf(const graph::ClusterSpec& other);

  // The cluster must have the parameter.
  Status SetParameter(const std::string& key, double value);

  void Perturb(Perturbation perturbation);

  // Some kernel must fit; none may be changed twice by these calls and ChangePrecision.
  Status ChangeKernels(const KernelChange& change);

  // Factors of all matrix products are of that type. What was measured changes by as much as what
  // the model makes of it.
  Status ChangePrecision(graph::DataType type);

  // One op of one rank, whatever else is said of it.
  void SetOp(Rank rank, uint32_t op, DurationNs duration_ns);

  // Of communicators of that name; "*": of all.
  Status ForceAlgorithm(const std::string& communicator, NcclAlgorithm algorithm);

  // Two ranks change places.
  void SwapPlaces(Rank rank, Rank other);

  // What was changed; kInvalidArgument where ApplyEdit would refuse it, kBadFile where a program
  // would take longer than a graph's may.
  Result<Edit> Take() &&;

  // A line each: what the changes take for granted.
  [[nodiscard]] const std::vector<std::string>& assumptions() const { return assumptions_; }

 private:
  ReplayOptions& OtherOptions();
  void UseCluster(graph::ClusterSpec cluster);
  [[nodiscard]] int64_t MeasuredKernels() const;
  [[nodiscard]] DurationNs DurationOf(const graph::Program& program, uint32_t op) const;
  [[nodiscard]] std::set<uint32_t> SignaturesOf(const KernelChange& change) const;
  [[nodiscard]] std::vector<OpDuration> FusedRuns(const graph::Program& program,
                                                  const std::set<uint32_t>& signatures) const;
  [[nodiscard]] std::vector<OpDuration> ChangedDurations(const graph::Program& program,
                                                         const std::set<uint32_t>& signatures,
                                                         const KernelChange& change) const;
  Result<bool> ChangeRole(uint32_t role,
                          const std::set<uint32_t>& signatures,
                          const KernelChange& change);
  Status Add(ProgramEdit edit);

  const graph::Graph& graph_;
  const ReplayOptions& options_;
  ComputeCost compute_;
  Edit edit_;
  std::map<uint32_t, std::set<uint32_t>> changed_;  // by role: ops whose duration is said
  std::vector<std::string> assumptions_;
};

}  // namespace prism::replayer
