#include "shim/counters.h"

#include <stdio.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>

#include "shim/channel/messages.h"
#include "shim/fork_server/fork_server.h"
#include "shim/session.h"

namespace prism::shim {
namespace {

using channel::Record;
using channel::RecordKind;

struct Counter {
  uint32_t name = 0;  // id in kCounterName
  int64_t total = 0;
  int64_t reported = 0;
};

struct Counters {
  std::mutex mutex;
  std::map<std::string, Counter, std::less<>> by_name;
};

// Never destroyed: threads count during exit too.
Counters& All() {
  alignas(Counters) static std::byte storage[sizeof(Counters)];
  static Counters* const all = new (storage) Counters();
  return *all;
}

void EmitLocked(Counter& counter) {
  counter.reported = counter.total;
  Record record = {};
  record.kind = RecordKind::kCounter;
  record.counter = {counter.name, counter.total};
  Emit(record);
}

}  // namespace

void EmitCounters() {
  const std::lock_guard<std::mutex> lock(All().mutex);
  for (auto& [name, counter] : All().by_name) {
    if (counter.reported != counter.total) {
      EmitLocked(counter);
    }
  }
}

void LockCounters() {
  All().mutex.lock();
}

void UnlockCounters() {
  All().mutex.unlock();
}

void Count(std::string_view counter_name, int64_t n) {
  const std::lock_guard<std::mutex> lock(All().mutex);
  auto& counters = All().by_name;
  auto found = counters.find(counter_name);
  if (found == counters.end()) {
    found = counters.try_emplace(std::string(counter_name)).first;
    found->second.name = DefineOnce(channel::Table::kCounterName, counter_name);
  }
  Counter& counter = found->second;
  counter.total += n;
  // Totals are sent when they have doubled, and once more at the exit; a fork server's by its
  // ranks.
  if (counter.total >= 2 * counter.reported && !ServesForks()) {
    EmitLocked(counter);
  }
}

void Refuse(const char* function_name) {
  std::string counter = "refused_";
  counter += function_name;
  bool first = false;
  {
    const std::lock_guard<std::mutex> lock(All().mutex);
    first = All().by_name.find(counter) == All().by_name.end();
  }
  if (first) {
    fprintf(stderr, "prism shim: %s is not supported by the virtual device\n", function_name);
  }
  Count(counter);
}

}  // namespace prism::shim
