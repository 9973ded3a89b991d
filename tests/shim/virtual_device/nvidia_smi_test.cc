// nvidia-smi of the virtual device (shim/virtual_device/nvidia_smi.cc), outside of any run: a node
// of eight H100.
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prism::shim {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Answer {
  int exit_code = -1;
  std::string text;
};

Answer Ask(const std::string& options) {
  Answer answer;
  FILE* const pipe = popen((std::string(PRISM_NVIDIA_SMI " ") + options + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer = {};
  for (size_t got = 0; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    answer.text.append(buffer.data(), got);
  }
  answer.exit_code = WEXITSTATUS(pclose(pipe));
  return answer;
}

TEST(NvidiaSmi, lists_the_gpus_of_the_node) {
  const Answer answer = Ask("-L");
  EXPECT_EQ(answer.exit_code, 0);
  EXPECT_THAT(answer.text, StartsWith("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-"));
  EXPECT_THAT(answer.text, HasSubstr("GPU 7: "));
  EXPECT_THAT(Ask("").text, HasSubstr("MiB /  81559MiB"));
}

TEST(NvidiaSmi, answers_queries_and_has_no_sensors) {
  EXPECT_EQ(
      Ask("--query-gpu=index,name,memory.total,temperature.gpu --format=csv,noheader,nounits -i 3")
          .text,
      "3, NVIDIA H100 80GB HBM3, 81559, [N/A]\n");
  EXPECT_EQ(Ask("--query-gpu compute_cap,memory.total --format=csv --id=0").text,
            "compute_cap, memory.total [MiB]\n9.0, 81559 MiB\n");
  EXPECT_EQ(Ask("--query-compute-apps=pid,used_memory --format=csv").text, "pid, used_memory\n");
}

TEST(NvidiaSmi, refuses_what_it_does_not_know) {
  EXPECT_EQ(Ask("topo -m").exit_code, 2);
  EXPECT_EQ(Ask("topo -m").text, "the virtual device has no nvidia-smi topo\n");
  EXPECT_EQ(Ask("-L -i 8").text, "No devices were found\n");
}

}  // namespace
}  // namespace prism::shim
