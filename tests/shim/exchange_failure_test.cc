// Order, failures and cost of the exchange: eager sends, mismatch, stall, abort, memory that was
// never written, processes instead of threads.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "shim/nccl/exchange.h"
#include "shim/nccl/exchange_arena.h"
#include "tests/shim/exchange_ranks.h"

namespace prism::shim {
namespace {

// A send returns before its receive is posted, and messages keep their order.
TEST(Exchange, sends_are_eager) {
  const std::vector<int32_t> present = {0, 1};
  ExchangeArena arena = ExchangeArena::Create(kTestArenaBytes);
  Memory memory;
  Exchange exchange(&arena, &memory);
  for (int32_t number = 0; number < 3; ++number) {
    ExchangeCall call = Call(present, 2, 0);
    call.element = Element::kInt32;
    call.count = 1;
    call.root = 1;
    ASSERT_TRUE(Send(&exchange, call, &number).ok());
  }
  for (int32_t number = 0; number < 3; ++number) {
    ExchangeCall call = Call(present, 2, 1);
    call.element = Element::kInt32;
    call.count = 1;
    call.root = 0;
    int32_t received = -1;
    ASSERT_TRUE(Recv(&exchange, call, &received).ok());
    EXPECT_EQ(received, number);
  }
}

TEST(Exchange, mismatch_names_both_sides) {
  const std::vector<int32_t> present = {0, 1};
  ExchangeArena arena = ExchangeArena::Create(kTestArenaBytes);
  std::vector<ExchangeStatus> results(2);
  RunRanks(present, [&](int32_t rank) {
    Memory memory;
    Exchange exchange(&arena, &memory);
    ExchangeCall call = Call(present, 2, rank);
    call.sequence = 5;
    call.count = 8;
    call.element = rank == 0 ? Element::kFloat32 : Element::kInt64;
    std::vector<std::byte> buffer(64);
    results[static_cast<size_t>(rank)] =
        exchange.Collective(ExchangeOperation::kAllReduce, call, buffer.data(), buffer.data());
  });
  for (size_t rank = 0; rank < 2; ++rank) {
    const std::string message = results[rank].message;
    EXPECT_FALSE(results[rank].ok());
    EXPECT_NE(message.find("all_reduce of 32 bytes (float32"), std::string::npos) << message;
    EXPECT_NE(message.find("all_reduce of 64 bytes (int64"), std::string::npos) << message;
    EXPECT_NE(message.find("number 5"), std::string::npos) << message;
  }
}

TEST(Exchange, calls_that_differ_in_anything_are_a_mismatch) {
  const std::vector<int32_t> present = {0, 1};
  const std::vector<std::function<void(ExchangeCall*)>> changes = {
      [](ExchangeCall* call) { call->count = 2; },
      [](ExchangeCall* call) { call->root = 1; },
      [](ExchangeCall* call) { call->sequence = 6; },
      [](ExchangeCall* call) { call->reduction.kind = ReduceKind::kMax; },
  };
  for (const auto& change : changes) {
    ExchangeArena arena = ExchangeArena::Create(kTestArenaBytes);
    RunRanks(present, [&](int32_t rank) {
      Memory memory;
      Exchange exchange(&arena, &memory);
      ExchangeCall call = Call(present, 2, rank);
      call.count = 1;
      call.root = 0;
      if (rank == 1) {
        change(&call);
      }
      std::vector<std::byte> buffer(16);
      const ExchangeStatus status =
          exchange.Collective(ExchangeOperation::kReduce, call, buffer.data(), buffer.data());
      EXPECT_FALSE(status.ok()) << &change - changes.data();
    });
    EXPECT_TRUE(arena.aborted()) << "for all others";
  }
}

TEST(Exchange, message_of_another_size_is_a_mismatch) {
  const std::vector<int32_t> present = {0, 1};
  ExchangeArena arena = ExchangeArena::Create(kTestArenaBytes);
  Memory memory;
  Exchange exchange(&arena, &memory);
  ExchangeCall call = Call(present, 2, 0);
  call.count = 4;
  call.root = 1;
  std::vector<std::byte> buffer(8);
  ASSERT_TRUE(Send(&exchange, call, buffer.data()).ok());
  call = Call(present, 2, 1);
  call.count = 8;
  call.root = 0;
  const ExchangeStatus status = Recv(&exchange, call, buffer.data());
  EXPECT_EQ(status.code, ExchangeCode::kMismatch);
  EXPECT_NE(std::string(status.message).find("other side sends 4 bytes"), std::string::npos);
}

// As ncclCommAbort does from another thread: no other waits end.
TEST(Exchange, one_call_is_given_up_alone) {
  const std::vector<int32_t> present = {0, 1};
  ExchangeArena arena = ExchangeArena::Create(kTestArenaBytes);
  Memory memory;
  std::atomic<bool> given_up{false};
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    given_up.store(true);
  });
  ExchangeCall call = Call(present, 2, 0);
  call.count = 1;
  call.given_up = &given_up;
  std::byte value = {};
  const ExchangeStatus status =
      Exchange(&arena, &memory).Collective(ExchangeOperation::kAllReduce, call, &value, &value);
  other.join();
  EXPECT_EQ(status.code, ExchangeCode::kAborted);
  EXPECT_NE(std::string(status.message).find("the communicator was aborted"), std::string::npos);
  EXPECT_FALSE(arena.aborted());
}

TEST(Exchange, stall_names_the_missing_rank) {
  const std::vector<int32_t> present = {0, 1};
  ExchangeArena arena = ExchangeArena::Create(kTestArenaBytes);
  arena.set_stall_seconds(1);
  Memory memory;
  Exchange exchange(&arena, &memory);
  ExchangeCall call = Call(present, 2, 0);
  const ExchangeStatus status = exchange.Collective(ExchangeOperation::kBarrier, call);
  EXPECT_EQ(status.code, ExchangeCode::kStalled);
  EXPECT_NE(std::string(status.message).find("no sign of rank 1"), std::string::npos)
      << status.message;
}

TEST(Exchange, abort_wakes_everybody) {
  const std::vector<int32_t> present = {0, 1, 2};
  ExchangeArena arena = ExchangeArena::Create(kTestArenaBytes);
  RunRanks({0, 1, 9}, [&](int32_t rank) {
    Memory memory;
    Exchange exchange(&arena, &memory);
    if (rank == 9) {
      arena.Abort("rank 2 died");
      return;
    }
    ExchangeCall call = Call(present, 3, rank);
    call.count = 1;
    call.root = 2;
    std::byte buffer{};
    const ExchangeStatus status = rank == 0 ? exchange.Collective(ExchangeOperation::kBarrier, call)
                                            : Recv(&exchange, call, &buffer);
    EXPECT_EQ(status.code, ExchangeCode::kAborted);
    EXPECT_NE(std::string(status.message).find("rank 2 died"), std::string::npos);
  });
}

// Memory in which nothing was ever written: any access other than querying and invalidating is an
// error.
class NeverWritten : public Memory {
 public:
  bool Read(const void* /*source*/, size_t /*bytes*/, void* /*out*/) override {
    ADD_FAILURE() << "read";
    return false;
  }
  void Write(void* /*target*/, size_t /*bytes*/, const void* /*data*/) override {
    ADD_FAILURE() << "written";
  }
  void Invalidate(void* /*target*/, size_t bytes) override { invalidated += bytes; }
  bool AnyValid(const void* /*source*/, size_t /*bytes*/) override { return false; }

  size_t invalidated = 0;
};

TEST(Exchange, never_written_buffers_move_nothing) {
  const std::vector<int32_t> present = {0, 1};
  ExchangeArena arena = ExchangeArena::Create(kTestArenaBytes);
  std::vector<std::byte> nothing(1);
  RunRanks(present, [&](int32_t rank) {
    NeverWritten memory;
    Exchange exchange(&arena, &memory);
    ExchangeCall call = Call(present, 4, rank);
    call.count = 1UL << 40U;
    ASSERT_TRUE(
        exchange.Collective(ExchangeOperation::kAllReduce, call, nothing.data(), nothing.data())
            .ok());
    EXPECT_EQ(memory.invalidated, 1UL << 40U);
    ASSERT_TRUE(
        exchange.Collective(ExchangeOperation::kAllGather, call, nothing.data(), nothing.data())
            .ok());
    EXPECT_EQ(memory.invalidated, 5UL << 40U);
    call.root = 1 - rank;
    ASSERT_TRUE(Send(&exchange, call, nothing.data()).ok());
    ASSERT_TRUE(Recv(&exchange, call, nothing.data()).ok());
    EXPECT_EQ(memory.invalidated, 6UL << 40U);
  });
}

// Keeps nothing; counts what it is given.
class Unwritten : public Memory {
 public:
  void Write(void* /*target*/, size_t bytes, const void* /*data*/) override { written += bytes; }
  void Invalidate(void* /*target*/, size_t bytes) override { invalidated += bytes; }
  bool AnyValid(const void* /*source*/, size_t /*bytes*/) override { return false; }

  size_t written = 0;
  size_t invalidated = 0;
};

TEST(Exchange, an_absent_root_gives_zeros_up_to_a_size_where_nothing_is) {
  const std::vector<int32_t> present = {1};
  ExchangeCall call = Call(present, 4, 1);
  call.root = 0;
  Memory memory;
  call.count = 8;
  for (const auto operation : {ExchangeOperation::kBroadcast, ExchangeOperation::kScatter}) {
    std::vector<std::byte> own(8, std::byte{9});
    ASSERT_TRUE(Exchange(nullptr, &memory).Collective(operation, call, nullptr, own.data()).ok());
    EXPECT_EQ(own, std::vector<std::byte>(8, std::byte{9}));
    for (const size_t more : {0U, 1U}) {
      Unwritten unwritten;
      ExchangeCall large = call;
      large.count = kSmallTransferBytes + more;
      ASSERT_TRUE(
          Exchange(nullptr, &unwritten).Collective(operation, large, nullptr, own.data()).ok());
      EXPECT_EQ(unwritten.written, more == 0 ? large.count : 0);
      EXPECT_EQ(unwritten.invalidated, more == 0 ? 0 : large.count);
    }
  }
}

TEST(Exchange, many_rounds_by_processes) {
  const std::vector<int32_t> present = {0, 1, 2};
  ExchangeArena arena = ExchangeArena::Create(kTestArenaBytes);
  const std::string path = "/proc/self/fd/" + std::to_string(arena.descriptor());
  const auto run = [&](int32_t rank) {
    ExchangeArena mapped = ExchangeArena::MapPath(path.c_str());
    Memory memory;
    Exchange exchange(&mapped, &memory);
    for (uint64_t round = 0; round < 300; ++round) {
      ExchangeCall call = Call(present, 3, rank);
      call.sequence = round;
      call.element = Element::kInt64;
      call.count = 1;
      int64_t value = static_cast<int64_t>(round) * (rank + 1);
      if (!exchange.Collective(ExchangeOperation::kAllReduce, call, &value, &value).ok() ||
          value != static_cast<int64_t>(round) * 6) {
        return 1;
      }
    }
    return 0;
  };
  std::vector<pid_t> children;
  for (const int32_t rank : {1, 2}) {
    const pid_t child = fork();
    if (child == 0) {
      _exit(run(rank));
    }
    children.push_back(child);
  }
  EXPECT_EQ(run(0), 0);
  for (const pid_t child : children) {
    int state = 0;
    waitpid(child, &state, 0);
    EXPECT_EQ(state, 0);
  }
}

}  // namespace
}  // namespace prism::shim
