#include "replayer/network/max_min.h"

#include <algorithm>
#include <limits>
#include <numeric>
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
    Seed(links[i]);
    std::vector<uint32_t>& on_link = links_[links[i]].hops;
    links_[links[i]].demand += bound;
    hops_[first + i] = {links[i], static_cast<uint32_t>(on_link.size())};
    on_link.push_back(first + i);
  }
  added_.push_back(id);
  return id;
}

void MaxMinSolver::Remove(FlowId id) {
  Flow& flow = flows_[id];
  for (const Hop& hop : HopsOf(id)) {
    Link& link = links_[hop.link];
    Seed(hop.link);
    link.hops[hop.place] = link.hops.back();
    hops_[link.hops[hop.place]].place = hop.place;
    link.hops.pop_back();
    // No rounding is carried on where nothing is left.
    link.demand = link.hops.empty() ? 0 : link.demand - flow.bound;
    link.used = link.hops.empty() ? 0 : link.used - flow.rate;
  }
  if (flow.bottleneck != kOwnBound) {
    --links_[flow.bottleneck].bottlenecked;
  }
  flow.hop_count = 0;
  std::erase(added_, id);
  unused_.push_back(id);
}

void MaxMinSolver::Seed(LinkId id) {
  if (links_[id].seeded != solve_) {
    links_[id].seeded = solve_;
    seeds_.push_back(id);
  }
}

void MaxMinSolver::Touch(LinkId id) {
  Link& link = links_[id];
  link.touched = solve_;
  link.local = static_cast<uint32_t>(touched_.size());
  TouchedLink& touched = touched_.emplace_back();
  touched.link = id;
  touched.left = link.capacity - link.used;
  touched.bottlenecked = link.bottlenecked;
}

void MaxMinSolver::Free(FlowId id) {
  Flow& flow = flows_[id];
  if (flow.free_in == solve_) {
    return;
  }
  flow.free_in = solve_;
  const auto index = static_cast<uint32_t>(free_.size());
  lowest_bound_ = index == 0 ? flow.bound : std::min(lowest_bound_, flow.bound);
  highest_bound_ = index == 0 ? flow.bound : std::max(highest_bound_, flow.bound);
  FreeFlow& free = free_.emplace_back();
  free.flow = id;
  free.bound = flow.bound;
  free.first_hop = static_cast<uint32_t>(free_hops_.size());
  for (const Hop& hop : HopsOf(id)) {
    const Link& link = links_[hop.link];
    if (link.touched != solve_) {
      if (!CanFill(link)) {
        continue;
      }
      Touch(hop.link);
    }
    TouchedLink& touched = touched_[link.local];
    ++touched.free;
    touched.left += flow.rate;
    touched.bottlenecked -= flow.bottleneck == hop.link ? 1 : 0;
    free_hops_.push_back({index, link.local, touched.first_hop});
    touched.first_hop = static_cast<uint32_t>(free_hops_.size() - 1);
  }
  free.hop_end = static_cast<uint32_t>(free_hops_.size());
}

void MaxMinSolver::FillFlow(FreeFlow* flow, double level, LinkId at) {
  flow->filled = level;
  flow->filled_at = at;
  for (uint32_t hop = flow->first_hop; hop < flow->hop_end; ++hop) {
    TouchedLink& link = touched_[free_hops_[hop].link];
    link.unfilled -= level;
    link.highest = level;  // levels only rise
    --link.open;
  }
}

void MaxMinSolver::FillLink(TouchedLink* link, double level) {
  link->level = level;
  for (uint32_t hop = link->first_hop; hop != kEndOfList; hop = free_hops_[hop].next) {
    FreeFlow& flow = free_[free_hops_[hop].flow];
    if (flow.filled < 0) {
      FillFlow(&flow, level, link->link);
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
void MaxMinSolver::CollectCandidates() {
  filling_.clear();
  for (uint32_t i = 0; i < touched_.size(); ++i) {
    TouchedLink& link = touched_[i];
    link.unfilled = std::max(link.left, 0.0);
    link.open = link.free;
    link.level = -1;
    link.highest = 0;
    if (link.unfilled < highest_bound_ * link.open) {
      filling_.push_back({link.unfilled / link.open, i});
    }
  }
  if (filling_.size() > kFewCandidates) {
    std::make_heap(filling_.begin(), filling_.end(), HigherLevel());
  }
}

void MaxMinSolver::SortByBound() {
  by_bound_.resize(free_.size());
  std::iota(by_bound_.begin(), by_bound_.end(), 0U);
  if (lowest_bound_ < highest_bound_) {
    std::stable_sort(by_bound_.begin(), by_bound_.end(),
                     [this](uint32_t a, uint32_t b) { return free_[a].bound < free_[b].bound; });
  }
}

MaxMinSolver::Candidate MaxMinSolver::LowestOfFew(double reached) const {
  Candidate lowest = {std::numeric_limits<double>::infinity(), 0};
  for (const Candidate& candidate : filling_) {
    const TouchedLink& link = touched_[candidate.link];
    const double level = link.unfilled / link.open;  // not used where it is no number
    lowest = link.open > 0 && level < lowest.level ? Candidate{level, candidate.link} : lowest;
  }
  lowest.level = std::max(lowest.level, reached);
  return lowest;
}

// Flows that stopped below leave more to the others, so that a level in the heap is a lower bound.
MaxMinSolver::Candidate MaxMinSolver::LowestOfHeap() {
  while (!filling_.empty()) {
    const Candidate front = filling_.front();
    const TouchedLink& link = touched_[front.link];
    const double level = link.unfilled / link.open;
    if (link.open > 0 && level <= front.level) {
      return front;
    }
    std::pop_heap(filling_.begin(), filling_.end(), HigherLevel());
    if (link.open > 0) {
      filling_.back().level = level;
      std::push_heap(filling_.begin(), filling_.end(), HigherLevel());
    } else {
      filling_.pop_back();
    }
  }
  return {std::numeric_limits<double>::infinity(), 0};
}

void MaxMinSolver::Fill() {
  SortByBound();
  CollectCandidates();
  for (FreeFlow& flow : free_) {
    flow.filled = -1;
  }
  const bool few = filling_.size() <= kFewCandidates;
  Candidate lowest;
  for (size_t next = 0; next < by_bound_.size();) {
    lowest = few ? LowestOfFew(lowest.level) : LowestOfHeap();
    bool stopped = false;  // some flow at its bound: the level of the link may have risen
    for (; next < by_bound_.size() && free_[by_bound_[next]].bound <= lowest.level; ++next) {
      FreeFlow& flow = free_[by_bound_[next]];
      if (flow.filled < 0) {
        FillFlow(&flow, flow.bound, kOwnBound);
        stopped = true;
      }
    }
    if (!stopped && next < by_bound_.size()) {
      FillLink(&touched_[lowest.link], lowest.level);
    }
    while (next < by_bound_.size() && free_[by_bound_[next]].filled >= 0) {
      ++next;
    }
  }
}

// Of a flow that was not filled and meets the link.
bool MaxMinSolver::KeepsBottleneck(const Flow& flow, const TouchedLink& link) const {
  if (link.level >= 0 && flow.rate > link.level * (1 + kPrecision)) {
    return false;  // the flows that stopped here would have less than it
  }
  if (flow.bottleneck != link.link) {
    return true;
  }
  return link.unfilled <= kPrecision * links_[link.link].capacity &&
         flow.rate >= link.highest * (1 - kPrecision);
}

bool MaxMinSolver::FreeUnproven() {
  const size_t proven = free_.size();
  for (size_t i = 0, count = touched_.size(); i < count; ++i) {
    const TouchedLink link = touched_[i];
    const std::vector<uint32_t>& hops = links_[link.link].hops;
    // Where nobody stopped now and nobody else had stopped, nothing is to be proven.
    if (link.free == hops.size() || (link.level < 0 && link.bottlenecked == 0)) {
      continue;
    }
    for (const uint32_t hop : hops) {
      const FlowId flow = FlowOf(hop);
      if (flows_[flow].free_in != solve_ && !KeepsBottleneck(flows_[flow], link)) {
        Free(flow);
      }
    }
  }
  return free_.size() > proven;
}

void MaxMinSolver::Commit() {
  changed_.clear();
  for (const FreeFlow& free : free_) {
    Flow& flow = flows_[free.flow];
    if (flow.bottleneck != kOwnBound) {
      --links_[flow.bottleneck].bottlenecked;
    }
    if (free.filled_at != kOwnBound) {
      ++links_[free.filled_at].bottlenecked;
    }
    flow.bottleneck = free.filled_at;
    if (flow.rate != free.filled) {
      for (const Hop& hop : HopsOf(free.flow)) {
        links_[hop.link].used += free.filled - flow.rate;
      }
      flow.rate = free.filled;
      changed_.push_back(free.flow);
    }
  }
}

// Frees the flows whose bottleneck the link was.
void MaxMinSolver::FreeBottlenecked(LinkId id) {
  const Link& link = links_[id];
  for (uint32_t i = 0, left = link.bottlenecked; left > 0; ++i) {
    const FlowId flow = FlowOf(link.hops[i]);
    if (flows_[flow].bottleneck == id) {
      Free(flow);
      --left;
    }
  }
}

const std::vector<FlowId>& MaxMinSolver::Solve() {
  free_.clear();
  touched_.clear();
  free_hops_.clear();
  for (const FlowId flow : added_) {
    Free(flow);
  }
  for (const LinkId link : seeds_) {
    FreeBottlenecked(link);
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
