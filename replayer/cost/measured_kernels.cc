#include "replayer/cost/measured_kernels.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/hash.h"
#include "graph/describe.h"
#include "replayer/cost/attention.h"
#include "replayer/cost/parameters.h"

namespace prism::replayer {
namespace {

constexpr std::string_view kPrefix = "kernel.";
constexpr std::string_view kRecorded = "recorded.";

std::string MatmulKey(const KernelView& view) {
  const graph::MatmulShape& shape = view.signature.matmul;
  const bool tf32 =
      shape.input == DataType::kFloat32 && view.kernel.find("tf32") != std::string_view::npos;
  return MeasuredKernelKey("matmul", tf32 ? "tf32" : DataTypeName(shape.input),
                           {shape.n, shape.m, shape.k, std::max<int64_t>(1, shape.batch)});
}

// "" if its shape is unknown or not causal: only causal ones are measured.
std::string AttentionKey(const KernelView& view) {
  const std::optional<AttentionShape> shape = FindAttention(view);
  return shape && shape->causal
             ? MeasuredKernelKey(shape->backward ? "attention_backward" : "attention",
                                 DataTypeName(shape->type),
                                 {shape->queries, shape->keys, shape->width, shape->batch_heads})
             : std::string();
}

std::string OpKey(const KernelView& view) {
  const auto& inputs = view.signature.inputs;
  if (inputs.empty() || inputs[0].dims.empty() || inputs[0].dims.back() == 0) {
    return {};
  }
  const int64_t width = inputs[0].dims.back();
  return MeasuredKernelKey(BareOpName(view.framework_op), DataTypeName(inputs[0].dtype),
                           {inputs[0].ElementCount() / width, width, 1, 1});
}

std::string KeyOf(const KernelView& view) {
  if (view.signature.matmul.m > 0) {
    return MatmulKey(view);
  }
  return IsAttentionKernel(view) ? AttentionKey(view) : OpKey(view);
}

}  // namespace

std::set<std::string> MeasuredKernelKeys(const graph::Graph& graph) {
  std::set<std::string> keys;
  for (const graph::Role& role : graph.roles) {
    const graph::Program& program = role.program;
    for (uint32_t op = 0; op < program.size(); ++op) {
      if (program.kind[op] == graph::OpKind::kKernel &&
          (program.flags[op] & graph::kDurationFixed) == 0) {
        const graph::KernelSignature& signature = graph.signatures[program.signature[op]];
        keys.insert(
            KeyOf({graph.string(signature.name), graph.string(signature.framework_op), signature}));
      }
    }
  }
  return keys;
}

bool IsKernelKind(std::string_view kind, const graph::Graph& graph) {
  graph::KernelSignature any;
  any.inputs.resize(2);
  return kind == "matmul" || kind == "attention" || kind == "attention_backward" ||
         FrameworkOpBytes({"", kind, any}) ||
         std::ranges::any_of(graph.signatures, [&](const auto& signature) {
           return BareOpName(graph.string(signature.framework_op)) == kind;
         });
}

std::string MeasuredKernelKey(std::string_view kind,
                              std::string_view type,
                              const KernelSizes& sizes) {
  return fmt::format("{}{}.{}.{}", kPrefix, kind, type, fmt::join(sizes, "x"));
}

bool IsMeasuredKernelKey(std::string_view key) {
  return key.starts_with(kPrefix);
}

MeasuredKernels::MeasuredKernels(const graph::ParameterTable& parameters) {
  for (const graph::Parameter& parameter : parameters.all()) {
    if (IsMeasuredKernelKey(parameter.key)) {
      times_.emplace(parameter.key, std::llround(parameter.value));
    }
  }
}

std::optional<DurationNs> MeasuredKernels::Find(const KernelView& view) const {
  if (times_.empty()) {
    return std::nullopt;
  }
  const auto found = times_.find(KeyOf(view));
  return found == times_.end() ? std::nullopt : std::optional(found->second);
}

std::string RecordedKernelKey(const graph::Graph& graph, const graph::KernelSignature& signature) {
  return fmt::format("{}kernel.{:016x}", kRecorded,
                     Hash64(graph::SignatureKey(signature, graph.strings)));
}

std::string RecordedCopyKey(int64_t bytes, uint8_t flags) {
  const char* const way = (flags & graph::kHostToDevice) != 0   ? "to_device"
                          : (flags & graph::kDeviceToHost) != 0 ? "to_host"
                                                                : "on_device";
  return fmt::format("{}copy.{}.{}", kRecorded, way, bytes);
}

std::string RecordedMemsetKey(int64_t bytes) {
  return fmt::format("{}memset.{}", kRecorded, bytes);
}

std::string RecordedKey(const graph::Graph& graph, const graph::Program& program, uint32_t op) {
  switch (program.kind[op]) {
    case graph::OpKind::kKernel:
      return RecordedKernelKey(graph, graph.signatures[program.signature[op]]);
    case graph::OpKind::kMemcpy:
      return RecordedCopyKey(program.value[op], program.flags[op]);
    case graph::OpKind::kMemset:
      return RecordedMemsetKey(program.value[op]);
    default:
      return {};
  }
}

bool IsRecordedKey(std::string_view key) {
  return key.starts_with(kRecorded);
}

RecordedTimes::RecordedTimes(const graph::ParameterTable& parameters) {
  for (const graph::Parameter& parameter : parameters.all()) {
    if (IsRecordedKey(parameter.key)) {
      times_.emplace(parameter.key, std::llround(parameter.value));
    }
  }
}

std::optional<DurationNs> RecordedTimes::Find(std::string_view key) const {
  const auto found = times_.find(key);
  return found == times_.end() ? std::nullopt : std::optional(found->second);
}

std::string RecordedHostKey(graph::OpKind kind) {
  const std::string_view key = HostCostKey(kind);
  return key.empty() ? std::string() : "recorded." + std::string(key);
}

std::vector<HostCostRow> ReportHostCosts(const graph::Graph& graph) {
  std::vector<int64_t> ranks(graph.roles.size());
  for (const uint32_t role : graph.ranks.role) {
    ++ranks[role];
  }
  std::map<graph::OpKind, int64_t> issued;
  for (size_t role = 0; role < graph.roles.size(); ++role) {
    const graph::Program& program = graph.roles[role].program;
    for (uint32_t op = 0; op < program.size(); ++op) {
      const bool is_call = (program.flags[op] & graph::kLaunchedWithPrevious) == 0;
      issued[program.kind[op]] += is_call ? ranks[role] : 0;
    }
  }
  const graph::ParameterTable& table = graph.cluster.parameters;
  std::map<std::string_view, HostCostRow> rows;
  for (const auto& [kind, ops] : issued) {
    const std::string_view key = HostCostKey(kind);
    const graph::Parameter* const recorded = table.Find(RecordedHostKey(kind));
    if (recorded == nullptr) {
      continue;
    }
    constexpr std::string_view kBefore = "host.";
    constexpr std::string_view kAfter = "_ns";
    HostCostRow& row = rows[key];
    row.kind = key.substr(kBefore.size(), key.size() - kBefore.size() - kAfter.size());
    row.ops += ops;
    row.recorded_s = static_cast<double>(row.ops) * SecondsFromNs(1) * recorded->value;
    row.replay_s = static_cast<double>(row.ops) * SecondsFromNs(1) * table.Value(key);
  }
  std::vector<HostCostRow> report;
  for (const auto& [key, row] : rows) {
    report.push_back(row);
  }
  return report;
}

}  // namespace prism::replayer
