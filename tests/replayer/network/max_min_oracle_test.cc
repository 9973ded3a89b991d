// Rates against SimGrid's solver (lmm), an independent implementation: random topologies and flows,
// equal within 1e-6. SimGrid does not report rates, so each is derived from what the flow has left
// after a time in which none ends.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <simgrid/s4u.hpp>

#include "graph/base/rng.h"
#include "replayer/network/max_min.h"
#include "tests/support/chance.h"

namespace prism::replayer {
namespace {

namespace s4u = simgrid::s4u;

struct Demand {
  std::vector<LinkId> links;
  double bound = 0;  // 0: none
};

struct Case {
  std::vector<double> capacities;
  std::vector<Demand> demands;
};

// Up to 40 links and 60 flows over 1 to 6 of them; every third flow is bounded.
Case DrawCase(uint64_t seed) {
  Rng rng(seed, "max-min oracle");
  Case drawn;
  for (int64_t links = rng.UniformInt(2, 40); links > 0; --links) {
    drawn.capacities.push_back(1e9 * (0.1 + rng.UniformReal()));
  }
  for (int64_t flows = rng.UniformInt(1, 60); flows > 0; --flows) {
    Demand demand;
    const int64_t length = rng.UniformInt(1, 6);
    for (int64_t i = 0; i < length; ++i) {
      const auto link =
          static_cast<LinkId>(rng.UniformInt(0, static_cast<int64_t>(drawn.capacities.size()) - 1));
      if (std::ranges::count(demand.links, link) == 0) {
        demand.links.push_back(link);
      }
    }
    demand.bound = testing::Chance(&rng, 0.3) ? 1e8 * (0.05 + rng.UniformReal()) : 0;
    drawn.demands.push_back(demand);
  }
  return drawn;
}

// One simulation holds all cases, each on separate links and hosts, so that they do not interact.
class Oracle {
 public:
  Oracle() : engine_("max_min_oracle_test") {
    for (const char* config :
         {"network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0",
          "network/bandwidth-factor:1", "network/latency-factor:1", "network/weight-S:0",
          "maxmin/precision:1e-11"}) {
      s4u::Engine::set_config(config);
    }
    zone_ = s4u::create_full_zone("zone");
  }

  void Add(const Case& drawn) {
    const std::string name = "case" + std::to_string(cases_++);
    std::vector<const s4u::Link*> links;
    for (size_t i = 0; i < drawn.capacities.size(); ++i) {
      links.push_back(
          zone_->create_link(name + "-" + std::to_string(i), drawn.capacities[i])->seal());
    }
    for (size_t i = 0; i < drawn.demands.size(); ++i) {
      const Demand& demand = drawn.demands[i];
      const std::string flow = name + "-flow" + std::to_string(i);
      s4u::Host* from = zone_->create_host(flow + "-from", 1e9);
      s4u::Host* to = zone_->create_host(flow + "-to", 1e9);
      std::vector<s4u::LinkInRoute> way;
      for (const LinkId link : demand.links) {
        way.emplace_back(links[link]);
      }
      if (demand.bound > 0) {  // its bound: a link that nobody else uses
        way.emplace_back(zone_->create_link(flow, demand.bound)->seal());
      }
      zone_->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, way, false);
      pairs_.push_back({from, to});
    }
  }

  // Rates of all flows in the order in which they were added.
  std::vector<double> Rates() {
    zone_->seal();
    constexpr double kBytes = 1e15;
    constexpr double kSeconds = 1;
    std::vector<double> rates(pairs_.size());
    s4u::Actor::create("observer", pairs_.front().from, [&] {
      std::vector<s4u::CommPtr> flows;
      for (const Pair& pair : pairs_) {
        s4u::CommPtr flow = s4u::Comm::sendto_init();
        flow->set_payload_size(static_cast<uint64_t>(kBytes));
        flow->set_source(pair.from)->set_destination(pair.to);
        flows.push_back(flow);
      }
      s4u::this_actor::sleep_for(kSeconds);
      for (size_t i = 0; i < flows.size(); ++i) {
        rates[i] = (kBytes - flows[i]->get_remaining()) / kSeconds;
      }
      for (const s4u::CommPtr& flow : flows) {
        flow->cancel();
      }
    });
    engine_.run();
    return rates;
  }

 private:
  struct Pair {
    s4u::Host* from;
    s4u::Host* to;
  };

  s4u::Engine engine_;
  s4u::NetZone* zone_ = nullptr;
  int cases_ = 0;
  std::vector<Pair> pairs_;
};

TEST(MaxMinOracle, gives_the_rates_of_simgrid) {
  constexpr uint64_t kCases = 100;
  std::vector<double> expected;
  Oracle oracle;
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    const Case drawn = DrawCase(seed);
    oracle.Add(drawn);
    MaxMinSolver solver(drawn.capacities);
    std::vector<FlowId> flows;
    for (const Demand& demand : drawn.demands) {
      flows.push_back(solver.Add(demand.links, demand.bound > 0 ? demand.bound : 1e18));
      solver.Solve();  // one by one, to test the incremental part as well
    }
    for (const FlowId flow : flows) {
      expected.push_back(solver.rate(flow));
    }
  }
  const std::vector<double> rates = oracle.Rates();
  ASSERT_EQ(rates.size(), expected.size());
  for (size_t i = 0; i < rates.size(); ++i) {
    ASSERT_NEAR(rates[i], expected[i], 1e-6 * expected[i]) << "flow " << i;
  }
}

}  // namespace
}  // namespace prism::replayer
