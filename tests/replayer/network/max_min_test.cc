#include "replayer/network/max_min.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/rng.h"
#include "tests/support/chance.h"

namespace prism::replayer {
namespace {

struct Demand {
  std::vector<LinkId> links;
  double bound = 0;
};

// All rates rise together in steps, each to the next link that fills or bound that is reached;
// every step visits every link and flow.
std::vector<double> FillSimply(const std::vector<double>& capacities,
                               const std::vector<Demand>& demands) {
  std::vector<double> rates(demands.size(), 0);
  std::vector<bool> stopped(demands.size(), false);
  while (std::count(stopped.begin(), stopped.end(), false) > 0) {
    double level = 1e300;
    std::vector<double> left = capacities;
    std::vector<int> open(capacities.size(), 0);
    for (size_t f = 0; f < demands.size(); ++f) {
      level = stopped[f] ? level : std::min(level, demands[f].bound);
      for (const LinkId link : demands[f].links) {
        left[link] -= stopped[f] ? rates[f] : 0;
        open[link] += stopped[f] ? 0 : 1;
      }
    }
    for (size_t link = 0; link < capacities.size(); ++link) {
      level = open[link] > 0 ? std::min(level, left[link] / open[link]) : level;
    }
    for (size_t f = 0; f < demands.size(); ++f) {
      if (stopped[f]) {
        continue;
      }
      rates[f] = level;
      stopped[f] = demands[f].bound <= level * (1 + 1e-12);
      for (const LinkId link : demands[f].links) {
        stopped[f] = stopped[f] || left[link] / open[link] <= level * (1 + 1e-12);
      }
    }
  }
  return rates;
}

TEST(MaxMin, fills_links_and_bounds_as_the_header_works_out) {
  MaxMinSolver solver({10, 8});
  const FlowId one = solver.Add(std::vector<LinkId>{0}, 100);
  const FlowId two = solver.Add(std::vector<LinkId>{0, 1}, 100);
  const FlowId three = solver.Add(std::vector<LinkId>{1}, 2);
  EXPECT_EQ(solver.Solve().size(), 3U);
  EXPECT_DOUBLE_EQ(solver.rate(one), 5);
  EXPECT_DOUBLE_EQ(solver.rate(two), 5);
  EXPECT_DOUBLE_EQ(solver.rate(three), 2);
  solver.Remove(one);
  EXPECT_EQ(solver.Solve(), std::vector<FlowId>{two});
  EXPECT_DOUBLE_EQ(solver.rate(two), 6);
}

// Three links of 1: one flow over all, one on each. The long one gets a half, like every other.
TEST(MaxMin, gives_a_long_flow_as_much_as_short_ones) {
  MaxMinSolver solver({1, 1, 1});
  const FlowId whole = solver.Add(std::vector<LinkId>{0, 1, 2}, 9);
  for (LinkId link = 0; link < 3; ++link) {
    solver.Add(std::vector<LinkId>{link}, 9);
  }
  solver.Solve();
  for (FlowId flow = 0; flow < 4; ++flow) {
    EXPECT_DOUBLE_EQ(solver.rate(flow), 0.5);
  }
  solver.Remove(whole);
  solver.Solve();
  EXPECT_DOUBLE_EQ(solver.rate(1), 1);
}

TEST(MaxMin, leaves_flows_alone_that_share_nothing_with_the_change) {
  MaxMinSolver solver({1, 1});
  solver.Add(std::vector<LinkId>{0}, 9);
  const FlowId far = solver.Add(std::vector<LinkId>{1}, 9);
  solver.Solve();
  const FlowId next = solver.Add(std::vector<LinkId>{0}, 9);
  const std::vector<FlowId> changed = solver.Solve();
  EXPECT_EQ(std::count(changed.begin(), changed.end(), far), 0);
  EXPECT_EQ(std::count(changed.begin(), changed.end(), next), 1);
}

TEST(MaxMin, takes_ways_longer_than_all_before) {
  MaxMinSolver solver(std::vector<double>(9, 4));
  const FlowId shorter = solver.Add(std::vector<LinkId>{3, 8}, 9);
  const FlowId longer = solver.Add(std::vector<LinkId>{0, 1, 2, 3, 4, 5, 6, 7}, 9);
  solver.Solve();
  EXPECT_DOUBLE_EQ(solver.rate(shorter), 2);
  EXPECT_DOUBLE_EQ(solver.rate(longer), 2);
}

using Flows = std::vector<std::pair<FlowId, Demand>>;

// Crosses each link with probability 0.4; of many links, about 4.
Demand DrawDemand(size_t links, Rng* rng) {
  Demand demand;
  demand.bound = static_cast<double>(rng->UniformInt(1, 6)) / 2;
  for (LinkId link = 0; link < links; ++link) {
    if (testing::Chance(rng, std::min(0.4, 4.0 / static_cast<double>(links)))) {
      demand.links.push_back(link);
    }
  }
  return demand;
}

void ChangeOne(size_t links, MaxMinSolver* solver, Flows* flows, Rng* rng) {
  if (!flows->empty() && testing::Chance(rng, 0.4)) {
    const auto at = rng->UniformInt(0, static_cast<int64_t>(flows->size()) - 1);
    solver->Remove((*flows)[static_cast<size_t>(at)].first);
    flows->erase(flows->begin() + at);
    return;
  }
  const Demand demand = DrawDemand(links, rng);
  flows->emplace_back(solver->Add(demand.links, demand.bound), demand);
}

void ExpectFilled(const std::vector<double>& capacities,
                  const MaxMinSolver& solver,
                  const Flows& flows) {
  std::vector<Demand> demands;
  for (const auto& [id, demand] : flows) {
    demands.push_back(demand);
  }
  const std::vector<double> expected = FillSimply(capacities, demands);
  for (size_t f = 0; f < flows.size(); ++f) {
    ASSERT_NEAR(solver.rate(flows[f].first), expected[f], 1e-9 * expected[f]) << "flow " << f;
  }
}

// Flows come and go on random networks; after every change the rates are those of filling
// everything from scratch.
TEST(MaxMin, agrees_with_filling_everything_after_every_change) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed, "max-min");
    std::vector<double> capacities;
    const bool large = seed % 20 == 0;
    for (int64_t links = large ? 200 : rng.UniformInt(1, 12); links > 0; --links) {
      capacities.push_back(static_cast<double>(rng.UniformInt(1, 8)));
    }
    MaxMinSolver solver(capacities);
    Flows flows;
    for (int step = 0; step < 40; ++step) {
      for (int64_t change = rng.UniformInt(1, large ? 30 : 3); change > 0; --change) {
        ChangeOne(capacities.size(), &solver, &flows, &rng);
      }
      solver.Solve();
      ASSERT_NO_FATAL_FAILURE(ExpectFilled(capacities, solver, flows));
    }
  }
}

}  // namespace
}  // namespace prism::replayer
