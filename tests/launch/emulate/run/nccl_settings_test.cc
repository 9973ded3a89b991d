// Settings of NCCL in the environment.
#include "launch/emulate/run/nccl_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prism::launch {
namespace {

TEST(NcclSettings, those_that_steer_are_named_in_order) {
  const char* const environment[] = {"HOME=/root", "NCCL_PROTO=Simple", "NCCL_DEBUG=INFO",
                                     "NCCL_ALGO=Tree", nullptr};
  std::vector<graph::Warning> warnings;
  WarnOfNcclSettings(environment, &warnings);
  const graph::Warning expected = {"nccl_settings_left_out", 2,
                                   "NCCL_ALGO=Tree, NCCL_PROTO=Simple"};
  EXPECT_THAT(warnings, testing::ElementsAre(expected));
}

TEST(NcclSettings, what_nccl_prints_is_no_matter) {
  const char* const environment[] = {"NCCL_DEBUG=INFO", "NCCL_VERSION=2.28", "TORCH_NCCL_X=1",
                                     nullptr};
  std::vector<graph::Warning> warnings;
  WarnOfNcclSettings(environment, &warnings);
  EXPECT_TRUE(warnings.empty());
}

}  // namespace
}  // namespace prism::launch
