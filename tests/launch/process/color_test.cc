#include "launch/process/color.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>

#include <gtest/gtest.h>

namespace prism::launch {
namespace {

// A terminal, a pipe and a file to write to.
class Colors : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm", 1);
    master_ = posix_openpt(O_RDWR | O_NOCTTY);
    if (master_ < 0 || grantpt(master_) != 0 || unlockpt(master_) != 0) {
      GTEST_SKIP() << "no terminals on this machine";
    }
    terminal_ = open(ptsname(master_), O_RDWR | O_NOCTTY);
    ASSERT_EQ(isatty(terminal_), 1);
    ASSERT_EQ(pipe(pipe_.data()), 0);
    std::string name = testing::TempDir() + "/color-XXXXXX";
    file_ = mkstemp(name.data());
    ASSERT_GE(file_, 0);
    unlink(name.c_str());
  }

  void TearDown() override {
    for (const int descriptor : {master_, terminal_, pipe_[0], pipe_[1], file_}) {
      close(descriptor);
    }
    unsetenv("NO_COLOR");
  }

  int master_ = -1;
  int terminal_ = -1;
  std::array<int, 2> pipe_ = {-1, -1};
  int file_ = -1;
};

TEST_F(Colors, are_those_of_a_terminal_unless_the_user_says_otherwise) {
  EXPECT_TRUE(ShowsColor("auto", terminal_));
  EXPECT_FALSE(ShowsColor("auto", pipe_[1]));
  EXPECT_TRUE(ShowsColor("on", pipe_[1]));
  EXPECT_FALSE(ShowsColor("off", terminal_));
  setenv("PMIX_RANK", "0", 1);
  EXPECT_FALSE(ShowsColor("auto", terminal_)) << "which is mpirun's";
  EXPECT_TRUE(ShowsColor("on", terminal_));
  unsetenv("PMIX_RANK");
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(ShowsColor("auto", terminal_));
}

TEST_F(Colors, are_never_in_files_or_where_no_color_is_set) {
  EXPECT_FALSE(ShowsColor("on", file_));
  setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(ShowsColor("auto", terminal_)) << "empty counts as not set";
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(ShowsColor("auto", terminal_));
  EXPECT_FALSE(ShowsColor("on", terminal_));
}

TEST(ColoredSummary, paints_its_head_and_the_label_of_warnings) {
  const std::string plain = "job\n  warnings          3 × odd_group: x\n";
  EXPECT_EQ(ColoredSummary(plain, false), plain);
  EXPECT_EQ(ColoredSummary(plain, true),
            "\033[1mjob\033[0m\n  \033[33mwarnings\033[0m          3 × odd_group: x\n");
  EXPECT_EQ(ColoredSummary("job\n  warnings          none\n", true),
            "\033[1mjob\033[0m\n  warnings          none\n");
}

}  // namespace
}  // namespace prism::launch
