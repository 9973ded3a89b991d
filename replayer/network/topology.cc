#include "replayer/network/topology.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/base/divide.h"
#include "graph/validate/limits.h"

namespace prism::replayer {

using graph::FabricKind;
using graph::NetworkSpec;

namespace {

// With slower links and longer latencies, times of large jobs could leave the range of the virtual
// clock.
constexpr double kMinRate = 1e6;
constexpr double kMaxRate = 1e18;
constexpr double kMaxLatencyNs = 1e9;

// What fits into a few GB: 2^20 GPUs with one NIC each on two planes use a third of it.
constexpr int64_t kMaxVertices = int64_t{1} << 24U;
constexpr int64_t kMaxCables = int64_t{1} << 24U;

// The smallest box that is nearly a cube.
std::array<int32_t, 3> TorusOf(const NetworkSpec& spec, int32_t nodes) {
  if (spec.torus[0] > 0) {
    return spec.torus;
  }
  const auto side = static_cast<int32_t>(std::ceil(std::cbrt(nodes) - 1e-9));
  return {side, DivideUp(nodes, side * side) > 0 ? side : 1, DivideUp(nodes, side * side)};
}

int64_t PlacesOf(const std::array<int32_t, 3>& torus) {
  return int64_t{torus[0]} * torus[1] * torus[2];
}

struct FabricCount {
  int64_t switches = 0;
  int64_t cables = 0;
  int64_t top = 0;  // switches that a gateway connects to
};

// What the builder below creates for `nodes` nodes on one plane of one cluster. For a torus this is
// an upper bound, since short sides have fewer cables.
FabricCount CountOf(const NetworkSpec& spec, int64_t nodes, int64_t nics) {
  if (spec.kind == FabricKind::kTorus) {
    const int64_t places = PlacesOf(TorusOf(spec, static_cast<int32_t>(nodes)));
    return {places, places * 3 + nodes * nics, 1};
  }
  const int64_t rails = spec.kind == FabricKind::kRailFatTree ? nics : 1;
  const int64_t leaves = DivideUp<int64_t>(nodes, spec.nodes_per_leaf) * rails;
  FabricCount count = {leaves, nodes * nics, leaves};
  if (leaves > 1) {
    const int64_t pods =
        spec.leaves_per_pod > 0 ? DivideUp<int64_t>(leaves, spec.leaves_per_pod) : 1;
    const int64_t cores = spec.leaf_uplinks * int64_t{std::max(spec.spine_uplinks, 1)};
    count.top = pods > 1 ? cores : spec.leaf_uplinks;
    count.switches += pods * spec.leaf_uplinks + (pods > 1 ? cores : 0);
    count.cables += leaves * spec.leaf_uplinks + (pods > 1 ? cores * pods : 0);
  }
  return count;
}

}  // namespace

// Builds one cluster and plane after the other.
class TopologyBuilder {
 public:
  explicit TopologyBuilder(Topology* result) : result_(*result), spec_(result->spec_) {}

  void Build() {
    const FabricSize& size = result_.size_;
    result_.port_count_ = static_cast<uint32_t>(size.nodes * size.nics_per_node * spec_.planes);
    nic_ = size.nic_bytes_per_s / spec_.planes;
    uplink_ = spec_.uplink_bytes_per_s > 0 ? spec_.uplink_bytes_per_s : nic_;
    cluster_link_ = spec_.cluster_bytes_per_s > 0 ? spec_.cluster_bytes_per_s / spec_.planes : nic_;
    const int32_t per_cluster = spec_.nodes_per_cluster > 0 ? spec_.nodes_per_cluster : size.nodes;
    const int32_t clusters = DivideUp(size.nodes, per_cluster);
    for (plane_ = 0; plane_ < spec_.planes; ++plane_) {
      std::vector<VertexId> gateways;
      for (int32_t cluster = 0; cluster < clusters; ++cluster) {
        first_node_ = cluster * per_cluster;
        nodes_ = std::min(per_cluster, size.nodes - first_node_);
        prefix_ = clusters > 1 ? fmt::format("c{}.", cluster) : "";
        prefix_ += spec_.planes > 1 ? fmt::format("p{}.", plane_) : "";
        top_.clear();
        spec_.kind == FabricKind::kTorus ? AddTorus() : AddTree();
        if (clusters > 1) {
          gateways.push_back(AddGateway(gateways));
        }
      }
    }
    SortLinks();
  }

 private:
  VertexId AddSwitch(const std::string& name) {
    result_.names_.push_back(prefix_ + name);
    return result_.vertex_count() - 1;
  }

  void Connect(VertexId a, VertexId b, double bytes_per_s, bool between_clusters = false) {
    result_.links_.push_back({a, b, bytes_per_s, between_clusters});
    result_.links_.push_back({b, a, bytes_per_s, between_clusters});
  }

  void AddTree() {
    const int32_t nics = result_.size_.nics_per_node;
    const int32_t rails = spec_.kind == FabricKind::kRailFatTree ? nics : 1;
    const int32_t groups = DivideUp(nodes_, spec_.nodes_per_leaf);
    std::vector<VertexId> leaves;
    for (int32_t leaf = 0; leaf < groups * rails; ++leaf) {
      leaves.push_back(AddSwitch(fmt::format("leaf{}", leaf)));
    }
    for (int32_t node = 0; node < nodes_; ++node) {
      for (int32_t nic = 0; nic < nics; ++nic) {
        const int32_t leaf = node / spec_.nodes_per_leaf * rails + nic % rails;
        Connect(result_.PortOf(first_node_ + node, nic, plane_), leaves[static_cast<size_t>(leaf)],
                nic_);
      }
    }
    top_ = leaves;
    if (leaves.size() > 1) {
      AddSpines(leaves);
    }
  }

  void AddSpines(const std::vector<VertexId>& leaves) {
    const auto leaf_count = static_cast<int32_t>(leaves.size());
    const int32_t per_pod = spec_.leaves_per_pod > 0 ? spec_.leaves_per_pod : leaf_count;
    const int32_t pods = DivideUp(leaf_count, per_pod);
    std::vector<VertexId> spines;
    for (int32_t spine = 0; spine < pods * spec_.leaf_uplinks; ++spine) {
      spines.push_back(AddSwitch(fmt::format("spine{}", spine)));
    }
    for (int32_t leaf = 0; leaf < leaf_count; ++leaf) {
      for (int32_t up = 0; up < spec_.leaf_uplinks; ++up) {
        const int32_t spine = leaf / per_pod * spec_.leaf_uplinks + up;
        Connect(leaves[static_cast<size_t>(leaf)], spines[static_cast<size_t>(spine)], uplink_);
      }
    }
    top_ = spines;
    if (pods > 1) {
      AddCores(spines, pods);
    }
  }

  void AddCores(const std::vector<VertexId>& spines, int32_t pods) {
    const int32_t up_of_spine = std::max(spec_.spine_uplinks, 1);
    top_.clear();
    for (int32_t core = 0; core < spec_.leaf_uplinks * up_of_spine; ++core) {
      top_.push_back(AddSwitch(fmt::format("core{}", core)));
      for (int32_t pod = 0; pod < pods; ++pod) {
        const int32_t spine = pod * spec_.leaf_uplinks + core / up_of_spine;
        Connect(spines[static_cast<size_t>(spine)], top_.back(), uplink_);
      }
    }
  }

  // Cables dimension by dimension, so that the links of a router are in the order of dimensions.
  void AddTorus() {
    const std::array<int32_t, 3> size = TorusOf(spec_, nodes_);
    const int32_t positions = size[0] * size[1] * size[2];
    std::vector<VertexId> routers;
    for (int32_t position = 0; position < positions; ++position) {
      routers.push_back(AddSwitch(fmt::format("router{}", position)));
    }
    int32_t stride = 1;
    for (const int32_t length : size) {
      for (int32_t position = 0; position < positions; ++position) {
        const int32_t at = position / stride % length;
        const int32_t next = position + ((at + 1) % length - at) * stride;
        if (length > 2 || (length == 2 && at == 0)) {
          Connect(routers[static_cast<size_t>(position)], routers[static_cast<size_t>(next)],
                  uplink_);
        }
      }
      stride *= length;
    }
    for (int32_t node = 0; node < nodes_; ++node) {
      for (int32_t nic = 0; nic < result_.size_.nics_per_node; ++nic) {
        Connect(result_.PortOf(first_node_ + node, nic, plane_), routers[static_cast<size_t>(node)],
                nic_);
      }
    }
    top_ = {routers.front()};
  }

  VertexId AddGateway(const std::vector<VertexId>& others) {
    const VertexId gateway = AddSwitch("gateway");
    for (const VertexId top : top_) {
      Connect(top, gateway, cluster_link_);
    }
    for (const VertexId other : others) {
      Connect(other, gateway, cluster_link_, true);
    }
    return gateway;
  }

  void SortLinks() {
    result_.first_.assign(result_.vertex_count() + size_t{1}, 0);
    for (const FabricLink& link : result_.links_) {
      ++result_.first_[link.from + size_t{1}];
    }
    for (size_t vertex = 1; vertex < result_.first_.size(); ++vertex) {
      result_.first_[vertex] += result_.first_[vertex - 1];
    }
    std::vector<uint32_t> next = result_.first_;
    result_.from_.resize(result_.links_.size());
    for (LinkId link = 0; link < result_.links_.size(); ++link) {
      result_.from_[next[result_.links_[link].from]++] = link;
    }
  }

  Topology& result_;
  const NetworkSpec& spec_;
  double nic_ = 0;
  double uplink_ = 0;
  double cluster_link_ = 0;
  int32_t plane_ = 0;
  int32_t first_node_ = 0;  // of the cluster being built
  int32_t nodes_ = 0;       // likewise
  std::string prefix_;
  std::vector<VertexId> top_;  // switches of its highest level
};

Topology::Topology(const NetworkSpec& spec, const FabricSize& size) : spec_(spec), size_(size) {
  PRISM_CHECK_MSG(NetworkFault(spec, size).empty(), NetworkFault(spec, size));
  TopologyBuilder(this).Build();
}

VertexId Topology::PortOf(int32_t node, int32_t nic, int32_t plane) const {
  return static_cast<VertexId>((node * size_.nics_per_node + nic) * spec_.planes + plane);
}

std::span<const LinkId> Topology::LinksFrom(VertexId vertex) const {
  return {from_.data() + first_[vertex], from_.data() + first_[vertex + size_t{1}]};
}

std::string Topology::NameOf(VertexId vertex) const {
  if (!is_port(vertex)) {
    return names_[vertex - port_count_];
  }
  const int32_t nic = static_cast<int32_t>(vertex) / spec_.planes;
  std::string name =
      fmt::format("node{}.nic{}", nic / size_.nics_per_node, nic % size_.nics_per_node);
  return spec_.planes == 1
             ? name
             : fmt::format("p{}.{}", static_cast<int32_t>(vertex) % spec_.planes, name);
}

std::optional<VertexId> Topology::Find(std::string_view name) const {
  for (VertexId vertex = 0; vertex < vertex_count(); ++vertex) {
    if (NameOf(vertex) == name) {
      return vertex;
    }
  }
  return std::nullopt;
}

std::string NetworkText(const NetworkSpec& spec) {
  constexpr std::array<const char*, 3> kKinds = {"rail-fat-tree", "clos", "torus"};
  constexpr std::array<const char*, 3> kRoutings = {"adaptive", "ecmp", "dimension order"};
  std::string text = kKinds[static_cast<size_t>(spec.kind)];
  if (spec.kind != FabricKind::kTorus) {
    text += fmt::format(", {} nodes a leaf, {} uplinks", spec.nodes_per_leaf, spec.leaf_uplinks);
    text += spec.leaves_per_pod > 0 ? fmt::format(", {} leaves a pod, {} uplinks of a spine",
                                                  spec.leaves_per_pod, spec.spine_uplinks)
                                    : "";
  }
  text += spec.planes > 1 ? fmt::format(", {} planes", spec.planes) : "";
  text +=
      spec.nodes_per_cluster > 0 ? fmt::format(", {} nodes a cluster", spec.nodes_per_cluster) : "";
  return text + ", " + kRoutings[static_cast<size_t>(spec.routing)];
}

std::string NetworkFault(const NetworkSpec& spec) {
  struct Count {
    const char* name;
    int64_t value;
    int64_t lowest;
    int64_t highest;
  };

  constexpr int32_t kMaxNodes = graph::kMaxRanks;
  for (const Count& count :
       std::vector<Count>{{"planes", spec.planes, 1, 8},
                          {"nodes_per_leaf", spec.nodes_per_leaf, 1, kMaxNodes},
                          {"leaf_uplinks", spec.leaf_uplinks, 1, 4096},
                          {"leaves_per_pod", spec.leaves_per_pod, 0, kMaxNodes},
                          {"spine_uplinks", spec.spine_uplinks, 0, 4096},
                          {"torus_x", spec.torus[0], 0, 4096},
                          {"torus_y", spec.torus[1], 0, 4096},
                          {"torus_z", spec.torus[2], 0, 4096},
                          {"nodes_per_cluster", spec.nodes_per_cluster, 0, kMaxNodes},
                          {"connections", spec.connections, 1, 64}}) {
    if (count.value < count.lowest || count.value > count.highest) {
      return fmt::format("network: {} is {}; it must be from {} to {}", count.name, count.value,
                         count.lowest, count.highest);
    }
  }
  for (const double rate : {spec.uplink_bytes_per_s, spec.cluster_bytes_per_s}) {
    if (rate != 0 && !(rate >= kMinRate && rate <= kMaxRate)) {
      return fmt::format("network: a bandwidth is {}; it must be from {} to {} byte/s", rate,
                         kMinRate, kMaxRate);
    }
  }
  if (!(spec.cluster_ns >= 0 && spec.cluster_ns <= kMaxLatencyNs)) {
    return fmt::format("network: cluster_ns is {}; it must be from 0 to {}", spec.cluster_ns,
                       kMaxLatencyNs);
  }
  const bool some = spec.torus[0] > 0 || spec.torus[1] > 0 || spec.torus[2] > 0;
  if (some && (PlacesOf(spec.torus) == 0 || PlacesOf(spec.torus) > kMaxNodes)) {
    return fmt::format("network: a torus of {} x {} x {}", spec.torus[0], spec.torus[1],
                       spec.torus[2]);
  }
  const bool torus_routing = spec.routing == graph::FabricRouting::kDimensionOrder;
  if (torus_routing && spec.kind != FabricKind::kTorus) {
    return "network: dimension order needs a torus";
  }
  return {};
}

std::string NetworkFault(const NetworkSpec& spec, const FabricSize& size) {
  if (std::string fault = NetworkFault(spec); !fault.empty()) {
    return fault;
  }
  if (size.nodes < 1 || size.nodes > graph::kMaxRanks) {
    return fmt::format("network: it would join {} nodes; 1 to {} are possible", size.nodes,
                       graph::kMaxRanks);
  }
  const int32_t nodes =
      spec.nodes_per_cluster > 0 ? std::min(spec.nodes_per_cluster, size.nodes) : size.nodes;
  const int64_t places = PlacesOf(spec.torus);
  if (spec.kind == FabricKind::kTorus && places > 0 && places < nodes) {
    return fmt::format("network: a torus of {} x {} x {} has {} places for {} nodes", spec.torus[0],
                       spec.torus[1], spec.torus[2], places, nodes);
  }
  const FabricCount one = CountOf(spec, nodes, size.nics_per_node);
  const int64_t clusters = DivideUp(size.nodes, nodes);
  const int64_t gateways = clusters > 1 ? clusters : 0;
  const int64_t ports = int64_t{size.nodes} * size.nics_per_node;
  const int64_t vertices = spec.planes * (ports + clusters * one.switches + gateways);
  const int64_t cables =
      spec.planes * (clusters * one.cables + gateways * one.top + gateways * (gateways - 1) / 2);
  if (vertices > kMaxVertices || cables > kMaxCables) {
    return fmt::format(
        "network: it would have {} NICs and switches and {} cables; at most {} and {} are possible",
        vertices, cables, kMaxVertices, kMaxCables);
  }
  return {};
}

}  // namespace prism::replayer
