// NCCL's topology files.
#include "launch/inputs/nccl_topology.h"

#include <string>

#include <gtest/gtest.h>

#include "launch/inputs/presets.h"

namespace prism::launch {
namespace {

constexpr const char* kGpu = R"(<pci busid="0000:1b:00.0" class="0x030200" link_speed="32.0 GT/s">
  <gpu dev="0" sm="90" rank="0" gdr="1">
    <nvlink target="0000:08:00.0" count="4" tclass="0x068000"/>
    <nvlink target="0000:06:00.0" count="14" tclass="0x068000"/>
  </gpu></pci>)";

std::string Nic(const std::string& speed) {
  return "<nic><net name=\"mlx5_0\" dev=\"0\" speed=\"" + speed + "\" port=\"1\"/></nic>";
}

TEST(NcclTopology, links_and_nics_of_a_node) {
  std::string text = "<system version=\"1\"><cpu numaid=\"0\">";
  for (int i = 0; i < 4; ++i) {
    text += kGpu + Nic("400000");
  }
  text += Nic("100000") + "</cpu></system>";
  const Result<NcclTopology> topology = ParseNcclTopology(text, "t.xml");
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  EXPECT_EQ(topology->gpus, 4);
  EXPECT_EQ(topology->links, 18);
  EXPECT_EQ(topology->nics, 4);
  EXPECT_EQ(topology->slower_nics, 1);
  EXPECT_EQ(PresetOfCompute(topology->compute), "h100-8x");
  graph::ClusterSpec cluster = *LoadCluster("h100-8x");
  std::vector<std::string> notes;
  UseNcclTopology(*topology, "t.xml", &cluster, &notes);
  EXPECT_EQ(cluster.gpus_per_node, 4);
  EXPECT_EQ(cluster.parameters.Value("net.nvlink_bytes_per_s"), 450e9);
  EXPECT_EQ(cluster.parameters.Value("net.nics_per_node"), 4);
  EXPECT_EQ(cluster.parameters.Value("net.nic_bytes_per_s"), 50e9);
  EXPECT_EQ(notes.size(), 2U);
}

TEST(NcclTopology, a_machine_without_links_keeps_those_of_the_base) {
  const Result<NcclTopology> topology =
      ParseNcclTopology("<system><gpu dev='0' sm=\"89\"/></system>", "t.xml");
  ASSERT_TRUE(topology.ok());
  graph::ClusterSpec cluster = *LoadCluster("l40s-8x");
  const double before = cluster.parameters.Value("net.nvlink_bytes_per_s");
  std::vector<std::string> notes;
  UseNcclTopology(*topology, "t.xml", &cluster, &notes);
  EXPECT_EQ(cluster.parameters.Value("net.nvlink_bytes_per_s"), before);
  EXPECT_EQ(notes.size(), 3U);
}

TEST(NcclTopology, attributes_may_be_in_either_quotes) {
  const Result<NcclTopology> topology = ParseNcclTopology(
      "<system><gpu dev='0' sm='90' note='\"'><nvlink count='18'/></gpu>"
      "<net speed=\"400000\" name='a'/></system>",
      "t.xml");
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  EXPECT_EQ(topology->compute, 90);
  EXPECT_EQ(topology->links, 18);
  EXPECT_EQ(topology->nic_bytes_per_s, 50e9);
}

TEST(NcclTopology, other_files_are_refused) {
  for (const char* const text :
       {"", "<system", "<system></system>", "<gpu dev=\"0\"/>", "<system>\"<gpu =\"\"\"x"}) {
    EXPECT_EQ(ParseNcclTopology(text, "t.xml").status().code(), StatusCode::kBadFile) << text;
  }
}

}  // namespace
}  // namespace prism::launch
