// Kernel times measured on a real GPU, used in place of the model's. They are parameters of the
// cluster (graph::ParameterTable), so they are stored with a graph and have a source and a mark
// like all others. A key is
//
//   kernel.KIND.TYPE.MxNxKxBATCH, in ns from the start of a kernel of a full stream to the next
//
//   KIND matmul                          M rows, N columns of the result, K inner length, by batch,
//                                        in the words of row-major tensors (cuBLAS's m is N)
//   KIND attention, attention_backward   M queries, N keys, K wide, by sequences times heads
//   KIND a framework op (gelu, add)      M rows of its first input, N wide; K and BATCH 1. Only ops
//                                        that launch one kernel, since each kernel counts in full
//
// TYPE as DataTypeName writes it, of the first factor, of queries, of the first input; tf32 for
// products of fp32 that may use it. Memory layouts of operands are not distinguished.
//
// What kernels, copies and memsets of this very job took on a real GPU (prism run --record-device)
// are such parameters too, whose source says how often each was seen and how far it varied:
//
//   recorded.kernel.HASH        of a signature (graph::SignatureKey)
//   recorded.copy.WAY.BYTES     WAY to_device, to_host or on_device
//   recorded.memset.BYTES
//
// in ns from begin to end: the gap to the next kernel of a full stream comes on top. Kernels that
// take another time at their place in the program than their signature does elsewhere have a
// duration of their own (graph::kDurationFixed), gap included. Takes precedence over tables of
// measured kernels and the model.
//
// Beside them stands what the host took there for a call, of the replay's parameter host.KIND_ns:
//
//   recorded.host.KIND_ns       mean, the driver's part included, waits for the GPU left out
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/time.h"
#include "graph/graph.h"
#include "graph/job/cluster.h"
#include "graph/program/op.h"
#include "replayer/cost/kernel_rules.h"

namespace prism::replayer {

// M, N, K and BATCH.
using KernelSizes = std::array<int64_t, 4>;

std::string MeasuredKernelKey(std::string_view kind,
                              std::string_view type,
                              const KernelSizes& sizes);
bool IsMeasuredKernelKey(std::string_view key);

// The keys that the kernels of a graph look up, without those whose time the graph fixes.
std::set<std::string> MeasuredKernelKeys(const graph::Graph& graph);

// Whether a row of this kind can match a kernel of some job: one of the three above, an op that a
// rule of replayer/cost/kernel_rules.h names, or one of the graph's own.
bool IsKernelKind(std::string_view kind, const graph::Graph& graph);

class MeasuredKernels {
 public:
  explicit MeasuredKernels(const graph::ParameterTable& parameters);

  // Null if no row has the kernel's kind, type and sizes.
  [[nodiscard]] std::optional<DurationNs> Find(const KernelView& view) const;

 private:
  std::map<std::string, DurationNs, std::less<>> times_;
};

std::string RecordedKernelKey(const graph::Graph& graph, const graph::KernelSignature& signature);

// Of an op that is a kernel, copy or memset; "" of others.
std::string RecordedKey(const graph::Graph& graph, const graph::Program& program, uint32_t op);
std::string RecordedCopyKey(int64_t bytes, uint8_t flags);
std::string RecordedMemsetKey(int64_t bytes);

bool IsRecordedKey(std::string_view key);

class RecordedTimes {
 public:
  explicit RecordedTimes(const graph::ParameterTable& parameters);

  [[nodiscard]] bool empty() const { return times_.empty(); }
  [[nodiscard]] std::optional<DurationNs> Find(std::string_view key) const;

 private:
  std::map<std::string, DurationNs, std::less<>> times_;
};

// "" for ops that cost the host nothing.
std::string RecordedHostKey(graph::OpKind kind);

// Ops of one kind in one iteration, over all ranks, and the host's time for them.
struct HostCostRow {
  std::string kind;  // "kernel"
  int64_t ops = 0;
  double recorded_s = 0;
  double replay_s = 0;
};

// Of the kinds that were measured so, ordered by kind.
std::vector<HostCostRow> ReportHostCosts(const graph::Graph& graph);

}  // namespace prism::replayer
