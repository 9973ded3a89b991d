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

// Makes room for longer paths: hops of a flow move, their order stays.
void MaxMinSolver::Widen() {
  const uint32_t before = 1U << hop_bits_;
  std::vector<Hop> hops(flows_.size() * before * 2);
  for (FlowId flow = 0; flow < flows_.size(); ++flow) {
    std::copy_n(hops_.begin() + flow * before, flows_[flow].hop_count,
                hops.begin() + flow * before * 2);
  }
  for (Link& link : links_) {
    for (uint32_t& hop : link.hops) {
      hop = hop / before * before * 2 + hop % before;
    }
  }
  hops_ = std::move(hops);
  ++hop_bits_;
}

FlowId MaxMinSolver::Add(std::span<const LinkId> links, double bound) {
  PRISM_CHECK(bound > 0);
  while (links.size() > 1U << hop_bits_) {
    Widen();
  }
  if (unused_.empty()) {
    unused_.push_back(static_cast<FlowId>(flows_.size()));
    flows_.emplace_back();
    hops_.resize(hops_.size() + (1U << hop_bits_));
  }
  const FlowId id = unused_.back();
  unused_.pop_back();
  Flow& flow = flows_[id];
  flow.rate = 0;
  flow.bound = bound;
  flow.bottleneck = kOwnBound;
  flow.hop_count = static_cast<uint32_t>(links.size());
  flow.opened = 0;
  const uint32_t first = id << hop_bits_;
  for (uint32_t i = 0; i < links.size(); ++i) {
    Seed(links[i]);
    Link& link = links_[links[i]];
    hops_[first + i] = {links[i], static_cast<uint32_t>(link.hops.size())};
    link.hops.push_back(first + i);
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
    // Where nothing is left, no rounding error is carried along.
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

void MaxMinSolver::Open(FlowId id) {
  Flow& flow = flows_[id];
  if (flow.opened == solve_) {
    return;
  }
  flow.opened = solve_;
  flow.open = true;
  ++open_;
  if (flow.bottleneck != kOwnBound) {
    --links_[flow.bottleneck].bottlenecked;
    flow.bottleneck = kOwnBound;
  }
  flow.local = static_cast<uint32_t>(opened_.size());
  opened_.push_back(id);
  bounds_.Reserve(flow.local + 1);
  bounds_.Set(flow.local, flow.bound);
  bounds_.Resize(flow.local + 1);
  lowest_bound_ = std::min(lowest_bound_, flow.bound);
  OpenHops(id);
}

// A link that was not touched yet becomes the next one.
void MaxMinSolver::OpenHops(FlowId id) {
  const Flow& flow = flows_[id];
  uint32_t count = levels_.size();
  levels_.Reserve(count + flow.hop_count);
  if (touched_.size() < count + flow.hop_count) {
    touched_.resize(2 * size_t{count + flow.hop_count});
  }
  for (const Hop& hop : HopsOf(id)) {
    Link& link = links_[hop.link];
    const bool fresh = link.touched != solve_;
    link.touched = solve_;
    link.local = fresh ? count : link.local;
    count += fresh ? 1 : 0;
    touched_[link.local] = hop.link;
    ++link.open;
    const double others = link.used - flow.rate;
    link.used = link.open == link.hops.size() ? 0 : others;  // no rounding error is carried along
    levels_.Set(link.local, LevelOf(link));
  }
  levels_.Resize(count);
}

// Levels only rise; what is left may be off in the last bits.
double MaxMinSolver::LevelOf(const Link& link) const {
  return std::max((link.capacity - link.used) / link.open, level_);
}

// Opens the flows whose bottleneck the link is.
void MaxMinSolver::OpenBottlenecked(LinkId id) {
  const Link& link = links_[id];
  for (uint32_t i = 0, left = link.bottlenecked; left > 0; ++i) {
    const FlowId flow = FlowOf(link.hops[i]);
    if (flows_[flow].bottleneck == id) {
      Open(flow);
      --left;
    }
  }
}

void MaxMinSolver::Fill() {
  while (open_ > 0) {
    const Levels::Entry link = levels_.Lowest();
    const Levels::Entry flow = lowest_bound_ <= link.level ? bounds_.Lowest() : Levels::Entry();
    if (flow.level <= link.level) {
      level_ = flow.level;
      Stop(opened_[flow.index], kOwnBound);
    } else {
      FillLink(touched_[link.index], link.level);
    }
  }
}

// If others have more than the level, they give way first, and the link fills later.
void MaxMinSolver::FillLink(LinkId id, double level) {
  Link& link = links_[id];
  const double most = level * (1 + kPrecision);
  stopping_.resize(std::max(stopping_.size(), link.hops.size()));
  giving_way_.resize(stopping_.size());
  uint32_t stopping = 0;
  uint32_t giving_way = 0;
  for (const uint32_t hop : link.hops) {
    const Flow& flow = flows_[FlowOf(hop)];
    const bool above = flow.rate > most;
    stopping_[stopping] = FlowOf(hop);
    giving_way_[giving_way] = FlowOf(hop);
    stopping += flow.open ? 1 : 0;
    giving_way += above && !flow.open ? 1 : 0;
  }
  for (uint32_t i = 0; i < giving_way; ++i) {
    Open(giving_way_[i]);
  }
  if (giving_way > 0) {
    return;
  }
  level_ = level;
  link.bottlenecked += stopping;
  for (uint32_t i = 0; i < stopping; ++i) {
    Stop(stopping_[i], id);
  }
}

// At the level reached.
void MaxMinSolver::Stop(FlowId id, LinkId at) {
  Flow& flow = flows_[id];
  flow.open = false;
  --open_;
  flow.bottleneck = at;
  bounds_.Set(flow.local, Levels::kNone);
  const bool below_before = level_ < flow.rate * (1 - kPrecision);
  if (flow.rate != level_) {
    flow.rate = level_;
    changed_.push_back(id);
  }
  for (const Hop& hop : HopsOf(id)) {
    Link& link = links_[hop.link];
    --link.open;
    link.used += level_;
    const double level = LevelOf(link);
    levels_.Set(link.local, link.open > 0 ? level : Levels::kNone);
  }
  if (!below_before) {
    return;
  }
  for (const Hop& hop : HopsOf(id)) {
    if (hop.link != at) {
      OpenBottlenecked(hop.link);
    }
  }
}

const std::vector<FlowId>& MaxMinSolver::Solve() {
  changed_.clear();
  level_ = 0;
  lowest_bound_ = Levels::kNone;
  for (const FlowId flow : added_) {
    Open(flow);
  }
  for (const LinkId link : seeds_) {
    OpenBottlenecked(link);
  }
  Fill();
  opened_.clear();
  bounds_.Resize(0);
  levels_.Resize(0);
  added_.clear();
  seeds_.clear();
  ++solve_;
  return changed_;
}

}  // namespace prism::replayer
