#include "launch/sandbox/process_group.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace prism::launch {
namespace {

// The file that a data-loader worker of torch with that process id would pass a batch in.
std::string BatchOf(pid_t process) {
  return "/dev/shm/torch_" + std::to_string(process) + "_prism_test_0";
}

TEST(ProcessGroup, Kill_takes_batches_of_killed_workers_along) {
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    for (;;) {
      pause();
    }
  }
  setpgid(child, child);
  const std::string others = BatchOf(getpid());
  std::ofstream(BatchOf(child)) << "batch";
  std::ofstream(others) << "batch";
  KillProcessGroup(child);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(std::filesystem::exists(BatchOf(child)));
  EXPECT_TRUE(std::filesystem::remove(others)) << "not of the group";
}

}  // namespace
}  // namespace prism::launch
