// `prism bench network`: the max-min solver by itself, and a whole job on one network.
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/base/rng.h"
#include "graph/validate/valid_graph.h"
#include "launch/bench/bench.h"
#include "launch/process/stop_watch.h"
#include "replayer/engine/network_model.h"
#include "replayer/engine/replay_options.h"
#include "replayer/engine/replay_result.h"
#include "replayer/network/flow_queue.h"
#include "replayer/network/routing.h"
#include "replayer/network/topology.h"
#include "replayer/replay.h"

namespace prism::launch {
namespace {

using replayer::FlowQueue;
using replayer::LinkId;
using replayer::Router;
using replayer::Topology;

constexpr int32_t kInFlight = 1024;
constexpr int32_t kNodes = 128;  // of 8 NICs: as many NICs as flows in flight
constexpr int32_t kNics = 8;
constexpr double kNicRate = 5e10;  // byte/s
constexpr int64_t kCompletions = 1 << 20;
constexpr size_t kWays = 1 << 15;

// Flows from every NIC to the same rail of a random other node, or of the next node.
std::vector<std::vector<LinkId>> DrawWays(const Topology& topology, Router* router, bool ring) {
  Rng rng(1, "network bench");
  std::vector<std::vector<LinkId>> ways(kWays);
  for (size_t i = 0; i < kWays; ++i) {
    const auto node = static_cast<int32_t>(i / kNics % kNodes);
    const auto nic = static_cast<int32_t>(i % kNics);
    const auto other = static_cast<int32_t>(ring ? 1 : rng.UniformInt(1, kNodes - 1));
    router->FindWay(topology.PortOf(node, nic, 0), topology.PortOf((node + other) % kNodes, nic, 0),
                    i, &ways[i]);
  }
  return ways;
}

// Each flow that ends is replaced by another: kInFlight are always in flight. Sizes differ, so that
// hardly any two end together.
BenchCase BenchSolver(bool ring) {
  graph::NetworkSpec spec;
  spec.routing = graph::FabricRouting::kEcmp;
  const Topology topology(spec, {kNodes, kNics, kNicRate});
  std::vector<double> capacities;
  for (const replayer::FabricLink& link : topology.links()) {
    capacities.push_back(link.bytes_per_s);
  }
  FlowQueue queue(capacities);
  Router router(topology, queue.solver(), 0);
  const std::vector<std::vector<LinkId>> ways = DrawWays(topology, &router, ring);
  Rng rng(2, "network bench");
  std::vector<double> bytes(kWays);
  for (double& size : bytes) {
    size = 1e6 * (1 + rng.UniformReal());
  }
  const StopWatch watch;
  size_t next = 0;
  const auto begin = [&](TimeNs now) {
    replayer::FlowRequest request;
    request.links = ways[next % kWays];
    request.bytes = bytes[next * 7 % kWays];
    request.bound = kNicRate;
    queue.Begin(request, now);
    ++next;
  };
  for (int32_t i = 0; i < kInFlight; ++i) {
    begin(0);
  }
  queue.Settle(0);
  std::vector<uint32_t> ended;
  while (queue.ended() < kCompletions) {
    const TimeNs now = queue.NextEnd();
    ended.clear();
    queue.EndNext(&ended);
    for (size_t i = 0; i < ended.size(); ++i) {
      begin(now);
    }
    queue.Settle(now);
  }
  const double seconds = watch.CpuSeconds();
  BenchCase line = {
      "network", fmt::format("solver {} {} flows", ring ? "ring" : "random", kInFlight), {}};
  line.metrics = {
      {"completions", static_cast<double>(queue.ended()), "flows"},
      {"cpu_seconds", seconds, "s"},
      {"completions_per_cpu_s", static_cast<double>(queue.ended()) / seconds, "flows/s"},
      {"in_flight", kInFlight, "flows"},
  };
  return line;
}

Result<BenchCase> BenchJob(const BenchOptions& options) {
  graph::Graph graph;
  std::string name = options.path;
  if (options.path.empty()) {
    PRISM_ASSIGN_OR_RETURN(graph, MakeBenchGraph(options.workload));
    name = fmt::format("{} {} ranks", options.workload.name, options.workload.ranks);
  } else {
    PRISM_ASSIGN_OR_RETURN(graph::LoadedGraph loaded, graph::LoadValidGraph(options.path));
    graph = std::move(loaded.graph);
  }
  replayer::ReplayOptions replay;
  replay.iterations = options.iterations;
  PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult analytic, replayer::Replay(graph, replay));
  replay.network = replayer::NetworkModel::kFlow;
  const StopWatch watch;
  PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult flow, replayer::Replay(graph, replay));
  const double seconds = watch.Seconds();
  BenchCase line = {"network", name, {}};
  line.metrics = {
      {"seconds", seconds, "s"},
      {"flows", static_cast<double>(flow.flows), "flows"},
      {"ops", static_cast<double>(flow.rank_ops), "rank-ops"},
      {"ops_per_s_per_core", static_cast<double>(flow.rank_ops) / seconds, "rank-ops/s/core"},
      {"max_rss_bytes", static_cast<double>(MaxResidentBytes()), "B"},
      {"iteration_seconds", SecondsFromNs(flow.steady_iteration_ns()), "virtual s"},
      {"analytic_iteration_seconds", SecondsFromNs(analytic.steady_iteration_ns()), "virtual s"},
  };
  return line;
}

}  // namespace

BenchResult BenchNetwork(const BenchOptions& options) {
  PRISM_ASSIGN_OR_RETURN(BenchCase job, BenchJob(options));
  return std::vector<BenchCase>{BenchSolver(false), BenchSolver(true), std::move(job)};
}

}  // namespace prism::launch
