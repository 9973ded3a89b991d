#include "launch/emulate/sandbox/process_group.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "launch/emulate/sandbox/guard.h"

namespace prism::launch {
namespace {

// The file in which a torch data-loader worker with that process id would pass a batch.
std::string BatchOf(pid_t process) {
  return "/dev/shm/torch_" + std::to_string(process) + "_prism_test_0";
}

// A search for what a run has left behind must not find the guard.
TEST(ProcessGroup, a_guard_is_gone_before_its_owner_ends_in_order) {
  const pid_t owner = fork();
  if (owner == 0) {
    int children = 0;
    {
      const Guard guard;
      children += waitpid(-1, nullptr, WNOHANG) == 0 ? 1 : 0;
    }
    const bool is_gone = waitpid(-1, nullptr, WNOHANG) < 0;
    _exit(children == 1 && is_gone ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(owner, &status, 0), owner);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// Runs `sleep` in its own session with that variable in its environment.
pid_t StartSleep(const std::string& variable) {
  const pid_t process = fork();
  if (process == 0) {
    setsid();
    std::string entry = variable;
    std::array<char*, 2> environment = {entry.data(), nullptr};
    execle("/bin/sleep", "sleep", "1000", nullptr, environment.data());
    _exit(127);
  }
  return process;
}

// A process with the same id, in a container whose processes are visible here, may have programs
// too.
TEST(ProcessGroup, a_guard_ends_the_programs_of_its_owner_alone) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::array<int, 2> ends = {-1, -1};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    Guard guard;
    const std::array<pid_t, 2> started = {
        StartSleep(std::string(kGuardVariable) + "=" + guard.mark()),
        StartSleep("PRISM_CHANNEL_PATH=/proc/" + std::to_string(getpid()) + "/fd/5")};
    guard.Watch(started[0]);
    std::ofstream(BatchOf(started[0])) << "batch";
    const bool written = write(ends[1], started.data(), sizeof(started)) == sizeof(started);
    // Gone before the guard looks, like a program whose parent has died.
    kill(started[0], written ? SIGKILL : SIGTERM);
    waitpid(started[0], nullptr, 0);
    const pid_t child = StartSleep(std::string(kGuardVariable) + "=" + guard.mark());
    kill(getpid(), write(ends[1], &child, sizeof(child)) == sizeof(child) ? SIGKILL : SIGTERM);
  }
  std::array<pid_t, 3> started = {};
  ASSERT_EQ(read(ends[0], started.data(), 2 * sizeof(pid_t)), ssize_t{2 * sizeof(pid_t)});
  ASSERT_EQ(read(ends[0], &started[2], sizeof(pid_t)), ssize_t{sizeof(pid_t)});
  ASSERT_EQ(waitpid(owner, nullptr, 0), owner);
  pid_t ended = 0;
  for (int look = 0; look < 1'000 && ended != started[2]; ++look) {
    usleep(10'000);
    ended = waitpid(started[2], nullptr, WNOHANG);
  }
  EXPECT_EQ(ended, started[2]) << "its sleep goes on";
  for (int look = 0; look < 1'000 && std::filesystem::exists(BatchOf(started[0])); ++look) {
    usleep(10'000);
  }
  EXPECT_FALSE(std::filesystem::exists(BatchOf(started[0])));
  EXPECT_EQ(waitpid(started[1], nullptr, WNOHANG), 0) << "another's has ended";
  kill(started[1], SIGKILL);
  kill(started[2], SIGKILL);
  while (waitpid(-1, nullptr, 0) > 0) {
  }
  std::filesystem::remove(BatchOf(started[0]));
}

TEST(ProcessGroup, kill_takes_batches_of_killed_workers_along) {
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

// Makes shared memory under a name and maps it.
void Name(const std::string& name) {
  const int descriptor = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_GE(descriptor, 0);
  ASSERT_EQ(ftruncate(descriptor, 4096), 0);
  ASSERT_NE(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, descriptor, 0), MAP_FAILED);
  close(descriptor);
}

TEST(ProcessGroup, kill_takes_names_of_shared_memory_along_that_nobody_else_has) {
  const std::string own = "/prism_test_" + std::to_string(getpid());
  const std::string before = own + "_before";
  const std::string shared = own + "_shared";
  const pid_t watcher = fork();  // NamedMemory() as of now, whatever other tests have created
  if (watcher == 0) {
    Name(before);
    AdoptOrphans();
    Name(shared);
    std::array<int, 2> ends = {-1, -1};
    const bool piped = pipe(ends.data()) == 0;
    const pid_t child = fork();
    if (child == 0) {
      setpgid(0, 0);
      for (const std::string& name : {before, shared, own}) {
        Name(name);
      }
      const ssize_t written = write(ends[1], "!", 1);
      while (written > 0) {
        pause();
      }
    }
    char ready = 0;
    const bool started = piped && read(ends[0], &ready, 1) == 1;
    KillProcessGroup(child);
    _exit(started && waitpid(child, nullptr, 0) == child ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(watcher, &status, 0), watcher);
  EXPECT_EQ(status, 0);
  EXPECT_NE(shm_unlink(own.c_str()), 0) << "left behind";
  EXPECT_EQ(shm_unlink(before.c_str()), 0) << "was there before";
  EXPECT_EQ(shm_unlink(shared.c_str()), 0) << "another has it";
}

// A child leaves behind a process with its own session, which has a child in turn.
TEST(ProcessGroup, kill_orphans_ends_what_left_its_group) {
  const std::set<pid_t> others = AdoptOrphans();
  std::array<int, 2> ends = {-1, -1};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (fork() == 0) {
      setsid();
      fork();
      const pid_t self = getpid();
      const ssize_t written = write(ends[1], &self, sizeof(self));
      while (written > 0) {
        pause();
      }
    }
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  std::vector<pid_t> orphans;
  for (int i = 0; i < 2; ++i) {
    pid_t orphan = 0;
    ASSERT_EQ(read(ends[0], &orphan, sizeof(orphan)), static_cast<ssize_t>(sizeof(orphan)));
    orphans.push_back(orphan);
  }
  KillOrphans(others);
  for (const pid_t orphan : orphans) {
    EXPECT_NE(kill(orphan, 0), 0);
  }
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace prism::launch
