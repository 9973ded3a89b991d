// Which path a flow takes: a shortest one over the links that work. Where several links are
// possible, graph::FabricRouting chooses. ECMP: a hash of flow, switch and seed, so that flows
// collide as they do on hardware: the fullest of 16 links carries 1.23 times the mean with 1,000
// flows, 1.47 with 256, 1.97 with 64 and 3.04 with 16. Adaptive: the link with the fewest flows at
// present.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "replayer/network/topology.h"

namespace prism::replayer {

// ECMP's choice for a flow at a switch: one of `count` links.
uint32_t EcmpChoice(uint64_t flow_key, uint64_t salt, uint32_t count);

// What a name refers to: one direction of each link of a switch ("leaf3") or NIC ("node0.nic1"), or
// of a link ("leaf3-spine0"). kInvalidArgument for a name that the network does not have.
Result<std::vector<LinkId>> LinksNamed(const Topology& topology, const std::string& name);

class Router {
 public:
  // `solver` says how many flows a link holds. Both must outlive the router.
  Router(const Topology& topology, const MaxMinSolver& solver, uint64_t seed);

  // Takes LinksNamed out of service, in both directions. Call before the first FindWay.
  Status Fail(const std::string& name);

  // The links from one NIC to another; false if there is no path. `key` names the flow.
  bool FindWay(VertexId from, VertexId to, uint64_t key, std::vector<LinkId>* way);

  // The parts out of service, for messages.
  [[nodiscard]] const std::vector<std::string>& failed() const { return failed_; }

 private:
  static constexpr uint16_t kFar = 0xFFFFU;

  const std::vector<uint16_t>& DistancesTo(VertexId vertex);
  [[nodiscard]] LinkId Choose(VertexId at, uint64_t key) const;

  const Topology& topology_;
  const MaxMinSolver& solver_;
  uint64_t seed_;
  std::vector<bool> works_;                       // by link
  std::vector<std::vector<uint16_t>> distances_;  // by destination's switch; links from each switch
  std::vector<VertexId> queue_;                   // storage
  std::vector<LinkId> choices_;                   // storage
  std::vector<std::string> failed_;
};

}  // namespace prism::replayer
