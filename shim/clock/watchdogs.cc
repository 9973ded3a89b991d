#include "shim/clock/watchdogs.h"

#include <errno.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "shim/clock/hung_clock.h"
#include "shim/clock/real_time.h"
#include "shim/clock/virtual_clock.h"

namespace prism::shim {
namespace {

using channel::RecordKind;

constexpr const char* kWatchdogName = "pt_nccl_watchdg";
constexpr const char* kHeartbeatName = "pt_nccl_heartbt";
constexpr int64_t kPollNs = 20'000;
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kSlackNs = 1'000'000;  // between the two clocks that libstdc++'s waits read

// Every requested check is a round; a watchdog that reaches its first wait during a round takes
// part in it.
struct Watchdog {
  pthread_cond_t* condition = nullptr;  // what it waits on, else null
  int64_t asked = 0;                    // the round that it has to check in
  int64_t looked = 0;                   // the last one that it has
  bool lost = false;  // did not come back in time; nobody waits for it until it does
};

struct Registry {
  std::mutex looking;  // one round at a time; taken before `mutex`
  std::mutex mutex;
  std::vector<Watchdog*> present;
  std::set<pthread_cond_t*> heartbeats;  // where heartbeat monitors wait
  size_t seen = 0;                       // watchdogs ever
  std::set<const void*> groups;
  int64_t round = 0;
  std::atomic<bool> transfers{false};  // issued since the last round
  std::atomic<int64_t> host_ns{0};     // spent since then
};

// Never destroyed: threads call in until the very end.
Registry& Get() {
  static auto* const registry = new Registry();
  return *registry;
}

// Enters the registry at its thread's first wait and leaves it when the thread ends.
class Membership {
 public:
  Membership() {
    Registry& registry = Get();
    const std::lock_guard<std::mutex> lock(registry.mutex);
    registry.present.push_back(&watchdog);
    ++registry.seen;
  }
  ~Membership() {
    Registry& registry = Get();
    const std::lock_guard<std::mutex> lock(registry.mutex);
    std::erase(registry.present, &watchdog);
  }
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  Watchdog watchdog;
};

std::atomic<bool> ordered{false};
std::atomic<bool> time_passes{false};  // while nobody asks
thread_local int64_t ahead_ns = 0;

bool IsNamed(const char* wanted) {
  char name[16] = {};
  return pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 && strcmp(name, wanted) == 0;
}

// Whether the thread is a watchdog or a heartbeat monitor.
bool IsWatchdog() {
  return ordered.load(std::memory_order_relaxed) &&
         (IsNamed(kWatchdogName) || IsNamed(kHeartbeatName));
}

void Nap() {
  static RealFunction<int(const timespec*, timespec*)> real_nanosleep("nanosleep");
  const timespec nap = {.tv_sec = 0, .tv_nsec = kPollNs};
  real_nanosleep.get()(&nap, nullptr);
}

bool HasLooked(const Registry& registry, const Watchdog& watchdog) {
  return watchdog.condition != nullptr && watchdog.looked == registry.round;
}

// True once all have checked. They are notified repeatedly: one that is about to wait would miss a
// single notification.
bool AskOnce(Registry* registry) {
  const std::lock_guard<std::mutex> lock(registry->mutex);
  bool done = registry->seen >= registry->groups.size();
  for (Watchdog* watchdog : registry->present) {
    if (HasLooked(*registry, *watchdog)) {
      continue;
    }
    done = done && watchdog->lost;
    if (watchdog->condition != nullptr) {
      watchdog->asked = registry->round;
      pthread_cond_broadcast(watchdog->condition);
    }
  }
  return done;
}

// Continues without those that have not returned and without those that never appeared.
void GiveUp(Registry* registry) {
  const std::lock_guard<std::mutex> lock(registry->mutex);
  registry->seen = std::max(registry->seen, registry->groups.size());
  for (Watchdog* watchdog : registry->present) {
    watchdog->lost = !HasLooked(*registry, *watchdog);
  }
}

// A monitor that is about to wait misses it, so this has to be called repeatedly.
void WakeHeartbeats(Registry* registry) {
  const std::lock_guard<std::mutex> lock(registry->mutex);
  for (pthread_cond_t* const condition : registry->heartbeats) {
    pthread_cond_broadcast(condition);
  }
}

// Waits until the thread is notified; if time passes, returns ETIMEDOUT after kUnaskedNs.
int WaitUntilAsked(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  static RealFunction<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)> real_wait(
      "pthread_cond_clockwait");
  if (!time_passes.load(std::memory_order_relaxed)) {
    return pthread_cond_wait(condition, mutex);
  }
  const int64_t until_ns = RealNow(CLOCK_MONOTONIC) + kUnaskedNs;
  const timespec until = {.tv_sec = until_ns / kNsPerSecond, .tv_nsec = until_ns % kNsPerSecond};
  return real_wait.get()(condition, mutex, CLOCK_MONOTONIC, &until);
}

int WaitAsHeartbeat(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  Registry& registry = Get();
  {
    const std::lock_guard<std::mutex> lock(registry.mutex);
    registry.heartbeats.insert(condition);
  }
  const int error = pthread_cond_wait(condition, mutex);
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.heartbeats.erase(condition);
  return error;
}

}  // namespace

void OrderWatchdogs(bool on_gpu) {
  time_passes.store(on_gpu);
  ordered.store(true);
}

bool WaitsUntilAsked() {
  return IsWatchdog() && !(IsHung() && IsNamed(kHeartbeatName));
}

int WaitAsWatchdog(pthread_cond_t* condition,
                   pthread_mutex_t* mutex,
                   clockid_t clock,
                   const timespec* deadline) {
  if (IsNamed(kHeartbeatName)) {
    return WaitAsHeartbeat(condition, mutex);
  }
  static thread_local Membership membership;
  Watchdog& watchdog = membership.watchdog;
  Registry& registry = Get();
  {
    const std::lock_guard<std::mutex> lock(registry.mutex);
    watchdog.condition = condition;
    watchdog.lost = false;
  }
  const int error = WaitUntilAsked(condition, mutex);
  {
    const std::lock_guard<std::mutex> lock(registry.mutex);
    watchdog.condition = nullptr;
    if (watchdog.asked == watchdog.looked) {
      return error;  // ETIMEDOUT: its deadline passed long ago
    }
    watchdog.looked = watchdog.asked;
  }
  const int64_t deadline_ns = deadline->tv_sec * kNsPerSecond + deadline->tv_nsec;
  ahead_ns = std::max<int64_t>(0, deadline_ns - ProgramNow(clock)) + kSlackNs;
  return ETIMEDOUT;
}

int64_t WatchdogAheadNs(clockid_t clock) {
  return clock == CLOCK_MONOTONIC ? std::exchange(ahead_ns, 0) : ahead_ns;
}

void ExpectWatchdogOf(const void* group) {
  Registry& registry = Get();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.groups.insert(group);
}

bool WatchdogsAreDue(RecordKind kind, int64_t host_cost_ns) {
  Registry& registry = Get();
  const int64_t host_ns = registry.host_ns.fetch_add(host_cost_ns) + host_cost_ns;
  switch (kind) {
    case RecordKind::kCollective:
    case RecordKind::kPeerTransfer:
      registry.transfers.store(true);
      return false;
    case RecordKind::kKernel:
    case RecordKind::kMatmul:
    case RecordKind::kHostGap:
      return host_ns >= kWatchdogPeriodNs;
    default:
      return false;
  }
}

bool LetWatchdogsLook(bool in_any_case) {
  Registry& registry = Get();
  if ((!registry.transfers.load() && !in_any_case) || IsWatchdog()) {
    return true;
  }
  if (IsHung()) {
    WakeHeartbeats(&registry);
  }
  const std::lock_guard<std::mutex> one_at_a_time(registry.looking);
  registry.transfers.store(false);
  registry.host_ns.store(0);
  {
    const std::lock_guard<std::mutex> lock(registry.mutex);
    ++registry.round;
  }
  const int64_t limit_ns = RealNow(CLOCK_MONOTONIC) + kWatchdogLimitNs;
  while (!AskOnce(&registry)) {
    if (RealNow(CLOCK_MONOTONIC) > limit_ns) {
      GiveUp(&registry);
      return false;
    }
    Nap();
  }
  return true;
}

}  // namespace prism::shim
