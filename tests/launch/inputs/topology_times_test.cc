// What ASTRA-sim's own log says of an all_reduce of 1 MiB on its H100 example, by hand: 400 GB/s of
// 2^30 byte, hops of 936.25 ns, four pieces of which two are under way, 10 ns at an end.
#include "launch/inputs/topology_times.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prism::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kGigabyte = 1 << 30;

std::string SystemText(const std::string& algorithm, const std::string& more = "") {
  return R"({"preferred-dataset-splits": 4, "active-chunks-per-dimension": 2,
      "endpoint-delay": 10, "collective-optimization": "localBWAware",
      "all-reduce-implementation": [")" +
         algorithm + "\"]" + more + "}";
}

double Microseconds(const slicer::AstraNetwork& network, const std::string& system) {
  slicer::Notes notes;
  const Result<AstraSystem> parsed = ParseAstraSystem(system, "s.json", &notes);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  std::vector<uint32_t> members;
  for (uint32_t rank = 0; rank < 8; ++rank) {
    members.push_back(rank);
  }
  graph::CollectiveShape shape;
  shape.kind = graph::CollectiveKind::kAllReduce;
  shape.bytes = 1 << 20;
  return SecondsOnTopology(network, parsed.ok() ? *parsed : AstraSystem(), shape, members) * 1e6;
}

slicer::AstraNetwork Network(const std::string& topology) {
  return {{topology}, {8}, {400 * kGigabyte}, {936.25e-9}};
}

TEST(TopologyTimes, are_those_of_the_simulators_log) {
  EXPECT_NEAR(Microseconds(Network("Ring"), SystemText("ring")), 28.6, 0.1);
  EXPECT_NEAR(Microseconds(Network("FullyConnected"), SystemText("direct")), 4.12, 0.05);
  EXPECT_NEAR(Microseconds(Network("FullyConnected"), SystemText("ring")), 28.6, 0.1);
  // Two hops a message.
  EXPECT_NEAR(Microseconds(Network("Switch"), SystemText("ring")), 28.6 + 28 * 0.936, 0.1);
}

TEST(TopologyTimes, algorithms_take_the_steps_that_they_have) {
  const double hop = 0.93625 + 0.01;
  const double eighth = (1 << 15) / (400 * kGigabyte) * 1e6;  // of a piece
  EXPECT_NEAR(Microseconds(Network("FullyConnected"), SystemText("direct4")),
              2 * 4 * (hop + eighth), 1e-3);
  EXPECT_NEAR(Microseconds(Network("FullyConnected"), SystemText("halvingDoubling")),
              2 * (6 * hop + 14 * eighth), 1e-3);
  EXPECT_NEAR(Microseconds(Network("FullyConnected"), SystemText("doubleBinaryTree")),
              2 * 6 * (hop + 8 * eighth), 1e-3);
  const slicer::AstraNetwork two = {
      {"Ring", "Ring"}, {4, 2}, {400 * kGigabyte, 200 * kGigabyte}, {1e-6, 2e-6}};
  // In fours, then in twos of a fourth; the second half of the pieces behind the longest phase.
  const double fours = 2 * 3 * (1.01 + 2 * eighth);
  const double twos = 2 * (2.01 + 2 * eighth);
  EXPECT_NEAR(Microseconds(two, SystemText("ring")), 2 * fours + twos, 1e-3);
  EXPECT_NEAR(Microseconds(two, SystemText("oneRing")), 2 * 14 * (2.01 + 2 * eighth), 1e-3);
}

TEST(TopologyTimes, system_files_that_name_what_is_not_there_are_refused) {
  slicer::Notes notes;
  EXPECT_EQ(ParseAstraSystem(SystemText("torus"), "s.json", &notes).status().message(),
            "s.json: all-reduce-implementation 'torus' is no algorithm of it; ring, direct, "
            "halvingDoubling and doubleBinaryTree are known");
  EXPECT_THAT(ParseAstraSystem(SystemText("direct0"), "s.json", &notes).status().message(),
              HasSubstr("'direct0'"));
  EXPECT_THAT(
      ParseAstraSystem(R"({"preferred-dataset-splits": 0})", "s.json", &notes).status().message(),
      HasSubstr("preferred-dataset-splits is 0"));
  EXPECT_FALSE(ParseAstraSystem("ring", "s.json", &notes).ok());
  EXPECT_TRUE(
      ParseAstraSystem(SystemText("ring", R"(, "local-mem-bw": 1600)"), "s.json", &notes).ok());
  EXPECT_TRUE(notes.Lines().empty());
  EXPECT_TRUE(ParseAstraSystem(SystemText("ring", R"(, "inj": 16)"), "s.json", &notes).ok());
  EXPECT_THAT(notes.Lines(), ElementsAre("inj of the system file does not act here: 1"));
  EXPECT_THAT(ParseAstraSystem(R"({"roofline-enabled": 1})", "s.json", &notes).status().message(),
              HasSubstr("needs peak-perf and local-mem-bw"));
}

}  // namespace
}  // namespace prism::launch
