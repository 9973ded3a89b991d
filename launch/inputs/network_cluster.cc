#include "launch/inputs/network_cluster.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <vector>

#include <fmt/format.h>

namespace prism::launch {
namespace {

constexpr double kMostSeconds = 1e5;         // of a collective
constexpr int64_t kMaxGpusPerNode = 65'536;  // as replayer/cost/parameters.cc

void Set(const char* key, double value, const std::string& source, graph::ParameterTable* table) {
  if (const graph::Parameter* known = table->Find(key); known != nullptr) {
    table->Put({{key, value, known->unit, source, graph::Mark::kAssumed}});
  }
}

// A cluster has only nodes and the links between them.
void NoteWhatIsLeftOut(const slicer::AstraNetwork& network, slicer::Notes* notes) {
  const auto dims = static_cast<int64_t>(network.ranks.size());
  const auto latencies = static_cast<int64_t>(network.latency.size());
  if (network.bandwidth.empty()) {
    notes->Add("latencies of a network without bandwidths are ignored", latencies);
    return;
  }
  notes->Add("dimensions of the network beyond the second are as fast as the second", dims - 2);
  notes->Add("the efficiency of NCCL's rings, trees and NVLS is that of the cluster",
             std::min<int64_t>(dims, 2));
  notes->Add("latencies inside a node are those of the cluster, not of the network file",
             std::min<int64_t>(latencies, 1));
}

// Rates are what messages achieve: no efficiency reduces them.
void UseRates(const slicer::AstraNetwork& network,
              const std::string& source,
              graph::ParameterTable* table) {
  Set("net.nvlink_bytes_per_s", network.bandwidth.front(), source, table);
  Set("net.nvlink_efficiency", 1, source, table);
  Set("net.nics_per_node", static_cast<double>(network.ranks.front()), source, table);
  if (network.bandwidth.size() > 1) {
    Set("net.nic_bytes_per_s", network.bandwidth[1], source, table);
    Set("net.nic_efficiency", 1, source, table);
  }
}

// A latency between nodes is a message's whole latency; a hop is the difference to one inside a
// node.
void UseLatency(double seconds,
                const std::string& source,
                graph::ParameterTable* table,
                slicer::Notes* notes) {
  constexpr double kNsPerS = 1e9;
  const double hop = seconds * kNsPerS - table->Value("p2p.base_ns");
  Set("net.hop_ns", std::max(hop, 0.0), source, table);
  notes->Add("latencies between nodes are raised to the cluster's latency of a message",
             hop < 0 ? 1 : 0);
}

// A dimension as some ranks use it.
struct UsedDimension {
  std::string topology;
  double ranks = 1;
  double rate = 1;     // byte/s
  double latency = 0;  // seconds, of a hop
};

// The dimensions in which the members differ.
std::vector<UsedDimension> DimensionsOf(const slicer::AstraNetwork& network,
                                        std::span<const uint32_t> members) {
  std::vector<UsedDimension> used;
  int64_t stride = 1;
  for (size_t dim = 0; dim < network.ranks.size(); ++dim) {
    std::set<int64_t> places;
    for (const uint32_t member : members) {
      places.insert(member / stride % network.ranks[dim]);
    }
    if (places.size() > 1) {
      used.push_back({network.topology[dim], static_cast<double>(places.size()),
                      network.bandwidth[dim],
                      dim < network.latency.size() ? network.latency[dim] : 0});
    }
    stride *= network.ranks[dim];
  }
  return used;
}

// Every rank of the dimension gives or gets all pieces but its own of `bytes`.
double PiecesSeconds(const UsedDimension& dim, double bytes) {
  const double piece = bytes / dim.ranks / dim.rate;
  if (dim.topology == "Ring") {
    return (dim.ranks - 1) * (dim.latency + piece);
  }
  return dim.topology == "FullyConnected"
             ? dim.latency + piece
             : std::ceil(std::log2(dim.ranks)) * 2 * dim.latency + (dim.ranks - 1) * piece;
}

// Every rank has another piece for each: on a ring it passes those between.
double ExchangeSeconds(const UsedDimension& dim, double bytes) {
  const double piece = bytes / dim.ranks / dim.rate;
  const double hops = dim.ranks * dim.ranks / 4;  // of all pieces of a rank, the shorter way
  return dim.topology == "Ring"             ? hops * (dim.latency + piece) / 2
         : dim.topology == "FullyConnected" ? dim.latency + piece
                                            : (dim.ranks - 1) * (2 * dim.latency + piece);
}

// Reduced or scattered dimension by dimension, gathered the other way round.
double CollectiveSeconds(const graph::CollectiveShape& shape,
                         const std::vector<UsedDimension>& dims) {
  const bool both = shape.kind == graph::CollectiveKind::kAllReduce;
  double bytes = static_cast<double>(shape.bytes);
  double seconds = 0;
  for (const UsedDimension& dim : dims) {
    const bool exchange = shape.kind == graph::CollectiveKind::kAllToAll;
    seconds += exchange ? ExchangeSeconds(dim, bytes) : PiecesSeconds(dim, bytes) * (both ? 2 : 1);
    bytes /= exchange ? 1 : dim.ranks;
  }
  return seconds;
}

}  // namespace

void UseTopologies(const slicer::AstraNetwork& network, graph::Graph* graph, slicer::Notes* notes) {
  if (network.topology.empty() || network.bandwidth.empty()) {
    return;
  }
  std::set<uint32_t> known;  // roles: their ranks have groups alike
  for (uint32_t rank = 0; rank < graph->ranks.size(); ++rank) {
    const uint32_t role = graph->ranks.role[rank];
    if (!known.insert(role).second) {
      continue;
    }
    graph::Program& program = graph->roles[role].program;
    for (uint32_t op = 0; op < program.size(); ++op) {
      if (program.kind[op] == graph::OpKind::kCollective) {
        const uint32_t comm = graph->ranks.comms(Rank(rank))[program.comm_slot[op]];
        const double seconds =
            CollectiveSeconds(program.collectives[program.signature[op]],
                              DimensionsOf(network, graph->communicators.members_of(CommId(comm))));
        program.flags[op] |= graph::kDurationFixed;
        program.value.Set(op, NsFromSeconds(std::min(seconds, kMostSeconds)));
        notes->Add(
            "collectives take the time of ASTRA-sim's algorithms on the network's topologies");
      }
    }
  }
}

Status UseNetwork(const slicer::AstraNetwork& network,
                  const std::string& source,
                  graph::ClusterSpec* cluster,
                  slicer::Notes* notes) {
  NoteWhatIsLeftOut(network, notes);
  if (network.bandwidth.empty()) {
    return OkStatus();
  }
  if (network.ranks.front() > kMaxGpusPerNode) {
    return BadFile(fmt::format(
        "{}: the first dimension, taken for a node, has {} ranks; at most {} are possible", source,
        network.ranks.front(), kMaxGpusPerNode));
  }
  cluster->gpus_per_node = static_cast<int32_t>(network.ranks.front());
  UseRates(network, source, &cluster->parameters);
  if (network.latency.size() > 1) {
    UseLatency(network.latency[1], source, &cluster->parameters, notes);
  }
  return OkStatus();
}

}  // namespace prism::launch
