// Max-min fair rates of flows over links: the rates at which no flow can get more without taking
// from one that has no more than it.
//
// The problem. Link l has a capacity c_l > 0. Flow f crosses the links P_f and takes at most the
// rate b_f. Rates x_f are feasible when x_f <= b_f and, on every link, the sum of x_f over the
// flows that cross it is at most c_l. They are max-min fair exactly when every flow has a
// *bottleneck*: its own bound (x_f = b_f), or a link that is full (sum = c_l) and on which no other
// flow has more than x_f. There is one such allocation (Bertsekas and Gallager, Data Networks,
// section 6.5.2).
//
// Progressive filling finds it: all rates rise together from 0; when a link fills, or a flow
// reaches its bound, those flows stop there, the others go on.
//
//   Links A (capacity 10) and B (capacity 8). Flow 1 crosses A, flow 2 crosses A and B, flow 3
//   crosses B and is bounded by 2.
//     level 2: flow 3 stops at its bound. Left: A 10 - 2*2 = 6 for two flows, B 8 - 2*2 = 4 for
//     one. level 5: A is full (5 + 5), flows 1 and 2 stop there; B carries 5 + 2 of 8.
//   Rates 5, 5, 2; bottlenecks A, A, its bound.
//   When flow 1 leaves: flow 2 rises to 6, where B is full (6 + 2); its bottleneck is B.
//
// Incremental. When flows come and go, rates change only near them: Solve starts from the flows
// whose bottleneck is a link of a changed flow, fills these alone into what the others leave, and
// then looks whether each of the others that it met still has its bottleneck. One that has not is
// filled as well, and the filling is repeated. It ends when every flow has a bottleneck, which is
// the proof that the result is the one that filling all flows would give.
//
// Units are the caller's (byte/s, byte/ns). Relative precision kPrecision: sums are carried on as
// flows come and go, and rounding of 1e-16 a change stays far below it. Results depend on the order
// of calls alone, never on addresses. Dense arrays, no allocation once they have grown.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace prism::replayer {

using FlowId = uint32_t;
using LinkId = uint32_t;

class MaxMinSolver {
 public:
  static constexpr double kPrecision = 1e-9;

  explicit MaxMinSolver(std::vector<double> capacities);

  // A flow over distinct links, at most at `bound` > 0. Its rate is 0 until Solve. Ids of removed
  // flows are used again.
  FlowId Add(std::span<const LinkId> links, double bound);
  void Remove(FlowId flow);

  // Makes rates fair again. Returns the flows whose rate changed, those added since included; valid
  // until the next call.
  const std::vector<FlowId>& Solve();

  [[nodiscard]] double rate(FlowId flow) const { return flows_[flow].rate; }
  [[nodiscard]] double capacity(LinkId link) const { return links_[link].capacity; }
  [[nodiscard]] uint32_t flows_on(LinkId link) const {
    return static_cast<uint32_t>(links_[link].hops.size());
  }

 private:
  static constexpr LinkId kOwnBound = 0xFFFFFFFFU;
  static constexpr size_t kFewCandidates = 64;  // so many need no heap
  static constexpr uint32_t kEndOfList = 0xFFFFFFFFU;

  struct Flow {
    double rate = 0;
    double bound = 0;
    LinkId bottleneck = kOwnBound;
    uint32_t hop_count = 0;
    uint32_t free_in = 0;  // number of the Solve that fills it
  };

  // One link of one flow. Hops of flow f lie at f * max_links_.
  struct Hop {
    LinkId link = 0;
    uint32_t place = 0;  // index in Link::hops
  };

  struct alignas(64) Link {
    double capacity = 0;
    double demand = 0;          // sum of the bounds of its flows
    double used = 0;            // sum of their rates
    uint32_t bottlenecked = 0;  // flows whose bottleneck it is
    uint32_t touched = 0;       // number of the Solve that looks at it
    uint32_t seeded = 0;        // likewise
    uint32_t local = 0;         // of that Solve: index in touched_
    std::vector<uint32_t> hops;
  };

  // What a Solve looks at lies side by side: flows to fill, the links of these that can fill, and
  // which of the flows cross which of the links.
  struct FreeFlow {
    FlowId flow = 0;
    LinkId filled_at = kOwnBound;
    double bound = 0;
    double filled = 0;  // rate in the filling under way; < 0: none yet
    uint32_t first_hop = 0;
    uint32_t hop_end = 0;
  };

  struct TouchedLink {
    LinkId link = 0;
    uint32_t free = 0;          // flows to fill
    uint32_t open = 0;          // of these, without a rate yet
    uint32_t bottlenecked = 0;  // of the other flows: those whose bottleneck it is
    uint32_t first_hop = kEndOfList;
    double left = 0;      // what flows that are not filled leave
    double unfilled = 0;  // of that, left in the filling under way
    double level = -1;    // rate at which it filled; < 0: it did not
    double highest = 0;   // rate filled on it
  };

  struct FreeHop {
    uint32_t flow = 0;  // index in free_
    uint32_t link = 0;  // index in touched_
    uint32_t next = 0;  // hop of the same link
  };

  struct Candidate {
    double level = 0;
    uint32_t link = 0;  // index in touched_
  };

  [[nodiscard]] FlowId FlowOf(uint32_t hop) const { return hop / max_links_; }
  [[nodiscard]] std::span<const Hop> HopsOf(FlowId flow) const {
    return {hops_.data() + size_t{flow} * max_links_, flows_[flow].hop_count};
  }

  // Whether a link can fill at all. Others need no look: a flow there stops at its bound, or at
  // another link.
  [[nodiscard]] static bool CanFill(const Link& link) {
    return link.demand > link.capacity * (1 + kPrecision);
  }

  void Widen(uint32_t max_links);
  void Seed(LinkId link);
  void Free(FlowId flow);
  void Touch(LinkId link);
  void Fill();
  void SortByBound();
  void CollectCandidates();
  [[nodiscard]] Candidate LowestOfFew(double reached) const;
  Candidate LowestOfHeap();
  void FillFlow(FreeFlow* flow, double level, LinkId at);
  void FillLink(TouchedLink* link, double level);
  bool FreeUnproven();
  bool KeepsBottleneck(const Flow& flow, const TouchedLink& link) const;
  void Commit();
  void FreeBottlenecked(LinkId link);

  uint32_t max_links_ = 4;  // of a flow so far; grows
  uint32_t solve_ = 1;      // number of the Solve to come
  std::vector<Flow> flows_;
  std::vector<Hop> hops_;
  std::vector<Link> links_;
  std::vector<FlowId> unused_;  // removed flows
  std::vector<FlowId> added_;   // since the last Solve
  std::vector<LinkId> seeds_;   // links of flows added or removed since
  std::vector<FreeFlow> free_;
  std::vector<TouchedLink> touched_;
  std::vector<FreeHop> free_hops_;
  double lowest_bound_ = 0;         // of flows in free_
  double highest_bound_ = 0;        // likewise
  std::vector<uint32_t> by_bound_;  // indices in free_
  std::vector<Candidate> filling_;  // links that may fill; a heap of many, lowest level first
  std::vector<FlowId> changed_;
};

}  // namespace prism::replayer
