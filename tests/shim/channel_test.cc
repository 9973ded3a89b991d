// The ring with a thread on either side.
#include "shim/channel/channel.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace prism::channel {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

Config MakeConfig(Mode mode) {
  Config config = {};
  config.version = kProtocolVersion;
  config.mode = mode;
  return config;
}

Record MakeKernel(uint32_t name) {
  Record record = {};
  record.kind = RecordKind::kKernel;
  record.kernel.name = name;
  return record;
}

Record MakeDefine(uint32_t id, uint32_t bytes) {
  Record record = {};
  record.kind = RecordKind::kDefine;
  record.define.table = Table::kKernelName;
  record.define.id = id;
  record.define.payload_bytes = bytes;
  return record;
}

// Bytes that differ by record and position, so that a shifted or torn payload is noticed.
std::string MakePayload(uint32_t id, uint32_t bytes) {
  std::string payload(bytes, '\0');
  for (uint32_t index = 0; index < bytes; ++index) {
    payload[index] = static_cast<char>((id * 131 + index * 7) & 0x7F);
  }
  return payload;
}

class ChannelTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(consumer_.valid());
    producer_ = MapChannel(consumer_.descriptor());
    ASSERT_NE(producer_, nullptr);
  }

  Consumer consumer_{MakeConfig(Mode::kEmulate)};
  Header* producer_ = nullptr;
};

TEST(HostCost, a_record_costs_what_its_kind_does_and_nothing_within_a_graph_launch) {
  Config config = MakeConfig(Mode::kEmulate);
  config.host_cost_ns[static_cast<size_t>(RecordKind::kKernel)] = 7;
  Record kernel = MakeKernel(1);
  EXPECT_EQ(HostCostNs(config, kernel), 7);
  kernel.flags = kLaunchedWithPrevious;
  EXPECT_EQ(HostCostNs(config, kernel), 0);
  Record sleep = {};
  sleep.kind = RecordKind::kHostGap;
  sleep.host_gap.duration_ns = 1'000;
  EXPECT_EQ(HostCostNs(config, sleep), 1'000);
}

TEST_F(ChannelTest, carries_records_and_payloads_in_order_over_many_turns_of_the_ring) {
  // Every third record has a payload of 0 to 9,999 bytes: about 20 turns of the ring.
  constexpr uint32_t kRecords = 12'000;
  std::thread process([this] {
    for (uint32_t id = 0; id < kRecords; ++id) {
      const uint32_t bytes = id * 17 % 10'000;
      if (id % 3 == 0) {
        ASSERT_TRUE(Push(producer_, MakeDefine(id, bytes), MakePayload(id, bytes).data(), bytes));
      } else {
        ASSERT_TRUE(Push(producer_, MakeKernel(id), nullptr, 0));
      }
    }
  });
  Record record = {};
  std::span<const std::byte> payload;
  for (uint32_t id = 0; id < kRecords;) {
    if (!consumer_.TryPop(&record, &payload)) {
      ASSERT_TRUE(consumer_.WaitForRecord(20 * kSecond));
      continue;
    }
    if (id % 3 == 0) {
      ASSERT_EQ(record.kind, RecordKind::kDefine);
      ASSERT_EQ(record.define.id, id);
      const std::string expected = MakePayload(id, id * 17 % 10'000);
      ASSERT_EQ(payload.size(), expected.size());
      ASSERT_TRUE(expected.empty() ||
                  std::memcmp(payload.data(), expected.data(), expected.size()) == 0);
    } else {
      ASSERT_EQ(record.kind, RecordKind::kKernel);
      ASSERT_EQ(record.kernel.name, id);
      ASSERT_TRUE(payload.empty());
    }
    ++id;
  }
  process.join();
  EXPECT_FALSE(consumer_.TryPop(&record, &payload));
}

TEST_F(ChannelTest, a_full_ring_blocks_the_process_and_loses_nothing) {
  constexpr uint32_t kRecords = kRingSlots + 100;
  std::atomic<uint32_t> pushed{0};
  std::thread process([&] {
    for (uint32_t id = 0; id < kRecords; ++id) {
      ASSERT_TRUE(Push(producer_, MakeKernel(id), nullptr, 0));
      pushed.store(id + 1);
    }
  });
  while (pushed.load() < kRingSlots) {
    std::this_thread::yield();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(pushed.load(), kRingSlots);
  Record record = {};
  std::span<const std::byte> payload;
  for (uint32_t id = 0; id < kRecords;) {
    if (consumer_.TryPop(&record, &payload)) {
      ASSERT_EQ(record.kernel.name, id);
      ++id;
    } else {
      ASSERT_TRUE(consumer_.WaitForRecord(20 * kSecond));
    }
  }
  process.join();
}

TEST_F(ChannelTest, an_abort_frees_a_process_that_waits_for_room_or_for_an_answer) {
  std::thread process([this] {
    bool alive = true;
    for (uint32_t id = 0; alive && id < 2 * kRingSlots; ++id) {
      alive = Push(producer_, MakeKernel(id), nullptr, 0);
    }
    EXPECT_FALSE(alive);
    EXPECT_EQ(WaitAnswer(producer_, 1).status, 2);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  consumer_.Abort();
  process.join();
}

TEST_F(ChannelTest, an_abort_is_final) {
  consumer_.Abort();
  consumer_.Reply(1, {0, 5, 6});
  EXPECT_EQ(WaitAnswer(producer_, 1).status, 2);
  EXPECT_EQ(WaitAnswer(producer_, 2).status, 2);
}

TEST_F(ChannelTest, an_answer_reaches_the_request_that_it_belongs_to) {
  std::thread worker([this] {
    Record record = {};
    std::span<const std::byte> payload;
    for (uint32_t request = 1; request <= 100;) {
      if (consumer_.TryPop(&record, &payload)) {
        ASSERT_EQ(record.sync.request, request);
        consumer_.Reply(request, {0, request * 1000, request});
        ++request;
      } else {
        ASSERT_TRUE(consumer_.WaitForRecord(20 * kSecond));
      }
    }
  });
  for (uint32_t request = 1; request <= 100; ++request) {
    Record record = {};
    record.kind = RecordKind::kSync;
    record.sync.request = request;
    ASSERT_TRUE(Push(producer_, record, nullptr, 0));
    const AnswerValue answer = WaitAnswer(producer_, request);
    EXPECT_EQ(answer.status, 0);
    EXPECT_EQ(answer.host_time_ns, request * 1000);
    EXPECT_EQ(answer.value_ns, request);
  }
  worker.join();
}

TEST_F(ChannelTest, waiting_for_a_record_ends_when_the_time_is_over) {
  EXPECT_FALSE(consumer_.WaitForRecord(30'000'000));
}

TEST_F(ChannelTest, a_payload_larger_than_the_ring_is_refused) {
  const uint32_t bytes = kRingSlots * kSlotBytes;
  EXPECT_FALSE(Push(producer_, MakeDefine(1, bytes), MakePayload(1, bytes).data(), bytes));
}

}  // namespace
}  // namespace prism::channel
