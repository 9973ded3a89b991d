// Ranks as threads over the arenas of several hosts that mirrors keep equal: the same bytes as over
// one arena, and the same ends of what cannot go on.
#include "launch/emulate/run/exchange_mirror.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shim/nccl/exchange.h"
#include "tests/shim/exchange_ranks.h"

namespace prism::launch {
namespace {

using shim::Exchange;
using shim::ExchangeCall;
using shim::ExchangeOperation;
using shim::ExchangeStatus;
using testing::HasSubstr;

constexpr size_t kElements = 300'000;  // several chunks

// Hosts with their arenas, and one thread that carries messages between their mirrors.
class ManyHosts {
 public:
  explicit ManyHosts(int hosts) : messages_(static_cast<size_t>(hosts)) {
    for (int host = 0; host < hosts; ++host) {
      arenas_.push_back(shim::ExchangeArena::Create(shim::kTestArenaBytes));
    }
    for (int host = 0; host < hosts; ++host) {
      mirrors_.push_back(std::make_unique<ExchangeMirror>(
          &arenas_[static_cast<size_t>(host)], hosts, host,
          [this, host](int to, std::string bytes) {
            messages_[static_cast<size_t>(to)].emplace_back(host, std::move(bytes));
          }));
    }
    carrier_ = std::thread([this] { Carry(); });
  }
  ~ManyHosts() {
    done_ = true;
    carrier_.join();
  }

  // Of that rank: ranks are dealt out to the hosts.
  shim::ExchangeArena* ArenaOf(int32_t rank) {
    return &arenas_[static_cast<size_t>(rank) % arenas_.size()];
  }

 private:
  void Carry() {
    while (!done_) {
      for (size_t host = 0; host < mirrors_.size(); ++host) {
        mirrors_[host]->Step();
        while (!messages_[host].empty()) {
          mirrors_[host]->Take(messages_[host].front().first, messages_[host].front().second);
          messages_[host].pop_front();
        }
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  std::vector<shim::ExchangeArena> arenas_;
  std::vector<std::unique_ptr<ExchangeMirror>> mirrors_;
  std::vector<std::deque<std::pair<int, std::string>>> messages_;
  std::atomic<bool> done_{false};
  std::thread carrier_;
};

std::vector<float> Values(int32_t rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = 0.1F * static_cast<float>(rank + 1) + static_cast<float>(i % 1000) / 7;
  }
  return values;
}

const std::vector<int32_t> kPresent = {0, 1, 2, 4};
constexpr int32_t kSize = 5;  // rank 3 is absent

// What every rank gets from a collective of each kind and from its neighbours, one after the other.
std::vector<std::vector<float>> RunAll(int hosts) {
  ManyHosts many(hosts);
  std::vector<std::vector<float>> results(kSize);
  shim::RunRanks(kPresent, [&](int32_t rank) {
    shim::Memory memory;
    Exchange exchange(many.ArenaOf(rank), &memory);
    ExchangeCall call = shim::Call(kPresent, kSize, rank);
    call.element = shim::Element::kFloat32;
    call.count = kElements;
    call.root = 2;
    std::vector<float>& got = results[static_cast<size_t>(rank)];
    for (const ExchangeOperation operation :
         {ExchangeOperation::kAllReduce, ExchangeOperation::kBarrier, ExchangeOperation::kAllGather,
          ExchangeOperation::kReduceScatter, ExchangeOperation::kBroadcast,
          ExchangeOperation::kAllToAll, ExchangeOperation::kReduce}) {
      const std::vector<float> send = Values(rank, kElements * kSize);
      std::vector<float> recv(kElements * kSize, -1);
      ++call.sequence;
      const ExchangeStatus status = exchange.Collective(operation, call, send.data(), recv.data());
      EXPECT_TRUE(status.ok()) << status.message;
      got.insert(got.end(), recv.begin(), recv.end());
    }
    // To the next present rank and from the one before, more than a mailbox holds.
    const auto at =
        static_cast<size_t>(std::find(kPresent.begin(), kPresent.end(), rank) - kPresent.begin());
    const std::vector<float> send = Values(rank, kElements);
    std::vector<float> recv(kElements, -1);
    shim::ExchangeTransfer transfers[] = {{call, send.data(), nullptr},
                                          {call, nullptr, recv.data()}};
    transfers[0].call.root = kPresent[(at + 1) % kPresent.size()];
    transfers[1].call.root = kPresent[(at + kPresent.size() - 1) % kPresent.size()];
    const ExchangeStatus status = exchange.Transfers(transfers);
    EXPECT_TRUE(status.ok()) << status.message;
    got.insert(got.end(), recv.begin(), recv.end());
  });
  return results;
}

TEST(ExchangeMirror, ranks_of_several_hosts_get_the_bytes_of_one) {
  const auto one = RunAll(1);
  EXPECT_NE(one[0][0], -1);
  EXPECT_TRUE(RunAll(2) == one);
  EXPECT_TRUE(RunAll(3) == one);
}

TEST(ExchangeMirror, many_rounds_stay_in_step) {
  ManyHosts many(2);
  shim::RunRanks({0, 1, 2}, [&](int32_t rank) {
    const std::vector<int32_t> present = {0, 1, 2};
    shim::Memory memory;
    Exchange exchange(many.ArenaOf(rank), &memory);
    ExchangeCall call = shim::Call(present, 3, rank);
    call.element = shim::Element::kInt64;
    call.count = 1;
    for (int64_t i = 0; i < 300; ++i) {
      uint32_t number = 0;
      EXPECT_TRUE(exchange.Announce(ExchangeOperation::kAllReduce, call, &number).ok());
      EXPECT_TRUE(
          exchange.WaitForOthers(ExchangeOperation::kAllReduce, call, number, shim::Patience::kLong)
              .ok());
      const int64_t send = i * (rank + 1);
      int64_t recv = 0;
      const ExchangeStatus status =
          exchange.Collective(ExchangeOperation::kAllReduce, call, &send, &recv);
      ASSERT_TRUE(status.ok()) << status.message;
      ASSERT_EQ(recv, 6 * i);
    }
  });
}

// Messages of all ranks that run, each of which calls an all_reduce of so many bytes.
std::vector<std::string> Failures(const std::vector<int32_t>& ranks,
                                  const std::vector<int32_t>& present,
                                  bool same) {
  ManyHosts many(2);
  std::vector<std::string> messages(ranks.size());
  shim::RunRanks(ranks, [&](int32_t rank) {
    many.ArenaOf(rank)->set_stall_seconds(ranks.size() < present.size() ? 1 : 60);
    shim::Memory memory;
    Exchange exchange(many.ArenaOf(rank), &memory);
    ExchangeCall call = shim::Call(present, 2, rank);
    call.count = same ? 8 : 8 + static_cast<size_t>(rank);
    const std::vector<std::byte> send(16);
    std::vector<std::byte> recv(16);
    const ExchangeStatus status =
        exchange.Collective(ExchangeOperation::kAllReduce, call, send.data(), recv.data());
    messages[static_cast<size_t>(rank)] = status.message;
  });
  return messages;
}

TEST(ExchangeMirror, a_difference_ends_the_ranks_of_both_hosts_and_names_both_sides) {
  const auto messages = Failures({0, 1}, {0, 1}, false);
  EXPECT_THAT(messages[0], HasSubstr("calls all_reduce of"));
  EXPECT_THAT(messages[0], HasSubstr("rank 0 of 2"));
  EXPECT_THAT(messages[0], HasSubstr("rank 1"));
  EXPECT_THAT(messages[1], HasSubstr("calls all_reduce of"));
}

TEST(ExchangeMirror, a_rank_of_another_host_that_does_not_come_is_named) {
  EXPECT_THAT(Failures({0}, {0, 1}, true)[0], HasSubstr("no sign of rank 1 for 1 s"));
}

TEST(ExchangeMirror, hosts_that_differ_about_the_members_present_are_told) {
  ManyHosts many(2);
  shim::RunRanks({0, 1}, [&](int32_t rank) {
    const std::vector<int32_t> present =
        rank == 0 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{0, 1, 2};
    shim::Memory memory;
    Exchange exchange(many.ArenaOf(rank), &memory);
    const ExchangeStatus status =
        exchange.Collective(ExchangeOperation::kBarrier, shim::Call(present, 3, rank));
    EXPECT_THAT(status.message, HasSubstr("ranks of two hosts differ about how many"));
  });
}

}  // namespace
}  // namespace prism::launch
