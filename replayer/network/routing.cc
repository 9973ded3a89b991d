// Every step of a way leads to a switch that is strictly nearer to the destination, so a way ends
// and contains no circle. Distances are computed once for each last switch, since nothing fails
// after the first way was asked for. The two directions of a link are neighbours in the table of
// links, so `link ^ 1` is the other one. The adaptive choice starts its search at the hashed link:
// of equally full links not always the first is taken.
#include "replayer/network/routing.h"

#include <fmt/format.h>

#include "graph/base/mix.h"

namespace prism::replayer {

using graph::FabricRouting;

uint32_t EcmpChoice(uint64_t flow_key, uint64_t salt, uint32_t count) {
  const uint64_t hash = MixBits(MixBits(salt * kSplitMixStep + 2) + flow_key * kSplitMixStep);
  return static_cast<uint32_t>(((hash >> 32U) * count) >> 32U);
}

Router::Router(const Topology& topology, const MaxMinSolver& solver, uint64_t seed)
    : topology_(topology),
      solver_(solver),
      seed_(seed),
      works_(topology.links().size(), true),
      distances_(topology.switch_count()) {
}

Result<std::vector<LinkId>> LinksNamed(const Topology& topology, const std::string& name) {
  const size_t dash = name.find('-');
  const auto a = topology.Find(name.substr(0, dash));
  const auto b = dash == std::string::npos ? a : topology.Find(name.substr(dash + 1));
  std::vector<LinkId> found;
  if (a.has_value() && b.has_value()) {
    for (const LinkId link : topology.LinksFrom(*a)) {
      if (dash == std::string::npos || topology.links()[link].to == *b) {
        found.push_back(link);
      }
    }
  }
  if (found.empty()) {
    return InvalidArgument(fmt::format(
        "fail:{}: the network has no such link or switch; its switches are {} to {}, its NICs {} "
        "to {}, and a link is NAME-NAME",
        name, topology.NameOf(topology.port_count()), topology.NameOf(topology.vertex_count() - 1),
        topology.NameOf(0), topology.NameOf(topology.port_count() - 1)));
  }
  return found;
}

Status Router::Fail(const std::string& name) {
  PRISM_ASSIGN_OR_RETURN(const std::vector<LinkId> links, LinksNamed(topology_, name));
  for (const LinkId link : links) {
    works_[link] = false;
    works_[link ^ 1U] = false;
  }
  failed_.push_back(name);
  return OkStatus();
}

// Breadth first from the destination; links work in both directions or in none.
const std::vector<uint16_t>& Router::DistancesTo(VertexId vertex) {
  const uint32_t ports = topology_.port_count();
  std::vector<uint16_t>& distances = distances_[vertex - ports];
  if (!distances.empty()) {
    return distances;
  }
  distances.assign(topology_.switch_count(), kFar);
  distances[vertex - ports] = 0;
  queue_.assign(1, vertex);
  for (size_t next = 0; next < queue_.size(); ++next) {
    const VertexId at = queue_[next];
    for (const LinkId link : topology_.LinksFrom(at)) {
      const VertexId to = topology_.links()[link].to;
      if (works_[link] && !topology_.is_port(to) && distances[to - ports] == kFar) {
        distances[to - ports] = static_cast<uint16_t>(distances[at - ports] + 1);
        queue_.push_back(to);
      }
    }
  }
  return distances;
}

LinkId Router::Choose(VertexId at, uint64_t key) const {
  const auto count = static_cast<uint32_t>(choices_.size());
  const FabricRouting routing = topology_.spec().routing;
  if (count == 1 || routing == FabricRouting::kDimensionOrder) {
    return choices_.front();
  }
  const uint32_t hashed = EcmpChoice(key, seed_ * topology_.vertex_count() + at, count);
  if (routing == FabricRouting::kEcmp) {
    return choices_[hashed];
  }
  LinkId best = choices_[hashed];
  for (uint32_t i = 1; i < count; ++i) {
    const LinkId link = choices_[(hashed + i) % count];
    best = solver_.flows_on(link) < solver_.flows_on(best) ? link : best;
  }
  return best;
}

bool Router::FindWay(VertexId from, VertexId to, uint64_t key, std::vector<LinkId>* way) {
  way->clear();
  const LinkId up = topology_.LinksFrom(from).front();
  const LinkId down = topology_.LinksFrom(to).front() ^ 1U;
  if (!works_[up] || !works_[down]) {
    return false;
  }
  const VertexId last = topology_.links()[down].from;
  const uint32_t ports = topology_.port_count();
  const std::vector<uint16_t>& distances = DistancesTo(last);
  way->push_back(up);
  VertexId at = topology_.links()[up].to;
  if (distances[at - ports] == kFar) {
    return false;
  }
  while (at != last) {
    choices_.clear();
    for (const LinkId link : topology_.LinksFrom(at)) {
      const VertexId next = topology_.links()[link].to;
      if (works_[link] && !topology_.is_port(next) &&
          distances[next - ports] < distances[at - ports]) {
        choices_.push_back(link);
      }
    }
    way->push_back(Choose(at, key));
    at = topology_.links()[way->back()].to;
  }
  way->push_back(down);
  return true;
}

}  // namespace prism::replayer
