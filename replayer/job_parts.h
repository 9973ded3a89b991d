// What a job consists of, for questions about one part of it: families of kernels, layers, stages,
// roles, hosts, communicators, links. Parts overlap: a kernel belongs to its family, its layer, its
// stage and its role.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/graph.h"
#include "replayer/engine/partition.h"
#include "replayer/engine/replay_options.h"
#include "replayer/engine/speedup.h"

namespace prism::replayer {

enum class PartKind : uint8_t {
  kFamily,         // kernels and copies whose time one rule of the cost model gives (CostReport)
  kKernel,         // kernels of one name
  kLayer,          // what runs inside the markers of one layer
  kStage,          // kernels and copies of a pipeline stage
  kRole,           // the same of a role
  kHost,           // what the hosts of a pipeline stage issue, and their sleeps
  kCommunicators,  // transfers of all communicators of one name
  kCommunicator,   // transfers of one communicator
  kLink,           // transfers inside nodes; transfers between them
};
inline constexpr size_t kPartKinds = 9;

// "kernels", "kernel", "layer", "stage", "role", "host", "communicators", "communicator", "link".
const char* PartKindName(PartKind kind);

struct JobPart {
  PartKind kind = PartKind::kFamily;
  std::string name;
  uint32_t index = 0;      // among the parts of its kind
  DurationNs busy_ns = 0;  // in an iteration, on the rank where it is longest
};

class JobParts {
 public:
  // `graph` must outlive it.
  static Result<JobParts> Of(const graph::Graph& graph, const ReplayOptions& options);

  // All that take time, longest first; of communicators that cannot differ in time, one.
  [[nodiscard]] std::vector<JobPart> All() const;

  [[nodiscard]] Speedup Faster(const JobPart& part, double factor) const;

 private:
  // Names of the parts of one kind, in order of first use.
  struct Names {
    std::vector<std::string> all;
    std::map<std::string, uint32_t> index_of;
    uint32_t Of(const std::string& name);
  };

  explicit JobParts(const graph::Graph& graph) : graph_(graph) {}
  [[nodiscard]] Names& NamesOf(PartKind kind) { return names_[static_cast<size_t>(kind)]; }
  void NameWork();
  void NameTransfers(const Partition& partition);
  [[nodiscard]] uint32_t PartOf(PartKind kind, uint32_t role, uint32_t op) const;
  void AddClass(const Partition& partition, uint32_t class_index, const TransferCosts& costs);

  const graph::Graph& graph_;
  std::array<Names, kPartKinds> names_;
  std::array<std::vector<DurationNs>, kPartKinds> busy_ns_;  // by kind and part
  std::vector<uint32_t> family_of_;                          // by kernel signature
  std::vector<uint32_t> kernel_of_;                          // by kernel signature
  uint32_t fixed_ = 0;                                       // families that no signature has
  uint32_t copy_ = 0;
  std::vector<uint32_t> stage_of_;               // by role
  std::vector<std::vector<uint32_t>> layer_of_;  // by role and op
  std::vector<uint32_t> axis_of_;                // by communicator: its kCommunicators
  std::vector<CommId> communicators_;            // by kCommunicator
};

}  // namespace prism::replayer
