// A program that reads clocks, sleeps and waits; started by clock_test under the preload. Prints
// one "name value" line per observation. Times are in milliseconds of the program's own clocks.
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <future>
#include <mutex>
#include <thread>

namespace {

using std::chrono::milliseconds;

long long Milliseconds(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1'000'000;
}

timespec PointAfterNow(clockid_t clock, long nanoseconds) {
  timespec point = {};
  clock_gettime(clock, &point);
  point.tv_nsec += nanoseconds;
  if (point.tv_nsec >= 1'000'000'000) {
    point.tv_nsec -= 1'000'000'000;
    ++point.tv_sec;
  }
  return point;
}

void Show(const char* name, long long value) {
  std::printf("%s %lld\n", name, value);
}

template <typename Work>
long long Elapsed(const Work& work) {
  const long long start = Milliseconds(CLOCK_MONOTONIC);
  work();
  return Milliseconds(CLOCK_MONOTONIC) - start;
}

// The only device call: the worker answers it with a later host time.
void Synchronise() {
  using Function = int();
  reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, "cudaDeviceSynchronize"))();
}

void ShowClocks() {
  const time_t seconds = time(nullptr);
  timeval day = {};
  gettimeofday(&day, nullptr);
  const long long cpu = Milliseconds(CLOCK_PROCESS_CPUTIME_ID);
  const long long monotonic = Milliseconds(CLOCK_MONOTONIC);
  Synchronise();
  timeval later = {};
  gettimeofday(&later, nullptr);
  Show("time", time(nullptr) - seconds);
  Show("gettimeofday", later.tv_sec - day.tv_sec);
  Show("monotonic", Milliseconds(CLOCK_MONOTONIC) - monotonic);
  Show("cpu_below_a_second", Milliseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu < 1000 ? 1 : 0);
}

// Sleeps of the thread that issues ops: virtual time only.
void ShowSleeps() {
  Show("sleep", Elapsed([] { sleep(3); }));
  Show("usleep", Elapsed([] { usleep(250'000); }));
  Show("sleep_for", Elapsed([] { std::this_thread::sleep_for(milliseconds(1500)); }));
  Show("absolute_sleep", Elapsed([] {
         timespec deadline = {};
         clock_gettime(CLOCK_MONOTONIC, &deadline);
         deadline.tv_sec += 2;
         clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr);
       }));
}

// Waits in vain of the thread that issues ops: the deadline is reached in virtual time.
void ShowWaits() {
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock<std::mutex> lock(mutex);
  Show("wait_for",
       Elapsed([&] { condition.wait_for(lock, milliseconds(20), [] { return false; }); }));
  Show("system_wait", Elapsed([&] {
         condition.wait_until(lock, std::chrono::system_clock::now() + milliseconds(20),
                              [] { return false; });
       }));
  std::promise<void> never;
  Show("future_wait_for", Elapsed([&] { never.get_future().wait_for(milliseconds(20)); }));
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  const timespec deadline = PointAfterNow(CLOCK_REALTIME, 20'000'000);
  Show("sem_timedwait_fails", sem_timedwait(&semaphore, &deadline) == -1 ? 1 : 0);
}

// Waits in vain for a pipe: each reaches its time-out, in virtual time as well.
void ShowDescriptorWaits() {
  int ends[2] = {};
  if (pipe(ends) != 0) {
    return;
  }
  pollfd polled = {.fd = ends[0], .events = POLLIN, .revents = 0};
  const timespec duration = {.tv_sec = 0, .tv_nsec = 20'000'000};
  Show("poll", Elapsed([&] { poll(&polled, 1, 20); }));
  Show("ppoll", Elapsed([&] { ppoll(&polled, 1, &duration, nullptr); }));
  fd_set readable;
  FD_ZERO(&readable);
  Show("select", Elapsed([&] {
         timeval timeout = {.tv_sec = 0, .tv_usec = 20'000};
         FD_SET(ends[0], &readable);
         select(ends[0] + 1, &readable, nullptr, nullptr, &timeout);
       }));
  Show("pselect", Elapsed([&] {
         FD_SET(ends[0], &readable);
         pselect(ends[0] + 1, &readable, nullptr, nullptr, &duration, nullptr);
       }));
  const int epoll = epoll_create1(0);
  epoll_event event = {};
  Show("epoll_wait", Elapsed([&] { epoll_wait(epoll, &event, 1, 20); }));
  Show("epoll_pwait", Elapsed([&] { epoll_pwait(epoll, &event, 1, 20, nullptr); }));
  Show("epoll_pwait2", Elapsed([&] { epoll_pwait2(epoll, &event, 1, &duration, nullptr); }));
  if (write(ends[1], "", 1) == 1) {
    Show("poll_of_ready", Elapsed([&] { poll(&polled, 1, 20); }));
  }
  for (const int descriptor : {epoll, ends[0], ends[1]}) {
    close(descriptor);
  }
}

// Does nothing but read the clock until a time has come.
void ShowSpin() {
  Show("spin", Elapsed([] {
         const auto end = std::chrono::steady_clock::now() + milliseconds(20);
         while (std::chrono::steady_clock::now() < end) {
         }
       }));
}

// Sleeps until a point in time, in steps that floating point does not hold exactly.
void ShowSleepLoop() {
  const auto seconds = [] {
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  const double start = seconds();
  int sleeps = 0;
  for (; seconds() - start < 0.3; ++sleeps) {
    usleep(50'000);
  }
  Show("sleeps_until_300_ms", sleeps);
}

// Sleeps as Python does: until a clock reading plus the length.
void ShowShortSleeps() {
  for (int sleep = 0; sleep < 3; ++sleep) {
    const timespec deadline = PointAfterNow(CLOCK_MONOTONIC, 50'123);
    for (volatile int spent = 0; spent < 200'000;) {  // by the machine, none of the rank's time
      spent = spent + 1;
    }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr);
  }
}

// Reads the clock and sleeps until 60 ms have passed; returns the number of sleeps.
int SleepsUntil60Ms() {
  const long long start = Milliseconds(CLOCK_MONOTONIC);
  int sleeps = 0;
  for (; Milliseconds(CLOCK_MONOTONIC) - start < 60 && sleeps < 1000; ++sleeps) {
    usleep(20'000);
  }
  return sleeps;
}

// A forked child, and a program that is started, sleep for real. Neither would end its loop if its
// clock stood still.
void ShowChildren(const char* self) {
  const auto real_ms = [] {  // the machine's time, whatever the clocks show
    timespec now = {};
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1'000'000;
  };
  for (const bool starts : {false, true}) {
    const long long start = real_ms();
    const pid_t child = fork();
    if (child == 0) {
      if (starts) {
        execl(self, self, "child", nullptr);
      }
      _exit(SleepsUntil60Ms());
    }
    int status = 0;
    waitpid(child, &status, 0);
    Show(starts ? "started_sleeps" : "forked_sleeps", WEXITSTATUS(status));
    Show(starts ? "started_for_real" : "forked_for_real", real_ms() - start >= 50 ? 1 : 0);
  }
}

// Asks whether a child has ended, as Python's subprocess does when it waits with a time-out.
void ShowChildThatIsAwaited() {
  const pid_t child = fork();
  if (child == 0) {
    usleep(100'000);
    _exit(0);
  }
  const long long start = Milliseconds(CLOCK_MONOTONIC);
  int sleeps = 0;
  for (; waitpid(child, nullptr, WNOHANG) == 0 && sleeps < 1000; ++sleeps) {
    usleep(20'000);
  }
  Show("sleeps_until_child_ends", sleeps);
  Show("child_awaited_for", Milliseconds(CLOCK_MONOTONIC) - start);
}

// A thread that issues nothing waits in real time and sees the same clock, ahead by what it has
// slept itself: a jump of the clock ends its wait at the next reading, and never hangs it.
void ShowWatcher() {
  std::promise<long long> slept;
  std::thread watcher([&slept] {
    slept.set_value(Elapsed([] { std::this_thread::sleep_for(milliseconds(30)); }));
  });
  Show("watcher_sleep", slept.get_future().get());
  watcher.join();
  std::thread([] { Show("watcher_sleeps_until_60_ms", SleepsUntil60Ms()); }).join();
  std::thread([] {
    std::mutex mutex;
    std::condition_variable condition;
    std::unique_lock<std::mutex> lock(mutex);
    Show("watcher_wait_for",
         Elapsed([&] { condition.wait_for(lock, milliseconds(20), [] { return false; }); }));
  }).join();
  std::mutex mutex;
  std::condition_variable condition;
  bool stop = false;
  std::thread looper([&] {
    std::unique_lock<std::mutex> lock(mutex);
    condition.wait_for(lock, milliseconds(5000), [&] { return stop; });
  });
  Synchronise();  // ten seconds later in virtual time
  {
    const std::lock_guard<std::mutex> lock(mutex);
    stop = true;
  }
  condition.notify_all();
  looper.join();
}

// A thread with the name and the loop of c10d's watchdog checks while the rank sleeps, by a clock
// that the sleep has not advanced yet.
void ShowWatchdog() {
  std::mutex mutex;
  std::condition_variable condition;
  bool ends = false;
  std::atomic<int> looks{0};
  std::atomic<long long> looked_ms{0};
  std::thread watchdog([&] {
    pthread_setname_np(pthread_self(), "pt_nccl_watchdg");
    std::unique_lock<std::mutex> lock(mutex);
    while (!condition.wait_for(lock, milliseconds(100), [&] { return ends; })) {
      looked_ms = Milliseconds(CLOCK_MONOTONIC);
      ++looks;
    }
  });
  int asked = 0;
  for (; looks == 0; ++asked) {
    usleep(100'000);
  }
  const int before = looks;
  const long long start = Milliseconds(CLOCK_MONOTONIC);
  sleep(3);
  Show("watchdog_asked", asked);
  Show("watchdog_looked_after", looked_ms - start);
  Show("watchdog_looks", looks - before);
  {
    const std::lock_guard<std::mutex> lock(mutex);
    ends = true;
  }
  condition.notify_all();
  watchdog.join();
}

// A thread of autograd that releases something after it has told that its pass is over, then waits
// for the next pass.
void ShowBackwardThread() {
  std::mutex mutex;
  std::condition_variable condition;
  bool is_over = false;
  bool ends = false;
  std::atomic<int> released{0};
  std::unique_lock<std::mutex> waiting(mutex);
  std::thread backward([&] {
    pthread_setname_np(pthread_self(), "pt_autograd_0");
    std::unique_lock<std::mutex> lock(mutex);
    is_over = true;
    lock.unlock();
    condition.notify_all();
    poll(nullptr, 0, 20);
    ++released;
    lock.lock();
    condition.wait(lock, [&] { return ends; });
  });
  condition.wait(waiting, [&] { return is_over; });
  waiting.unlock();
  Show("backward_thread_released", released);
  waiting.lock();
  ends = true;
  waiting.unlock();
  condition.notify_all();
  backward.join();
}

}  // namespace

int main(int count, char** arguments) {
  const int sleeps = SleepsUntil60Ms();  // before the first op
  if (count > 1) {
    return sleeps;
  }
  Show("sleeps_at_start", sleeps);
  ShowClocks();
  ShowChildren(arguments[0]);
  ShowChildThatIsAwaited();
  ShowSleeps();
  ShowSleepLoop();
  ShowShortSleeps();
  ShowWaits();
  ShowDescriptorWaits();
  ShowSpin();
  ShowWatcher();
  ShowWatchdog();
  ShowBackwardThread();
  return 0;
}
