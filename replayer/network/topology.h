// The network between nodes as vertices and directed links, built from graph::NetworkSpec.
//
//   rail-optimised fat tree   NIC r of `nodes_per_leaf` neighbouring nodes hangs on one leaf (rail
//   r
//                             of the group); each leaf has a link to each of `leaf_uplinks` spines.
//   Clos                      all NICs of `nodes_per_leaf` nodes hang on one leaf; above it the
//                             same. Oversubscribed nodes_per_leaf * NICs : leaf_uplinks.
//   three levels              with `leaves_per_pod` spines belong to a pod of that many leaves;
//                             spine i of every pod is joined by the same `spine_uplinks` cores.
//   dual-plane, dual-ToR      `planes` = 2: two such trees, each NIC with half of its bandwidth on
//                             each; what a broken switch cuts off goes through the other plane.
//   3D torus                  one router per node, with a link to each of its six neighbours.
//   several clusters          `nodes_per_cluster` nodes each, a gateway above the top switches of
//                             each, and a slow link between every two gateways.
//
// Names, for messages and --perturb fail: node3.nic5, leaf7, spine2, core1, router4, gateway;
// with several planes or clusters before it p1. and c0. (c0.p1.leaf7). A link is NAME-NAME.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "replayer/network/max_min.h"

namespace prism::replayer {

using VertexId = uint32_t;

// One direction of a cable. Link l ^ 1 is the other direction.
struct FabricLink {
  VertexId from = 0;
  VertexId to = 0;
  double bytes_per_s = 0;
  bool between_clusters = false;
};

// What the network has to connect.
struct FabricSize {
  int32_t nodes = 1;
  int32_t nics_per_node = 1;  // ports that ranks use
  double nic_bytes_per_s = 0;
};

class Topology {
 public:
  // For networks without a fault (below).
  Topology(const graph::NetworkSpec& spec, const FabricSize& size);

  [[nodiscard]] const graph::NetworkSpec& spec() const { return spec_; }
  [[nodiscard]] const FabricSize& size() const { return size_; }
  [[nodiscard]] std::span<const FabricLink> links() const { return links_; }
  [[nodiscard]] uint32_t vertex_count() const { return port_count_ + switch_count(); }
  [[nodiscard]] uint32_t switch_count() const { return static_cast<uint32_t>(names_.size()); }

  // NICs come first among the vertices, then switches.
  [[nodiscard]] uint32_t port_count() const { return port_count_; }
  [[nodiscard]] bool is_port(VertexId vertex) const { return vertex < port_count_; }
  [[nodiscard]] VertexId PortOf(int32_t node, int32_t nic, int32_t plane) const;

  [[nodiscard]] std::span<const LinkId> LinksFrom(VertexId vertex) const;
  [[nodiscard]] std::string NameOf(VertexId vertex) const;
  [[nodiscard]] std::optional<VertexId> Find(std::string_view name) const;

 private:
  friend class TopologyBuilder;

  graph::NetworkSpec spec_;
  FabricSize size_;
  uint32_t port_count_ = 0;
  std::vector<std::string> names_;  // of switches
  std::vector<FabricLink> links_;
  std::vector<uint32_t> first_;  // by vertex: begin in from_
  std::vector<LinkId> from_;     // links by vertex, ascending
};

// A network in one line, for reports: "rail-fat-tree, 32 nodes a leaf, 32 uplinks, adaptive".
std::string NetworkText(const graph::NetworkSpec& spec);

// What is wrong with a network, whatever it has to connect; empty if nothing is.
std::string NetworkFault(const graph::NetworkSpec& spec);

// The same if it has to connect `size`: a torus may have too few places, or the network too many
// switches and cables.
std::string NetworkFault(const graph::NetworkSpec& spec, const FabricSize& size);

}  // namespace prism::replayer
