#include "replayer/network/flow_replay.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "graph/base/divide.h"
#include "graph/validate/limits.h"
#include "replayer/cost/collective_cost.h"
#include "replayer/engine/engine.h"
#include "replayer/engine/meeting.h"

namespace prism::replayer {

namespace {

// The part of a cluster that a job's ranks occupy.
struct JobPlace {
  uint32_t job = 0;
  int32_t first_node = 0;
};

int32_t NicsOf(const graph::ClusterSpec& cluster, const CollectiveCost& cost) {
  const auto nics = static_cast<int32_t>(cost.nics_per_node());
  return std::clamp(nics, 1, cluster.gpus_per_node);
}

// As the engine scales durations.
DurationNs Scaled(DurationNs duration, double factor) {
  return factor == 1 ? duration : std::llround(static_cast<double>(duration) * factor);
}

// The transfers of one job as its network sees them: flows, bounds, latencies. Those of a
// collective are computed once per communicator and shape.
class JobTransfers {
 public:
  // The engine's graph, cost and options must outlive it.
  JobTransfers(const Engine& engine, const JobPlace& place)
      : graph_(engine.graph()),
        cost_(engine.collective_cost()),
        comm_scale_(engine.options().comm_scale),
        place_(place) {
    nics_.gpus_per_node = graph_.cluster.gpus_per_node;
    nics_.nics_per_node = NicsOf(graph_.cluster, cost_);
    nics_.keeps_rail = graph_.cluster.network.kind == graph::FabricKind::kRailFatTree;
    nics_.gpu_of = engine.options().placement;
  }

  // Valid until the transfer has started.
  NetworkTransfer Describe(const ReadyTransfer& ready) {
    NetworkTransfer transfer;
    transfer.owner = {place_.job, ready.id};
    transfer.start = ready.start;
    transfer.alone_ns = ready.alone_ns;
    transfer.key = (uint64_t{place_.job} << 32U) + ready.comm;
    if (ready.fixed) {
      transfer.flow_ns = ready.alone_ns;
      return transfer;
    }
    NetworkShare share;
    double scale = comm_scale_;
    if (ready.shape != nullptr) {
      const Known& known = KnownOf(ready);
      share = known.share;
      transfer.edges = known.flows.edges;
      transfer.rounds = known.flows.rounds;
      transfer.in_series = known.flows.in_series;
    } else {
      scale *= ready.slow_factor;
      share = cost_.ShareOfPeer(ready.bytes);
      transfer.alone_ns = Scaled(cost_.PeerTransfer(ready.bytes, false), scale);
      DescribeSend(ready, &transfer);
    }
    transfer.flow_ns = std::min(NsFromSeconds(share.network * scale), transfer.alone_ns);
    transfer.fixed_ns = NsFromSeconds(share.fixed * scale);
    return transfer;
  }

 private:
  struct Known {
    CollectiveFlows flows;
    NetworkShare share;
  };

  using Key = std::tuple<uint32_t, graph::CollectiveKind, int32_t, int64_t>;

  const Known& KnownOf(const ReadyTransfer& ready) {
    const graph::CollectiveShape& shape = *ready.shape;
    const auto [found, is_new] =
        collectives_.try_emplace(Key(ready.comm, shape.kind, shape.root, shape.bytes));
    Known& known = found->second;
    if (is_new) {
      const auto members = graph_.communicators.members_of(CommId(ready.comm));
      known.share = cost_.ShareOf(shape, *ready.topology);
      known.flows = FlowsOfCollective(
          shape, cost_.Choose(shape, *ready.topology, ready.topology->algorithm), members, nics_);
      for (EdgeFlow& edge : known.flows.edges) {
        edge.from_node += place_.first_node;
        edge.to_node += place_.first_node;
      }
    }
    return known;
  }

  void DescribeSend(const ReadyTransfer& ready, NetworkTransfer* transfer) {
    while (sends_.size() <= ready.id) {
      sends_.emplace_back();
    }
    EdgeFlow& edge = sends_[ready.id];
    edge = FlowOfPeer(ready.sender, ready.receiver, ready.bytes, nics_);
    edge.from_node += place_.first_node;
    edge.to_node += place_.first_node;
    transfer->edges = {&edge, 1};
  }

  const graph::Graph& graph_;
  const CollectiveCost& cost_;
  double comm_scale_;
  JobPlace place_;
  NicPlaces nics_;
  std::map<Key, Known> collectives_;  // by communicator, kind, root and bytes
  std::deque<EdgeFlow> sends_;        // by id of the transfer; spans stay valid while it grows
};

// The nodes of that many GPUs and the NICs that their ranks use, with what each carries.
FabricSize FabricSizeOf(const graph::ClusterSpec& cluster,
                        const CollectiveCost& cost,
                        uint32_t gpus) {
  FabricSize size;
  size.nodes = DivideUp(static_cast<int32_t>(gpus), cluster.gpus_per_node);
  size.nics_per_node = NicsOf(cluster, cost);
  size.nic_bytes_per_s = cost.NicBandwidth() * cost.nics_per_node() / size.nics_per_node;
  return size;
}

// The same for a job, with transfers scaled as its options say.
FabricSize FabricSizeOf(const Engine& engine) {
  const graph::Graph& graph = engine.graph();
  const std::vector<uint32_t>& placement = engine.options().placement;
  const uint32_t gpus =
      placement.empty() ? graph.ranks.size() : *std::ranges::max_element(placement) + 1;
  FabricSize size = FabricSizeOf(graph.cluster, engine.collective_cost(), gpus);
  size.nic_bytes_per_s /= engine.options().comm_scale;
  return size;
}

class FlowReplay {
 public:
  Status Prepare(const std::vector<NetworkJob>& jobs, const NetworkEdit& edit) {
    NetworkSetup setup;
    int32_t nodes = 0;
    for (uint32_t i = 0; i < jobs.size(); ++i) {
      const NetworkJob& job = jobs[i];
      if (job.first_node > graph::kMaxRanks) {
        return InvalidArgument(fmt::format("job {} begins at node {}; the highest possible is {}",
                                           i, job.first_node, graph::kMaxRanks));
      }
      PRISM_ASSIGN_OR_RETURN(Engine engine, Engine::Create(*job.graph, job.options, {}));
      engines_.push_back(std::make_unique<Engine>(std::move(engine)));
      transfers_.emplace_back(*engines_.back(), JobPlace{i, job.first_node});
      FabricSize size = FabricSizeOf(*engines_.back());
      if (i > 0 && size.nics_per_node != setup.size.nics_per_node) {
        return InvalidArgument(fmt::format("job {} uses {} NICs a node, the first {}", i,
                                           size.nics_per_node, setup.size.nics_per_node));
      }
      size.nic_bytes_per_s = i > 0 ? setup.size.nic_bytes_per_s : size.nic_bytes_per_s;
      PRISM_RETURN_IF_ERROR(CheckApart(jobs, i, size.nodes));
      nodes = std::max(nodes, job.first_node + size.nodes);
      setup.size = size;
    }
    setup.size.nodes = nodes;
    setup.spec = jobs.front().graph->cluster.network;
    setup.seed = jobs.front().options.seed;
    for (const Perturbation& perturbation : jobs.front().options.perturbations) {
      if (perturbation.kind == PerturbationKind::kFail) {
        setup.failed.push_back(perturbation.part);
      }
    }
    if (edit != nullptr) {
      edit(&setup);
    }
    PRISM_ASSIGN_OR_RETURN(network_, FlowNetwork::Create(setup));
    return OkStatus();
  }

  Status Run() {
    for (uint32_t job = 0; job < engines_.size(); ++job) {
      Advance(job);
    }
    std::vector<TransferEnd> ends;
    while (true) {
      PRISM_RETURN_IF_ERROR(network_->Next(&ends));
      if (ends.empty()) {
        break;
      }
      for (const TransferEnd& end : ends) {
        engines_[end.owner.job]->Complete(end.owner.id, end.end);
        moved_[end.owner.job] = true;
      }
      for (uint32_t job = 0; job < engines_.size(); ++job) {
        if (moved_[job]) {
          Advance(job);
        }
      }
    }
    for (const std::unique_ptr<Engine>& engine : engines_) {
      if (!engine->Run()) {
        return StallStatus(*engine);
      }
    }
    return OkStatus();
  }

  std::vector<ReplayResult> Summarise() {
    std::vector<ReplayResult> results;
    for (const std::unique_ptr<Engine>& engine : engines_) {
      results.push_back(engine->Summarise());
      results.back().flows = network_->flows_ended();
      LinkLoads loads = network_->Loads(engine->options().iterations);
      loads.iteration_s = SecondsFromNs(results.back().steady_iteration_ns());
      results.back().links = std::make_shared<const LinkLoads>(std::move(loads));
    }
    return results;
  }

 private:
  // `nodes`: that it reaches over; with a placement it has only some of them.
  Status CheckApart(const std::vector<NetworkJob>& jobs, uint32_t i, int32_t nodes) {
    moved_.push_back(false);
    const NetworkJob& job = jobs[i];
    std::set<int32_t> own;
    for (int32_t node = 0; node < nodes; ++node) {
      if (job.options.placement.empty()) {
        own.insert(job.first_node + node);
      }
    }
    for (const uint32_t gpu : job.options.placement) {
      own.insert(job.first_node + static_cast<int32_t>(gpu) / job.graph->cluster.gpus_per_node);
    }
    for (const int32_t node : own) {
      const auto [taken, is_new] = job_of_node_.emplace(node, i);
      if (!is_new) {
        return InvalidArgument(
            fmt::format("jobs {} and {} overlap on node {}", taken->second, i, node));
      }
    }
    return OkStatus();
  }

  void Advance(uint32_t job) {
    moved_[job] = false;
    engines_[job]->Advance(&ready_);
    for (const ReadyTransfer& ready : ready_) {
      network_->Add(transfers_[job].Describe(ready));
    }
  }

  std::vector<std::unique_ptr<Engine>> engines_;  // by job
  std::deque<JobTransfers> transfers_;            // likewise
  std::vector<bool> moved_;                       // by job: some transfer of it has ended
  std::map<int32_t, uint32_t> job_of_node_;
  std::unique_ptr<FlowNetwork> network_;
  std::vector<ReadyTransfer> ready_;  // storage
};

}  // namespace

Result<Topology> NetworkOfJob(const graph::ClusterSpec& cluster, uint32_t gpus) {
  const FabricSize size = FabricSizeOf(cluster, CollectiveCost(cluster), gpus);
  if (const std::string fault = NetworkFault(cluster.network, size); !fault.empty()) {
    return BadFile(fault);
  }
  return Topology(cluster.network, size);
}

Result<std::vector<ReplayResult>> ReplayTogether(const std::vector<NetworkJob>& jobs,
                                                 const NetworkEdit& edit) {
  FlowReplay replay;
  PRISM_RETURN_IF_ERROR(replay.Prepare(jobs, edit));
  PRISM_RETURN_IF_ERROR(replay.Run());
  return replay.Summarise();
}

}  // namespace prism::replayer
