#include "launch/inputs/topology_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "graph/base/parse_number.h"
#include "launch/inputs/json_reader.h"
#include "replayer/cost/collective_cost.h"

namespace prism::launch {
namespace {

using graph::CollectiveKind;

constexpr double kMostSeconds = 1e5;      // of a collective
constexpr int64_t kMostPieces = 1 << 20;  // of a collective
constexpr int64_t kMostEndpointNs = 1e9;
constexpr std::string_view kWhole = "one";  // before the name of an algorithm

constexpr std::array<std::pair<CollectiveKind, const char*>, 4> kAlgorithmKeys = {{
    {CollectiveKind::kAllReduce, "all-reduce-implementation"},
    {CollectiveKind::kAllGather, "all-gather-implementation"},
    {CollectiveKind::kReduceScatter, "reduce-scatter-implementation"},
    {CollectiveKind::kAllToAll, "all-to-all-implementation"},
}};

// A dimension as some ranks use it.
struct UsedDimension {
  std::string topology;
  double ranks = 1;
  double rate = 1;     // byte/s
  double latency = 0;  // seconds, of a hop
};

// An algorithm by its name.
struct Algorithm {
  bool is_whole = false;  // one for all dimensions
  std::string name;
  double window = 0;  // of "direct4": messages at once; 0 for all
};

// False for a name that ASTRA-sim does not have.
bool ParseAlgorithm(std::string_view text, Algorithm* algorithm) {
  if (text.starts_with(kWhole) && text.size() > kWhole.size()) {
    algorithm->is_whole = true;
    algorithm->name = text.substr(kWhole.size());
    algorithm->name[0] = static_cast<char>(algorithm->name[0] | 0x20);  // "oneRing"
  } else {
    algorithm->name = text;
  }
  constexpr std::string_view kDirect = "direct";
  if (algorithm->name.starts_with(kDirect) && algorithm->name.size() > kDirect.size()) {
    const std::string window = algorithm->name.substr(kDirect.size());
    algorithm->name = kDirect;
    return ParseNumber(window, &algorithm->window) && algorithm->window >= 1;
  }
  return algorithm->name == "ring" || algorithm->name == kDirect ||
         algorithm->name == "halvingDoubling" ||
         (algorithm->name == "doubleBinaryTree" && !algorithm->is_whole);
}

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

// One collective in one dimension.
class DimensionTime {
 public:
  DimensionTime(const UsedDimension& dim, const Algorithm& algorithm, double endpoint_s)
      : dim_(dim), algorithm_(algorithm), endpoint_(endpoint_s) {}

  // Each rank gives or gets all pieces but its own of `bytes`.
  [[nodiscard]] double Pieces(double bytes) const {
    const double piece = bytes / dim_.ranks / dim_.rate;
    if (algorithm_.name == "ring") {
      return (dim_.ranks - 1) * (Latency(1) + piece);
    }
    if (algorithm_.name == "direct") {
      return Direct(piece);
    }
    double seconds = 0;
    for (double distance = 1; distance < dim_.ranks; distance *= 2) {
      const double sent = algorithm_.name == "halvingDoubling" ? bytes / 2 / distance : bytes;
      seconds += Latency(distance) + Sharing(distance) * sent / dim_.rate;
    }
    return seconds;
  }

  // Each rank has another piece for each: a ring passes on those between.
  [[nodiscard]] double Exchange(double bytes) const {
    const double piece = bytes / dim_.ranks / dim_.rate;
    return algorithm_.name == "ring" ? dim_.ranks * (dim_.ranks - 1) / 2 * (Latency(1) + piece)
                                     : Direct(piece);
  }

 private:
  // Of a message to a rank so far away.
  [[nodiscard]] double Latency(double distance) const {
    const double hops = dim_.topology == "Ring"     ? std::min(distance, dim_.ranks - distance)
                        : dim_.topology == "Switch" ? 2
                                                    : 1;
    return hops * dim_.latency + endpoint_;
  }

  // How many messages a link of a ring carries when all ranks send so far.
  [[nodiscard]] double Sharing(double distance) const {
    return dim_.topology == "Ring" ? std::min(distance, dim_.ranks - distance) : 1;
  }

  // All ranks send a piece to each other one.
  [[nodiscard]] double Direct(double piece) const {
    const double others = dim_.ranks - 1;
    const double rounds =
        algorithm_.window > 0 ? std::ceil(others / std::min(others, algorithm_.window)) : 1;
    const double carried = dim_.topology == "Ring"     ? dim_.ranks * dim_.ranks / 8
                           : dim_.topology == "Switch" ? others
                                                       : rounds;
    return rounds * Latency(std::floor(dim_.ranks / 2)) + std::max(carried, 1.0) * piece;
  }

  const UsedDimension& dim_;
  const Algorithm& algorithm_;
  double endpoint_;
};

// What suits the kind of a dimension.
std::string SuitableAlgorithm(CollectiveKind kind, const std::string& topology) {
  return kind == CollectiveKind::kAllToAll || topology == "FullyConnected" ? "direct"
         : topology == "Ring"                                              ? "ring"
                                                                           : "halvingDoubling";
}

// All dimensions as one, by their slowest links.
std::vector<UsedDimension> AsOne(const std::vector<UsedDimension>& dims) {
  UsedDimension one = dims.front();
  for (size_t i = 1; i < dims.size(); ++i) {
    one.topology = dims[i].topology;
    one.ranks *= dims[i].ranks;
    one.rate = std::min(one.rate, dims[i].rate);
    one.latency = std::max(one.latency, dims[i].latency);
  }
  return {one};
}

}  // namespace

Result<AstraSystem> ParseAstraSystem(std::string_view text,
                                     const std::string& file,
                                     slicer::Notes* notes) {
  PRISM_ASSIGN_OR_RETURN(JsonReader json, JsonReader::Parse(text, file));
  AstraSystem system;
  const auto number = [&](const char* key, int64_t lowest, int64_t highest, int64_t otherwise) {
    return json.Has(key) ? json.Integer(key, lowest, highest) : otherwise;
  };
  system.pieces = number("preferred-dataset-splits", 1, kMostPieces, 1);
  system.at_once = number("active-chunks-per-dimension", 1, kMostPieces, 1);
  system.endpoint_ns =
      static_cast<double>(number("endpoint-delay", 0, kMostEndpointNs, 10));  // its default
  system.is_whole = json.TextOr("collective-optimization", "baseline") == "baseline";
  constexpr double kTera = 1e12;
  constexpr double kGiga = 1e9;
  system.flops_per_s = kTera * json.PositiveOr("peak-perf", 0);
  system.bytes_per_s = kGiga * json.PositiveOr("local-mem-bw", 0);
  system.is_roofline = number("roofline-enabled", 0, 1, 0) != 0;
  if (system.is_roofline && (system.flops_per_s == 0 || system.bytes_per_s == 0)) {
    json.Fail("roofline-enabled", "needs peak-perf and local-mem-bw");
  }
  for (const auto& [kind, key] : kAlgorithmKeys) {
    for (const std::string& name : json.TextsOr(key)) {
      Algorithm algorithm;
      const bool is_known = ParseAlgorithm(name, &algorithm);
      const bool is_sum =
          algorithm.name == "doubleBinaryTree" || algorithm.name == "halvingDoubling";
      if (!is_known || (is_sum && kind == CollectiveKind::kAllToAll) ||
          (algorithm.name == "doubleBinaryTree" && kind != CollectiveKind::kAllReduce)) {
        json.Fail(key, fmt::format("'{}' is no algorithm of it; ring, direct, halvingDoubling and "
                                   "doubleBinaryTree are known",
                                   name));
      }
      system.algorithms[kind].push_back(name);
    }
  }
  PRISM_RETURN_IF_ERROR(json.status());
  for (const std::string& key : json.Others()) {
    notes->Add(fmt::format("{} of the system file does not act here", key));
  }
  return system;
}

// Reduced or scattered dimension by dimension, gathered the other way round.
double SecondsOnTopology(const slicer::AstraNetwork& network,
                         const AstraSystem& system,
                         const graph::CollectiveShape& shape,
                         std::span<const uint32_t> members) {
  constexpr double kSecondsPerNs = 1e-9;
  std::vector<UsedDimension> dims = DimensionsOf(network, members);
  const auto listed = system.algorithms.find(shape.kind);
  const bool is_listed = listed != system.algorithms.end() && !listed->second.empty();
  const auto algorithm_of = [&](size_t dim) {
    Algorithm algorithm;
    ParseAlgorithm(is_listed ? listed->second[std::min(dim, listed->second.size() - 1)]
                             : SuitableAlgorithm(shape.kind, dims[dim].topology),
                   &algorithm);
    return algorithm;
  };
  if (!dims.empty() && algorithm_of(0).is_whole) {
    dims = AsOne(dims);
  }
  const bool both = shape.kind == CollectiveKind::kAllReduce;
  const bool exchange = shape.kind == CollectiveKind::kAllToAll;
  const auto pieces = static_cast<double>(system.pieces);
  double bytes = static_cast<double>(shape.bytes) / pieces;
  double sum = 0;
  double longest = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    const Algorithm algorithm = algorithm_of(i);
    const DimensionTime time(dims[i], algorithm, system.endpoint_ns * kSecondsPerNs);
    const double phase = exchange ? time.Exchange(bytes) : time.Pieces(bytes) * (both ? 2 : 1);
    sum += phase;
    longest = std::max(longest, phase);
    bytes /= exchange || (both && system.is_whole) ? 1 : dims[i].ranks;
  }
  const double waves = std::ceil(pieces / static_cast<double>(system.at_once));
  return sum + (waves - 1) * longest;
}

void UseTopologies(const slicer::AstraNetwork& network,
                   const AstraSystem& system,
                   graph::Graph* graph,
                   slicer::Notes* notes) {
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
            SecondsOnTopology(network, system, program.collectives[program.signature[op]],
                              graph->communicators.members_of(CommId(comm)));
        program.flags[op] |= graph::kDurationFixed;
        program.value.Set(op, NsFromSeconds(std::min(seconds, kMostSeconds)));
        notes->Add(
            "collectives take the time of ASTRA-sim's algorithms on the network's topologies");
      }
    }
  }
}

void AddPipelineBubble(double share, graph::Graph* graph, slicer::Notes* notes) {
  if (share <= 0) {
    return;
  }
  constexpr std::string_view kEmbedding = "embedding_layer ";
  const replayer::CollectiveCost cost(graph->cluster);
  std::set<uint32_t> known;  // roles
  for (uint32_t rank = 0; rank < graph->ranks.size(); ++rank) {
    const uint32_t role = graph->ranks.role[rank];
    if (!known.insert(role).second) {
      continue;
    }
    graph::Program& program = graph->roles[role].program;
    double passes_ns = 0;
    bool counts = true;  // by the last kernel
    for (uint32_t op = 0; op < program.size(); ++op) {
      if (program.kind[op] == graph::OpKind::kKernel) {
        counts =
            !graph->string(graph->signatures[program.signature[op]].name).starts_with(kEmbedding);
        passes_ns += counts ? static_cast<double>(program.value[op]) : 0;
      } else if (program.kind[op] == graph::OpKind::kCollective && counts) {
        const uint32_t comm = graph->ranks.comms(Rank(rank))[program.comm_slot[op]];
        const std::string& name = graph->string(StringId(graph->communicators.name[comm]));
        const auto members = graph->communicators.members_of(CommId(comm));
        if (name == "model" || name == "expert") {  // what gradients do runs beside the passes
          passes_ns += static_cast<double>(
              cost.Collective(program.collectives[program.signature[op]],
                              replayer::TopologyOf(members, graph->cluster.gpus_per_node)));
        }
      }
    }
    // Behind the end of an imported program, where the host waits for all.
    program.Append({.kind = graph::OpKind::kHostGap,
                    .value = std::llround(std::min(passes_ns * share, kMostSeconds * 1e9))});
  }
  notes->Add("the bubble of the pipeline is time at the end in which nothing runs, as in SimAI");
}

}  // namespace prism::launch
