// Ranks as threads that reach two communicators in different orders.
#include "shim/nccl/deferred_moves.h"

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "shim/nccl/exchange.h"
#include "shim/nccl/exchange_arena.h"
#include "tests/shim/exchange_ranks.h"

namespace prism::shim {
namespace {

const std::vector<int32_t> kPresent = {0, 1};

class DeferredMoves : public testing::Test {
 protected:
  DeferredMoves() {
    arena_.set_stall_seconds(20);
    arena_.set_ranks(2);
  }

  ExchangeCall CallOn(uint64_t communicator, int32_t rank) {
    ExchangeCall call = Call(kPresent, 2, rank);
    call.group.identity = communicator;
    call.element = Element::kInt32;
    call.count = 1;
    return call;
  }

  // An all_reduce in place of one number. Ranks share the table of moves here, which processes do
  // not, so orders are identified by rank as well.
  Move AllReduce(uint64_t communicator, int32_t rank, int32_t* value) {
    Move move = {.communicators = {communicator},
                 .orders = {4 * communicator + static_cast<uint64_t>(rank)},
                 .claims = {{value, sizeof(*value), false}, {value, sizeof(*value), true}}};
    const auto number = std::make_shared<std::optional<uint32_t>>();
    move.run = [=, this](Patience patience) -> std::optional<int> {
      Exchange exchange(&arena_, &memory_);
      const ExchangeCall call = CallOn(communicator, rank);
      const auto operation = ExchangeOperation::kAllReduce;
      if (!*number) {
        EXPECT_TRUE(exchange.Announce(operation, call, &number->emplace()).ok());
      }
      ExchangeStatus status = exchange.WaitForOthers(operation, call, **number, patience);
      if (status.code == ExchangeCode::kLate) {
        return std::nullopt;
      }
      EXPECT_TRUE(status.ok()) << status.message;
      status = exchange.Collective(operation, call, value, value);
      EXPECT_TRUE(status.ok()) << status.message;
      return 0;
    };
    return move;
  }

  Move Transfer(uint64_t communicator, int32_t rank, bool sends, int32_t* value) {
    ExchangeTransfer transfer = {CallOn(communicator, rank)};
    transfer.call.root = 1 - rank;
    transfer.send = sends ? value : nullptr;
    transfer.recv = sends ? nullptr : value;
    const auto run =
        std::make_shared<TransferRun>(&arena_, &memory_, std::vector<ExchangeTransfer>{transfer});
    Move move = {.communicators = {communicator},
                 .orders = {4 * communicator + 2 + static_cast<uint64_t>(rank)},
                 .claims = {{value, sizeof(*value), !sends}}};
    move.run = [run](Patience patience) -> std::optional<int> {
      const ExchangeStatus status = run->Run(patience);
      if (status.code == ExchangeCode::kLate) {
        return std::nullopt;
      }
      EXPECT_TRUE(status.ok()) << status.message;
      return 0;
    };
    return move;
  }

  ExchangeArena arena_ = ExchangeArena::Create(kTestArenaBytes);
  Memory memory_;
};

TEST_F(DeferredMoves, two_communicators_in_different_order_do_not_wait_for_each_other) {
  std::array<std::array<int32_t, 2>, 2> values = {{{1, 10}, {2, 20}}};  // by rank, communicator
  RunRanks(kPresent, [&](int32_t rank) {
    auto& own = values[static_cast<size_t>(rank)];
    for (int round = 0; round < 3; ++round) {
      for (const size_t place : {size_t{0}, size_t{1}}) {
        const size_t which = rank == 0 ? place : 1 - place;
        EXPECT_EQ(RunOrDefer(AllReduce(which + 1, rank, &own[which])), 0);
      }
      AwaitDeferred(own.data(), sizeof(own), false);
    }
  });
  for (const auto& own : values) {
    EXPECT_EQ(own[0], 3 * 4) << "1 + 2, and twice that for each further round";
    EXPECT_EQ(own[1], 30 * 4);
  }
}

// The next move reads what a deferred one writes: it is deferred too, and gets what was written.
TEST_F(DeferredMoves, what_needs_a_deferred_one_comes_after_it) {
  std::array<int32_t, 2> chained = {1, 2};
  std::array<int32_t, 2> other = {10, 20};
  RunRanks(kPresent, [&](int32_t rank) {
    const auto place = static_cast<size_t>(rank);
    if (rank == 0) {
      RunOrDefer(AllReduce(1, rank, &chained[place]));
      RunOrDefer(AllReduce(2, rank, &chained[place]));
      RunOrDefer(AllReduce(3, rank, &other[place]));
    } else {
      RunOrDefer(AllReduce(3, rank, &other[place]));
      RunOrDefer(AllReduce(1, rank, &chained[place]));
      RunOrDefer(AllReduce(2, rank, &chained[place]));
    }
    AwaitDeferred(&chained[place], sizeof(int32_t), false);
    AwaitDeferred(&other[place], sizeof(int32_t), true);
  });
  EXPECT_EQ(chained, (std::array<int32_t, 2>{6, 6}));
  EXPECT_EQ(other, (std::array<int32_t, 2>{30, 30}));
}

TEST_F(DeferredMoves, a_receive_in_front_of_a_collective_lets_the_sender_come_to_that_first) {
  std::array<int32_t, 2> message = {0, 7};
  std::array<int32_t, 2> sum = {1, 2};
  RunRanks(kPresent, [&](int32_t rank) {
    const auto place = static_cast<size_t>(rank);
    if (rank == 0) {
      RunOrDefer(Transfer(1, rank, /*sends=*/false, &message[place]));
      RunOrDefer(AllReduce(2, rank, &sum[place]));
    } else {
      RunOrDefer(AllReduce(2, rank, &sum[place]));
      RunOrDefer(Transfer(1, rank, /*sends=*/true, &message[place]));
    }
  });
  AwaitAllDeferred();
  EXPECT_EQ(message[0], 7);
  EXPECT_EQ(sum, (std::array<int32_t, 2>{3, 3}));
}

// Both read one number, each for a different communicator: neither has to wait for the other.
TEST_F(DeferredMoves, readers_of_the_same_bytes_do_not_wait_for_each_other) {
  const int32_t given = 5;
  std::atomic<bool> second_ran{false};
  Move first = {.communicators = {1}, .orders = {1}, .claims = {{&given, sizeof(given), false}}};
  first.run = [&](Patience patience) -> std::optional<int> {
    if (patience == Patience::kShort) {
      return std::nullopt;
    }
    while (!second_ran.load()) {
      std::this_thread::yield();
    }
    return 0;
  };
  Move second = {.communicators = {2}, .orders = {2}, .claims = {{&given, sizeof(given), false}}};
  second.run = [&](Patience) -> std::optional<int> {
    second_ran.store(true);
    return 3;
  };
  EXPECT_EQ(RunOrDefer(first), 0);
  AwaitDeferred(&given, sizeof(given), /*for_writing=*/false);
  EXPECT_EQ(RunOrDefer(second), 3) << "carried out at once";
  AwaitDeferredOf(1);
  EXPECT_FALSE(AnyDeferred());
}

}  // namespace
}  // namespace prism::shim
