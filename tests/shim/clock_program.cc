// A program that looks at clocks, sleeps and waits; started by clock_test under the preload. Prints
// one "name value" line per observation. Times are in milliseconds of the program's own clocks.
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

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
  timespec deadline = {};
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_nsec += 20'000'000;
  if (deadline.tv_nsec >= 1'000'000'000) {
    deadline.tv_nsec -= 1'000'000'000;
    ++deadline.tv_sec;
  }
  Show("sem_timedwait_fails", sem_timedwait(&semaphore, &deadline) == -1 ? 1 : 0);
}

// A thread that issues nothing waits in real time and sees the same clock: a jump of the clock ends
// its wait at the next look, and never hangs it.
void ShowWatcher() {
  std::promise<long long> slept;
  std::thread watcher([&slept] {
    slept.set_value(Elapsed([] { std::this_thread::sleep_for(milliseconds(30)); }));
  });
  Show("watcher_sleep", slept.get_future().get());
  watcher.join();
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

}  // namespace

int main() {
  ShowClocks();
  ShowSleeps();
  ShowWaits();
  ShowWatcher();
  return 0;
}
