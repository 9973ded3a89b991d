// Translates changes that a user names by patterns, GPUs and parameters into an Edit, op by op.
// Each call is one change; changes of durations apply to what kernels take on the cluster as edited
// so far. A change that matches nothing in the job is kBadFile, and the builder must not be used
// after it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/edit/edit.h"
#include "replayer/engine/replay_options.h"

namespace prism::replayer {

// What to do with kernels whose name matches a pattern (graph/base/glob.h).
struct KernelChange {
  enum class Kind : uint8_t {
    kFactor,    // each takes `factor` times as long
    kDuration,  // each takes duration_ns
    kFuse,      // consecutive ones on a stream become one: the first takes as long as the longest
                // did, the others nothing
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

  // Takes over the other cluster's whole GPU profile; nodes, links and hosts stay. What the job
  // took on a GPU, and products of measured duration, which follow SetParameter too, change by the
  // same factor as the modelled times.
  void TakeGpuOf(const graph::ClusterSpec& other);

  // The cluster must have the parameter.
  Status SetParameter(const std::string& key, double value);

  void Perturb(Perturbation perturbation);

  // At least one kernel must match; no kernel may be changed twice by these calls and
  // ChangePrecision.
  Status ChangeKernels(const KernelChange& change);

  // Sets the data type of the factors of all matrix products. Measured durations change by the same
  // factor as the modelled ones.
  Status ChangePrecision(DataType type);

  // Sets the duration of one op of one rank; overrides any other change of it.
  void SetOp(Rank rank, uint32_t op, DurationNs duration_ns);

  // For the communicators of that name; "*": for all.
  Status ForceAlgorithm(const std::string& communicator, NcclAlgorithm algorithm);

  // By rank: its GPU.
  void Place(std::vector<uint32_t> gpus);

  // Two ranks change places.
  void SwapPlaces(Rank rank, Rank other);

  // Returns the edit; kInvalidArgument where ApplyEdit would refuse it, kBadFile where a program
  // would take longer than a graph's may.
  Result<Edit> Take() &&;

  // What the changes assume, one line each.
  [[nodiscard]] const std::vector<std::string>& assumptions() const { return assumptions_; }

 private:
  ReplayOptions& OtherOptions();
  void UseCluster(graph::ClusterSpec cluster);
  void ScaleRecorded(const ComputeCost& other, graph::ClusterSpec* cluster);
  // Kernels of measured duration that change with the cluster, or the others.
  [[nodiscard]] int64_t MeasuredKernels(bool following) const;
  [[nodiscard]] bool Follows(const graph::Program& program, uint32_t op) const;
  // How much longer the model's time is on the edited cluster.
  [[nodiscard]] double ClusterShare(const graph::KernelSignature& signature) const;
  void RescaleMeasured();
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
  ComputeCost original_;  // on the graph's cluster
  ComputeCost compute_;   // on the edited one
  Edit edit_;
  std::set<uint32_t> recorded_;  // signatures that a GPU ran (--record-device)
  bool takes_gpu_ = false;
  std::map<uint32_t, std::set<uint32_t>> changed_;  // by role: ops whose duration is set
  std::vector<std::string> assumptions_;
};

}  // namespace prism::replayer
