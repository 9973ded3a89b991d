#include "tests/support/simple_iteration.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "replayer/cost/compute_cost.h"

namespace prism::testing {
namespace {

using graph::OpKind;
using graph::Program;

bool HostWaits(OpKind kind) {
  return kind == OpKind::kDeviceSync || kind == OpKind::kStreamSync || kind == OpKind::kEventSync;
}

std::vector<uint32_t> OpsOn(const Program& program, uint16_t stream) {
  std::vector<uint32_t> ops;
  for (uint32_t op = 0; op < program.size(); ++op) {
    const OpKind kind = program.kind[op];
    const bool of_host = HostWaits(kind) || kind == OpKind::kHostGap || kind == OpKind::kMarker ||
                         kind == OpKind::kSegmentAlloc || kind == OpKind::kSegmentFree;
    if (!of_host && program.stream[op] == stream) {
      ops.push_back(op);
    }
  }
  return ops;
}

// An NCCL group begins with its last op.
uint32_t FirstOf(const Program& program, const std::vector<uint32_t>& ops) {
  size_t at = 0;
  while (at + 1 < ops.size() && program.kind[ops[at]] == OpKind::kCollective &&
         (program.flags[ops[at]] & graph::kGroupedWithNext) != 0 &&
         program.kind[ops[at + 1]] == OpKind::kCollective) {
    ++at;
  }
  return ops[at];
}

// Whether anything on the stream waits for another stream or rank.
bool IsHeldBack(const Program& program, const std::vector<uint32_t>& ops) {
  return std::any_of(ops.begin(), ops.end(), [&](uint32_t op) {
    return program.kind[op] == OpKind::kCollective || program.kind[op] == OpKind::kPeerGroup ||
           (program.kind[op] == OpKind::kEventWait && program.dep[op] != graph::kNoDep);
  });
}

bool IsKernel(const Program& program, uint32_t op) {
  return program.kind[op] == OpKind::kKernel;
}

DurationNs KernelTime(const graph::Graph& graph,
                      const Program& program,
                      const std::vector<uint32_t>& ops) {
  const replayer::ComputeCost cost(graph.cluster);
  DurationNs sum = 0;
  for (const uint32_t op : ops) {
    const bool fixed = (program.flags[op] & graph::kDurationFixed) != 0;
    if (IsKernel(program, op)) {
      sum += fixed ? program.value[op]
                   : cost.Kernel(graph, graph.signatures[program.signature[op]]).duration_ns;
    }
  }
  return sum;
}

// Whether the host waits before `op` for something that involves other ranks.
bool WaitsForRanksBefore(const Program& program, uint32_t op) {
  bool ranks = false;
  for (uint32_t before = 0; before < op; ++before) {
    const OpKind kind = program.kind[before];
    ranks = ranks || kind == OpKind::kCollective || kind == OpKind::kPeerGroup;
    const bool over = kind == OpKind::kEventSync && program.dep[before] == graph::kNoDep;
    if (ranks && HostWaits(kind) && !over) {
      return true;
    }
  }
  return false;
}

uint32_t FirstOp(const graph::Graph& graph, const Program& program) {
  std::vector<std::vector<uint32_t>> streams;
  for (uint16_t stream = 0; stream < program.stream_count; ++stream) {
    if (std::vector<uint32_t> ops = OpsOn(program, stream); !ops.empty()) {
      streams.push_back(std::move(ops));
    }
  }
  if (streams.empty()) {
    return graph::kNoDep;
  }
  const std::vector<uint32_t> earliest =
      *std::min_element(streams.begin(), streams.end(),
                        [](const auto& a, const auto& b) { return a.front() < b.front(); });
  if (IsHeldBack(program, earliest)) {
    return FirstOf(program, earliest);
  }
  std::erase_if(streams, [&](const std::vector<uint32_t>& ops) {
    return std::none_of(ops.begin(), ops.end(),
                        [&](uint32_t op) { return IsKernel(program, op); }) ||
           WaitsForRanksBefore(program, FirstOf(program, ops));
  });
  if (streams.empty()) {
    return FirstOf(program, earliest);
  }
  const auto most =
      std::max_element(streams.begin(), streams.end(), [&](const auto& a, const auto& b) {
        return KernelTime(graph, program, a) < KernelTime(graph, program, b);
      });
  const bool stays = KernelTime(graph, program, *most) == KernelTime(graph, program, earliest) &&
                     std::any_of(earliest.begin(), earliest.end(),
                                 [&](uint32_t op) { return IsKernel(program, op); });
  return FirstOf(program, stays ? earliest : *most);
}

}  // namespace

DurationNs LastIteration(const graph::Graph& graph,
                         const replayer::Timeline& times,
                         int32_t iterations) {
  const Program& program = graph.role_of(times.rank).program;
  const uint32_t first = FirstOp(graph, program);
  const auto next = static_cast<size_t>(iterations) * program.size() + first;
  return first == graph::kNoDep ? -1 : times.start[next] - times.start[next - program.size()];
}

}  // namespace prism::testing
