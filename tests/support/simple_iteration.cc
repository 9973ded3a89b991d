#include "tests/support/simple_iteration.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/support/simple_effects.h"

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

// Whether anything on the stream is for another stream or rank to come.
bool IsHeldBack(const Program& program, const std::vector<uint32_t>& ops) {
  return std::any_of(ops.begin(), ops.end(), [&](uint32_t op) {
    return program.kind[op] == OpKind::kCollective || program.kind[op] == OpKind::kPeerGroup ||
           (program.kind[op] == OpKind::kEventWait && program.dep[op] != graph::kNoDep);
  });
}

int64_t Kernels(const Program& program, const std::vector<uint32_t>& ops) {
  return std::count_if(ops.begin(), ops.end(),
                       [&](uint32_t op) { return program.kind[op] == OpKind::kKernel; });
}

uint32_t FirstOp(const Program& program) {
  std::vector<std::vector<uint32_t>> streams;
  for (uint16_t stream = 0; stream < program.stream_count; ++stream) {
    if (std::vector<uint32_t> ops = OpsOn(program, stream); !ops.empty()) {
      streams.push_back(std::move(ops));
    }
  }
  if (streams.empty()) {
    return graph::kNoDep;
  }
  const auto earliest =
      std::min_element(streams.begin(), streams.end(),
                       [](const auto& a, const auto& b) { return a.front() < b.front(); });
  const auto most = std::max_element(
      streams.begin(), streams.end(),
      [&](const auto& a, const auto& b) { return Kernels(program, a) < Kernels(program, b); });
  const bool stays =
      IsHeldBack(program, *earliest) || Kernels(program, *most) == Kernels(program, *earliest);
  return FirstOf(program, stays ? *earliest : *most);
}

bool WaitsFor(const Program& program, uint32_t op, uint16_t stream) {
  const OpKind kind = program.kind[op];
  const bool by_event = kind == OpKind::kEventSync && program.dep[op] != graph::kNoDep &&
                        program.stream[program.dep[op]] == stream;
  return by_event || kind == OpKind::kDeviceSync ||
         (kind == OpKind::kStreamSync && program.stream[op] == stream);
}

}  // namespace

DurationNs LastIteration(const graph::Graph& graph,
                         const replayer::ReplayOptions& options,
                         const replayer::Timeline& times) {
  const Program& program = graph.role_of(times.rank).program;
  const uint32_t first = FirstOp(program);
  if (first == graph::kNoDep) {
    return -1;
  }
  const SimpleEffects effects(options, times.rank);
  const std::vector<DurationNs> costs = replayer::HostCosts(graph.cluster.parameters);
  const size_t behind = times.end.size();
  const size_t begin = behind - program.size();
  std::vector<TimeNs> tails(program.stream_count, 0);
  for (uint16_t stream = 0; stream < program.stream_count; ++stream) {
    const std::vector<uint32_t> ops = OpsOn(program, stream);
    tails[stream] = ops.empty() ? 0 : times.end[begin + ops.back()];
  }
  TimeNs host = HostWaits(program.kind[program.size() - 1]) ? times.end.back() : times.issue.back();
  host += effects.PauseBefore(options.iterations);
  for (uint32_t op = 0; op <= first; ++op) {
    const bool gap = program.kind[op] == OpKind::kHostGap;
    const bool free = (program.flags[op] & graph::kLaunchedWithPrevious) != 0;
    host += gap    ? program.value[op]
            : free ? 0
                   : replayer::SlowedHostCost(costs[static_cast<size_t>(program.kind[op])],
                                              effects.host_factor);
    for (uint16_t stream = 0; stream < program.stream_count; ++stream) {
      host = WaitsFor(program, op, stream) ? std::max(host, tails[stream]) : host;
    }
  }
  return std::max(host, tails[program.stream[first]]) - times.start[begin + first];
}

}  // namespace prism::testing
