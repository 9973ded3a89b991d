#include "replayer/network/flow_replay.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "graph/validate/limits.h"
#include "replayer/engine/engine.h"
#include "replayer/network/flow_network.h"
#include "replayer/network/job_transfers.h"

namespace prism::replayer {

namespace {

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
