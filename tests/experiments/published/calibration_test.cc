// Calibration finds what a site's runs say, and no more.
#include "experiments/published/calibration.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "launch/inputs/presets.h"

namespace prism::launch {
namespace {

// Seconds of three parts, each of which one factor scales.
struct Parts {
  double compute;
  double network;
  double host;

  [[nodiscard]] double At(const Site& site) const {
    return compute / site.compute + network / site.network + host * site.host;
  }
};

Calibration Fitted(const std::vector<Parts>& runs, const Site& truth) {
  std::vector<double> measured;
  for (const Parts& run : runs) {
    measured.push_back(run.At(truth));
  }
  return *Calibrate(measured, [&](const Site& site) -> Result<std::vector<double>> {
    std::vector<double> seconds;
    for (const Parts& run : runs) {
      seconds.push_back(run.At(site));
    }
    return seconds;
  });
}

TEST(Calibration, runs_that_tell_the_factors_apart_determine_them) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> factor(0.85, 1.18);
  for (int i = 0; i < 100; ++i) {
    const Site truth = {factor(random), factor(random), factor(random)};
    std::vector<Parts> runs;
    for (int repeat = 0; repeat < 40; ++repeat) {
      runs.insert(runs.end(), {{1, 0.01, 0.01}, {0.01, 1, 0.01}, {0.01, 0.01, 1}});
    }
    const Calibration calibration = Fitted(runs, truth);
    EXPECT_NEAR(calibration.site.compute, truth.compute, 0.01);
    EXPECT_NEAR(calibration.site.network, truth.network, 0.01);
    EXPECT_NEAR(calibration.site.host, truth.host, 0.01);
    for (const FittedFactor& fitted : calibration.factors) {
      EXPECT_TRUE(fitted.determined) << fitted.name;
      EXPECT_FALSE(fitted.unlikely) << fitted.name;
      EXPECT_LT(fitted.spread_after, fitted.spread_before / 2);
    }
  }
}

TEST(Calibration, what_no_run_depends_on_stays_and_is_not_determined) {
  const Calibration calibration = Fitted({{1, 0, 0}, {2, 0, 0}, {3, 0, 0}}, {.compute = 0.9});
  EXPECT_NEAR(calibration.site.compute, 0.9, 0.02);
  EXPECT_EQ(calibration.site.network, 1);
  EXPECT_EQ(calibration.site.host, 1);
  EXPECT_TRUE(calibration.factors[0].determined);
  EXPECT_FALSE(calibration.factors[1].determined);
  EXPECT_FALSE(calibration.factors[2].determined);
}

// Half of the time is the host's, of which less is known: it moves most.
TEST(Calibration, one_run_moves_what_is_least_sure) {
  const Calibration calibration = Fitted({{1, 0, 1}}, {.host = 1.4});
  EXPECT_GT(calibration.site.host, 1.3);
  EXPECT_LT(calibration.site.host, 1.4);
  EXPECT_LT(calibration.site.compute, 1);
  EXPECT_GT(calibration.site.compute, 0.97);
  EXPECT_NEAR(calibration.after_s[0], 2.4, 0.03);
}

TEST(Calibration, errors_never_grow_on_the_runs_themselves) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> part(0, 1);
  std::uniform_real_distribution<double> factor(0.6, 1.6);
  for (int i = 0; i < 300; ++i) {
    std::vector<Parts> runs;
    for (int run = 0; run < 1 + i % 4; ++run) {
      runs.push_back({0.05 + part(random), part(random), part(random)});
    }
    const Site truth = {factor(random), factor(random), factor(random)};
    const Calibration calibration = Fitted(runs, truth);
    double before = 0;
    double after = 0;
    for (size_t run = 0; run < runs.size(); ++run) {
      const double measured = runs[run].At(truth);
      before += std::pow(std::log(calibration.before_s[run] / measured), 2);
      after += std::pow(std::log(calibration.after_s[run] / measured), 2);
    }
    EXPECT_LE(after, before + 1e-12) << "case " << i;
  }
}

// Two runs that say the same are believed, however far off; of two that contradict each other the
// one that is as predicted.
TEST(Calibration, one_of_several_runs_may_be_off) {
  for (const double rate : {0.5, 0.75, 1.3}) {
    EXPECT_NEAR(Fitted({{1, 0, 0}, {2, 0, 0}}, {.compute = rate}).site.compute, rate, 0.05 * rate);
  }
  const std::vector<double> measured = {1.01, 2};
  const Calibration calibration = *Calibrate(measured, [](const Site& site) {
    return Result<std::vector<double>>({1 / site.compute, 1 / site.compute});
  });
  EXPECT_NEAR(calibration.after_s[0], 1.01, 0.02);
}

TEST(Calibration, a_run_that_is_another_is_unlikely) {
  EXPECT_TRUE(Fitted({{1, 0, 0}}, {.compute = 0.5}).factors[0].unlikely);
}

TEST(Calibration, a_site_changes_its_parameters_and_says_so) {
  graph::ClusterSpec cluster = *LoadCluster("h100-8x");
  const graph::ParameterTable before = cluster.parameters;
  ApplySite({.compute = 0.9, .network = 3, .host = 2}, "measured here", &cluster);
  for (const graph::Parameter& parameter : cluster.parameters.all()) {
    const double was = before.Value(parameter.key);
    const bool is_host = parameter.key.starts_with("host.") && parameter.unit == "ns";
    const bool is_link =
        !parameter.key.starts_with("gpu.") && parameter.key.ends_with("_efficiency");
    if (parameter.key == "gpu.sustained_clock" || parameter.key == "gpu.hbm_efficiency") {
      EXPECT_DOUBLE_EQ(parameter.value, 0.9 * was);
    } else if (is_link) {
      EXPECT_EQ(parameter.value, std::min(1.0, 3 * was)) << "no link is faster than nominal";
    } else if (is_host) {
      EXPECT_DOUBLE_EQ(parameter.value, 2 * was);
    } else {
      EXPECT_EQ(parameter, *before.Find(parameter.key));
      continue;
    }
    EXPECT_EQ(parameter.source, "measured here");
    EXPECT_EQ(parameter.mark, graph::Mark::kFitted);
  }
  graph::ClusterSpec same = *LoadCluster("h100-8x");
  ApplySite({}, "measured here", &same);
  EXPECT_EQ(same, *LoadCluster("h100-8x"));
}

}  // namespace
}  // namespace prism::launch
