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
// reaches its bound, those flows stop there and the others continue.
//
//   Links A (capacity 10) and B (capacity 8). Flow 1 crosses A, flow 2 crosses A and B, flow 3
//   crosses B and is bounded by 2.
//     level 2: flow 3 stops at its bound. Left: A 10 - 2*2 = 6 for two flows, B 8 - 2*2 = 4 for
//     one. level 5: A is full (5 + 5), flows 1 and 2 stop there; B carries 5 + 2 of 8.
//   Rates 5, 5, 2; bottlenecks A, A, its bound.
//   When flow 1 leaves: flow 2 rises to 6, where B is full (6 + 2); its bottleneck is B.
//
// Incremental. When flows come and go, rates change only near them. Solve opens the flows whose
// bottleneck is a link of a changed flow, and fills only these into what the others leave, lowest
// level first. Two things open more flows on the way:
//   - a link fills at a level below the rate of another flow on it: that flow has to give way;
//   - a flow stops below its previous rate: its other links may now have room for the flows whose
//     bottleneck they are.
// Either had a rate of at least the level reached, so nothing filled before is taken back and no
// flow is filled twice. In the end every flow has a bottleneck, which proves that the result is the
// one that filling all flows would give.
//
// Units are the caller's (byte/s, byte/ns). Relative precision kPrecision: sums are carried along
// as flows come and go, and rounding of 1e-16 per change stays far below it. Results depend only on
// the order of calls, never on addresses. Dense arrays, no allocation once they have grown.
//
// Speed. A change concerns about five flows of three links each, so its cost is mispredicted
// branches: the loops over links and flows choose by conditional moves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "replayer/network/levels.h"

namespace prism::replayer {

using FlowId = uint32_t;
using LinkId = uint32_t;

class MaxMinSolver {
 public:
  static constexpr double kPrecision = 1e-9;

  explicit MaxMinSolver(std::vector<double> capacities);

  // A flow over distinct links, with a rate of at most `bound` > 0. Its rate is 0 until Solve. Ids
  // of removed flows are reused.
  FlowId Add(std::span<const LinkId> links, double bound);
  void Remove(FlowId flow);

  // Makes rates fair again. Returns the flows whose rate changed, those added since included; valid
  // until the next call.
  const std::vector<FlowId>& Solve();

  [[nodiscard]] double rate(FlowId flow) const { return flows_[flow].rate; }
  [[nodiscard]] uint32_t flows_on(LinkId link) const {
    return static_cast<uint32_t>(links_[link].hops.size());
  }

 private:
  static constexpr LinkId kOwnBound = 0xFFFFFFFFU;

  struct Flow {
    double rate = 0;
    double bound = 0;
    LinkId bottleneck = kOwnBound;
    uint32_t hop_count = 0;
    uint32_t opened = 0;  // number of the Solve that fills it
    uint32_t local = 0;   // of that Solve: index in opened_
    bool open = false;    // without a rate yet
  };

  // One link of one flow. Hops of flow f begin at f << hop_bits_.
  struct Hop {
    LinkId link = 0;
    uint32_t place = 0;  // index in Link::hops
  };

  struct alignas(64) Link {
    double capacity = 0;
    double used = 0;            // sum of the rates of its flows that are not open
    uint32_t open = 0;          // flows
    uint32_t bottlenecked = 0;  // flows whose bottleneck it is; an open one has none
    uint32_t seeded = 0;        // number of the Solve that starts from it
    uint32_t touched = 0;       // number of the Solve that looks at it
    uint32_t local = 0;         // of that Solve: index in touched_
    std::vector<uint32_t> hops;
  };

  [[nodiscard]] FlowId FlowOf(uint32_t hop) const { return hop >> hop_bits_; }
  [[nodiscard]] std::span<const Hop> HopsOf(FlowId flow) const {
    return {hops_.data() + (size_t{flow} << hop_bits_), flows_[flow].hop_count};
  }

  void Widen();
  void Seed(LinkId link);
  void Open(FlowId flow);
  void OpenHops(FlowId flow);
  void OpenBottlenecked(LinkId link);
  void Fill();
  void FillLink(LinkId link, double level);
  void Stop(FlowId flow, LinkId at);
  [[nodiscard]] double LevelOf(const Link& link) const;

  uint32_t hop_bits_ = 2;  // room for the links of a flow; grows
  uint32_t solve_ = 1;     // number of the next Solve
  std::vector<Flow> flows_;
  std::vector<Hop> hops_;
  std::vector<Link> links_;
  std::vector<FlowId> unused_;  // removed flows
  std::vector<FlowId> added_;   // since the last Solve
  std::vector<LinkId> seeds_;   // links of flows added or removed since
  std::vector<FlowId> changed_;

  // Of the filling in progress.
  double level_ = 0;                // reached
  uint32_t open_ = 0;               // flows
  std::vector<FlowId> opened_;      // flows, some of which have stopped
  Levels bounds_;                   // of these, while they are open
  double lowest_bound_ = 0;         // or lower
  std::vector<LinkId> touched_;     // links of these
  Levels levels_;                   // at which these fill, if no other flow gives way
  std::vector<FlowId> stopping_;    // storage
  std::vector<FlowId> giving_way_;  // storage
};

}  // namespace prism::replayer
