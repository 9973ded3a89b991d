#include "replayer/network/max_min.h"

#include <algorithm>
#include <utility>

#include "graph/base/check.h"

namespace prism::replayer {

MaxMinSolver::MaxMinSolver(std::vector<double> capacities) : links_(capacities.size()) {
  for (size_t link = 0; link < capacities.size(); ++link) {
    PRISM_CHECK(capacities[link] > 0);
    links_[link].capacity = capacities[link];
  }
}

// Room for longer ways: hops of a flow move, their order stays.
void MaxMinSolver::Widen(uint32_t max_links) {
  std::vector<Hop> hops(flows_.size() * max_links);
  for (FlowId flow = 0; flow < flows_.size(); ++flow) {
    std::copy_n(hops_.begin() + flow * max_links_, flows_[flow].hop_count,
                hops.begin() + flow * max_links);
  }
  for (Link& link : links_) {
    for (uint32_t& hop : link.hops) {
      hop = hop / max_links_ * max_links + hop % max_links_;
    }
  }
  hops_ = std::move(hops);
  max_links_ = max_links;
}

FlowId MaxMinSolver::Add(std::span<const LinkId> links, double bound) {
  PRISM_CHECK(bound > 0);
  if (links.size() > max_links_) {
    Widen(static_cast<uint32_t>(links.size()));
  }
  if (unused_.empty()) {
    unused_.push_back(static_cast<FlowId>(flows_.size()));
    flows_.emplace_back();
    hops_.resize(hops_.size() + max_links_);
  }
  const FlowId id = unused_.back();
  unused_.pop_back();
  Flow& flow = flows_[id];
  flow.rate = 0;
  flow.bound = bound;
  flow.bottleneck = kOwnBound;
  flow.hop_count = static_cast<uint32_t>(links.size());
  flow.free_in = 0;
  const uint32_t first = id * max_links_;
  for (uint32_t i = 0; i < links.size(); ++i) {
    std::vector<uint32_t>& on_link = links_[links[i]].hops;
    links_[links[i]].demand += bound;
    hops_[first + i] = {links[i], static_cast<uint32_t>(on_link.size())};
    on_link.push_back(first + i);
  }
  added_.push_back(id);
  Seed(id);
  return id;
}

void MaxMinSolver::Remove(FlowId flow) {
  Seed(flow);
  for (const Hop& hop : HopsOf(flow)) {
    Link& link = links_[hop.link];
    link.hops[hop.place] = link.hops.back();
    hops_[link.hops[hop.place]].place = hop.place;
    link.hops.pop_back();
    // No rounding is carried on where nothing is left.
    link.demand = link.hops.empty() ? 0 : link.demand - flows_[flow].bound;
  }
  flows_[flow].hop_count = 0;
  std::erase(added_, flow);
  unused_.push_back(flow);
}

void MaxMinSolver::Seed(FlowId flow) {
  for (const Hop& hop : HopsOf(flow)) {
    if (links_[hop.link].seeded != solve_) {
      links_[hop.link].seeded = solve_;
      seeds_.push_back(hop.link);
    }
  }
}

void MaxMinSolver::Touch(LinkId id) {
  Link& link = links_[id];
  link.touched = solve_;
  link.free = 0;
  link.left = link.capacity;
  for (const uint32_t hop : link.hops) {
    link.left -= flows_[FlowOf(hop)].rate;
  }
  touched_.push_back(id);
}

void MaxMinSolver::Free(FlowId id) {
  Flow& flow = flows_[id];
  if (flow.free_in == solve_) {
    return;
  }
  flow.free_in = solve_;
  free_.push_back(id);
  for (const Hop& hop : HopsOf(id)) {
    Link& link = links_[hop.link];
    if (link.touched != solve_) {
      if (!CanFill(link)) {
        continue;
      }
      Touch(hop.link);
    }
    ++link.free;
    link.left += flow.rate;
  }
}

void MaxMinSolver::FillFlow(FlowId id, double level, LinkId at) {
  Flow& flow = flows_[id];
  flow.filled = level;
  flow.filled_at = at;
  for (const Hop& hop : HopsOf(id)) {
    Link& link = links_[hop.link];
    if (link.touched != solve_) {
      continue;
    }
    link.unfilled -= level;
    link.highest = level;  // levels only rise
    --link.open;
  }
}

void MaxMinSolver::FillLink(LinkId id, double level) {
  Link& link = links_[id];
  link.level = level;
  for (const uint32_t hop : link.hops) {
    const FlowId flow = FlowOf(hop);
    if (flows_[flow].free_in == solve_ && flows_[flow].filled < 0) {
      FillFlow(flow, level, id);
    }
  }
}

namespace {

// Heaps of the standard library keep the largest in front.
struct HigherLevel {
  template <typename Candidate>
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.level > b.level || (a.level == b.level && a.link > b.link);
  }
};

}  // namespace

// A link on which all flows could run at the highest bound never fills.
void MaxMinSolver::CollectCandidates(double highest_bound) {
  filling_.clear();
  for (const LinkId id : touched_) {
    Link& link = links_[id];
    link.unfilled = std::max(link.left, 0.0);
    link.open = link.free;
    link.level = -1;
    link.highest = 0;
    if (link.unfilled < highest_bound * link.open) {
      filling_.push_back({link.unfilled / link.open, id});
    }
  }
  std::make_heap(filling_.begin(), filling_.end(), HigherLevel());
}

void MaxMinSolver::Fill() {
  by_bound_ = free_;
  const auto less = [this](FlowId a, FlowId b) { return flows_[a].bound < flows_[b].bound; };
  if (!std::is_sorted(by_bound_.begin(), by_bound_.end(), less)) {
    std::stable_sort(by_bound_.begin(), by_bound_.end(), less);
  }
  for (const FlowId flow : free_) {
    flows_[flow].filled = -1;
  }
  CollectCandidates(flows_[by_bound_.back()].bound);
  size_t next = 0;
  while (true) {
    while (next < by_bound_.size() && flows_[by_bound_[next]].filled >= 0) {
      ++next;
    }
    if (next == by_bound_.size()) {
      return;
    }
    const FlowId bounded = by_bound_[next];
    if (filling_.empty() || flows_[bounded].bound <= filling_.front().level) {
      FillFlow(bounded, flows_[bounded].bound, kOwnBound);
      continue;
    }
    std::pop_heap(filling_.begin(), filling_.end(), HigherLevel());
    const Candidate candidate = filling_.back();
    filling_.pop_back();
    const Link& link = links_[candidate.link];
    if (link.open == 0) {
      continue;
    }
    // Flows that stopped below leave more to the others, so that a stored level is a lower bound.
    const double level = std::max(link.unfilled / link.open, candidate.level);
    if (level > candidate.level) {
      filling_.push_back({level, candidate.link});
      std::push_heap(filling_.begin(), filling_.end(), HigherLevel());
    } else {
      FillLink(candidate.link, level);
    }
  }
}

// Of a flow that was not filled and meets `link`.
bool MaxMinSolver::KeepsBottleneck(FlowId id, LinkId at) const {
  const Flow& flow = flows_[id];
  const Link& link = links_[at];
  if (link.level >= 0 && flow.rate > link.level * (1 + kPrecision)) {
    return false;  // the flows that stopped here would have less than it
  }
  if (flow.bottleneck != at) {
    return true;
  }
  return link.unfilled <= kPrecision * link.capacity &&
         flow.rate >= link.highest * (1 - kPrecision);
}

bool MaxMinSolver::FreeUnproven() {
  const size_t proven = free_.size();
  for (size_t i = 0, count = touched_.size(); i < count; ++i) {
    const LinkId id = touched_[i];
    if (links_[id].free == links_[id].hops.size()) {
      continue;
    }
    for (const uint32_t hop : links_[id].hops) {
      const FlowId flow = FlowOf(hop);
      if (flows_[flow].free_in != solve_ && !KeepsBottleneck(flow, id)) {
        Free(flow);
      }
    }
  }
  return free_.size() > proven;
}

void MaxMinSolver::Commit() {
  changed_.clear();
  for (const FlowId id : free_) {
    Flow& flow = flows_[id];
    flow.bottleneck = flow.filled_at;
    if (flow.rate != flow.filled) {
      flow.rate = flow.filled;
      changed_.push_back(id);
    }
  }
}

const std::vector<FlowId>& MaxMinSolver::Solve() {
  free_.clear();
  touched_.clear();
  for (const FlowId flow : added_) {
    Free(flow);
  }
  for (const LinkId link : seeds_) {
    for (const uint32_t hop : links_[link].hops) {
      const FlowId flow = FlowOf(hop);
      if (flows_[flow].bottleneck == link) {
        Free(flow);
      }
    }
  }
  if (!free_.empty()) {
    do {
      Fill();
    } while (FreeUnproven());
  }
  Commit();
  added_.clear();
  seeds_.clear();
  ++solve_;
  return changed_;
}

}  // namespace prism::replayer
