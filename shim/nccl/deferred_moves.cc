#include "shim/nccl/deferred_moves.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <iterator>
#include <list>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

namespace prism::shim {

namespace {

// No more than this are deferred at a time: the call waits until one is complete.
constexpr size_t kMaxDeferred = 256;

struct Deferred {
  Move move;
  uint64_t number = 0;  // in the order of calls
};

struct Table {
  std::mutex mutex;
  std::condition_variable changed;
  std::list<Deferred> moves;  // by number
  uint64_t next_number = 0;
  std::atomic<size_t> count{0};
};

// Never destroyed: threads of the program move values until the process ends.
Table& Get() {
  alignas(Table) static std::byte storage[sizeof(Table)];
  static Table* const table = new (storage) Table();
  return *table;
}

thread_local bool is_deferred_thread = false;

bool Overlaps(const Claim& a, const Claim& b) {
  const auto* a_begin = static_cast<const std::byte*>(a.begin);
  const auto* b_begin = static_cast<const std::byte*>(b.begin);
  return (a.writes || b.writes) && a_begin < b_begin + b.bytes && b_begin < a_begin + a.bytes;
}

bool Conflict(const Move& a, const Move& b) {
  const bool same_order = std::ranges::any_of(a.orders, [&](uint64_t order) {
    return std::ranges::find(b.orders, order) != b.orders.end();
  });
  return same_order || std::ranges::any_of(a.claims, [&](const Claim& claim) {
           return std::ranges::any_of(b.claims,
                                      [&](const Claim& other) { return Overlaps(claim, other); });
         });
}

// Whether a move before `number` has to be complete first.
bool HasToWait(const Table& table, const Move& move, uint64_t number) {
  return std::ranges::any_of(table.moves, [&](const Deferred& other) {
    return other.number < number && Conflict(other.move, move);
  });
}

void Serve(std::list<Deferred>::iterator deferred) {
  is_deferred_thread = true;
  Table& table = Get();
  std::unique_lock<std::mutex> lock(table.mutex);
  table.changed.wait(lock, [&] { return !HasToWait(table, deferred->move, deferred->number); });
  lock.unlock();
  deferred->move.run(Patience::kLong);
  lock.lock();
  table.moves.erase(deferred);
  table.count.store(table.moves.size());
  table.changed.notify_all();
}

void Defer(Move move) {
  Table& table = Get();
  std::unique_lock<std::mutex> lock(table.mutex);
  table.changed.wait(lock, [&] { return table.moves.size() < kMaxDeferred; });
  table.moves.push_back({std::move(move), table.next_number++});
  table.count.store(table.moves.size());
  std::thread(Serve, std::prev(table.moves.end())).detach();
}

// Returns once `holds` is true of no deferred move.
template <typename Holds>
void AwaitNone(const Holds& holds) {
  Table& table = Get();
  if (is_deferred_thread || table.count.load() == 0) {
    return;
  }
  std::unique_lock<std::mutex> lock(table.mutex);
  table.changed.wait(lock, [&] {
    return std::ranges::none_of(table.moves,
                                [&](const Deferred& deferred) { return holds(deferred.move); });
  });
}

bool HasToWait(const Move& move) {
  Table& table = Get();
  if (table.count.load() == 0) {
    return false;
  }
  const std::lock_guard<std::mutex> lock(table.mutex);
  return HasToWait(table, move, table.next_number);
}

}  // namespace

int RunOrDefer(Move move) {
  if (!HasToWait(move)) {
    if (const std::optional<int> result = move.run(Patience::kShort)) {
      return *result;
    }
  }
  Defer(std::move(move));
  return 0;
}

void AwaitDeferred(const void* begin, size_t bytes, bool for_writing) {
  const Claim own = {begin, bytes, for_writing};
  AwaitNone([&](const Move& move) {
    return std::ranges::any_of(move.claims,
                               [&](const Claim& claim) { return Overlaps(claim, own); });
  });
}

void AwaitDeferredOf(uint64_t communicator) {
  AwaitNone([&](const Move& move) {
    return std::ranges::find(move.communicators, communicator) != move.communicators.end();
  });
}

void AwaitAllDeferred() {
  AwaitNone([](const Move&) { return true; });
}

bool AnyDeferred() {
  return Get().count.load() != 0;
}

}  // namespace prism::shim
