// Every collective, type and operation by ranks as threads, against plain references.
#include "shim/nccl/exchange.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "shim/nccl/exchange_arena.h"
#include "shim/nccl/reduction.h"
#include "tests/shim/exchange_ranks.h"

namespace prism::shim {
namespace {

// Values that every element type holds exactly, sums and products of four of them included in
// float32; different for every rank and position.
double Value(int32_t rank, size_t place) {
  return static_cast<double>((static_cast<size_t>(rank) + place) % 3 + 1);
}

// Stores and loads a small value in any element type, by arithmetic that is independent of the
// code under test for the wide types.
template <typename T>
void StoreAs(std::byte* at, double value) {
  const auto typed = static_cast<T>(value);
  std::memcpy(at, &typed, sizeof(typed));
}

template <typename T>
double LoadAs(const std::byte* at) {
  T typed{};
  std::memcpy(&typed, at, sizeof(typed));
  return static_cast<double>(typed);
}

// Bits of a small positive number in a format of (exponent, mantissa) bits and back.
uint32_t SmallBits(double value, int exponent_bits, int mantissa_bits) {
  const int exponent = std::ilogb(value);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double fraction = std::ldexp(value, -exponent) - 1;
  return (static_cast<uint32_t>(exponent + bias) << mantissa_bits) |
         static_cast<uint32_t>(std::ldexp(fraction, mantissa_bits));
}

double SmallValue(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto exponent = static_cast<int>(bits >> mantissa_bits);
  const uint32_t mantissa = bits & ((1U << mantissa_bits) - 1);
  return std::ldexp(1 + std::ldexp(mantissa, -mantissa_bits), exponent - bias);
}

void Store(Element element, std::byte* at, double value) {
  switch (element) {
    case Element::kInt8:
      return StoreAs<int8_t>(at, value);
    case Element::kUint8:
      return StoreAs<uint8_t>(at, value);
    case Element::kInt32:
      return StoreAs<int32_t>(at, value);
    case Element::kUint32:
      return StoreAs<uint32_t>(at, value);
    case Element::kInt64:
      return StoreAs<int64_t>(at, value);
    case Element::kUint64:
      return StoreAs<uint64_t>(at, value);
    case Element::kFloat32:
      return StoreAs<float>(at, value);
    case Element::kFloat64:
      return StoreAs<double>(at, value);
    case Element::kFloat16:
      return StoreAs<uint16_t>(at, SmallBits(value, 5, 10));
    case Element::kBfloat16:
      return StoreAs<uint16_t>(at, SmallBits(value, 8, 7));
    case Element::kFloat8E4m3:
      return StoreAs<uint8_t>(at, SmallBits(value, 4, 3));
    case Element::kFloat8E5m2:
      return StoreAs<uint8_t>(at, SmallBits(value, 5, 2));
  }
}

double Load(Element element, const std::byte* at) {
  switch (element) {
    case Element::kInt8:
      return LoadAs<int8_t>(at);
    case Element::kUint8:
      return LoadAs<uint8_t>(at);
    case Element::kInt32:
      return LoadAs<int32_t>(at);
    case Element::kUint32:
      return LoadAs<uint32_t>(at);
    case Element::kInt64:
      return LoadAs<int64_t>(at);
    case Element::kUint64:
      return LoadAs<uint64_t>(at);
    case Element::kFloat32:
      return LoadAs<float>(at);
    case Element::kFloat64:
      return LoadAs<double>(at);
    case Element::kFloat16:
      return SmallValue(static_cast<uint32_t>(LoadAs<uint16_t>(at)), 5, 10);
    case Element::kBfloat16:
      return SmallValue(static_cast<uint32_t>(LoadAs<uint16_t>(at)), 8, 7);
    case Element::kFloat8E4m3:
      return SmallValue(static_cast<uint32_t>(LoadAs<uint8_t>(at)), 4, 3);
    case Element::kFloat8E5m2:
      return SmallValue(static_cast<uint32_t>(LoadAs<uint8_t>(at)), 5, 2);
  }
  return 0;
}

bool IsFloat(Element element) {
  return element >= Element::kFloat16;
}

// A rank's buffer of `blocks` blocks of `count` elements, filled by Value.
struct Tensor {
  Element element;
  std::vector<std::byte> bytes;

  Tensor(Element type, size_t elements) : element(type), bytes(elements * ElementBytes(type)) {}

  void Fill(int32_t rank) {
    for (size_t i = 0; i < bytes.size() / ElementBytes(element); ++i) {
      Store(element, bytes.data() + i * ElementBytes(element), Value(rank, i));
    }
  }

  [[nodiscard]] double At(size_t place) const {
    return Load(element, bytes.data() + place * ElementBytes(element));
  }
};

// What the reduction over `size` members must be at `place`, if absent ones contribute what the
// lowest present one does.
double Reference(ReduceKind kind,
                 Element element,
                 const std::vector<int32_t>& present,
                 int32_t size,
                 size_t place) {
  double total = 0;
  for (int32_t member = 0; member < size; ++member) {
    const bool is_present = std::find(present.begin(), present.end(), member) != present.end();
    const double value = Value(is_present ? member : present.front(), place);
    if (member == 0) {
      total = value;
    } else if (kind == ReduceKind::kProd) {
      total *= value;
    } else if (kind == ReduceKind::kMax) {
      total = std::max(total, value);
    } else if (kind == ReduceKind::kMin) {
      total = std::min(total, value);
    } else {
      total += value;
    }
  }
  if (kind == ReduceKind::kAvg) {
    total = total / size;
    total = IsFloat(element) ? total : std::trunc(total);
  }
  return total;
}

double Tolerance(Element element) {
  switch (element) {
    case Element::kFloat8E4m3:
      return 1.0 / 16;
    case Element::kFloat8E5m2:
      return 1.0 / 8;
    case Element::kBfloat16:
      return 1.0 / 256;
    case Element::kFloat16:
      return 1.0 / 2048;
    case Element::kFloat32:
      return 1e-6;
    default:
      return 0;
  }
}

struct Case {
  std::vector<int32_t> present;
  int32_t size;
  size_t count;
};

class ExchangeTest : public ::testing::TestWithParam<Case> {
 protected:
  void ForEachRank(const std::function<void(Exchange*, ExchangeCall)>& body) {
    const Case& test = GetParam();
    RunRanks(test.present, [&](int32_t rank) {
      Memory memory;
      Exchange exchange(&arena_, &memory);
      ExchangeCall call = Call(test.present, test.size, rank);
      call.count = test.count;
      body(&exchange, call);
    });
  }

  [[nodiscard]] bool Absent(int32_t rank) const {
    const auto& present = GetParam().present;
    return std::find(present.begin(), present.end(), rank) == present.end();
  }

  // Whose data is used in place of `rank`.
  [[nodiscard]] int32_t Giver(int32_t rank) const {
    return Absent(rank) ? GetParam().present.front() : rank;
  }

  ExchangeArena arena_ = ExchangeArena::Create(kTestArenaBytes);
};

TEST_P(ExchangeTest, reductions_of_every_type_and_op) {
  const Case& test = GetParam();
  ForEachRank([&](Exchange* exchange, ExchangeCall call) {
    for (int type = 0; type < kElementCount; ++type) {
      for (int kind = 0; kind < 5; ++kind) {
        call.element = static_cast<Element>(type);
        call.reduction.kind = static_cast<ReduceKind>(kind);
        call.sequence++;
        Tensor send(call.element, call.count);
        send.Fill(call.group.rank);
        Tensor recv(call.element, call.count);
        const ExchangeStatus status = exchange->Collective(ExchangeOperation::kAllReduce, call,
                                                           send.bytes.data(), recv.bytes.data());
        ASSERT_TRUE(status.ok()) << status.message;
        for (size_t i = 0; i < call.count; ++i) {
          const double expected =
              Reference(call.reduction.kind, call.element, test.present, test.size, i);
          ASSERT_NEAR(recv.At(i), expected, expected * Tolerance(call.element))
              << ElementName(call.element) << " " << ReduceKindName(call.reduction.kind);
        }
      }
    }
  });
}

TEST_P(ExchangeTest, reduce_scatter_in_place) {
  const Case& test = GetParam();
  ForEachRank([&](Exchange* exchange, ExchangeCall call) {
    call.element = Element::kInt32;
    Tensor buffer(call.element, call.count * static_cast<size_t>(test.size));
    buffer.Fill(call.group.rank);
    const size_t own = call.count * static_cast<size_t>(call.group.rank);
    ASSERT_TRUE(exchange
                    ->Collective(ExchangeOperation::kReduceScatter, call, buffer.bytes.data(),
                                 buffer.bytes.data() + own * 4)
                    .ok());
    for (size_t i = own; i < own + call.count; ++i) {
      ASSERT_EQ(buffer.At(i),
                Reference(ReduceKind::kSum, call.element, test.present, test.size, i));
    }
  });
}

TEST_P(ExchangeTest, all_gather_and_gather) {
  const Case& test = GetParam();
  ForEachRank([&](Exchange* exchange, ExchangeCall call) {
    call.element = Element::kInt64;
    call.root = test.present.back();
    Tensor send(call.element, call.count);
    send.Fill(call.group.rank);
    Tensor all(call.element, call.count * static_cast<size_t>(test.size));
    Tensor gathered = all;
    std::fill(all.bytes.begin(), all.bytes.end(), std::byte{9});
    ASSERT_TRUE(
        exchange
            ->Collective(ExchangeOperation::kAllGather, call, send.bytes.data(), all.bytes.data())
            .ok());
    ASSERT_TRUE(
        exchange
            ->Collective(ExchangeOperation::kGather, call, send.bytes.data(), gathered.bytes.data())
            .ok());
    const bool kept = call.count * 8 > kSmallSlotBytes;
    for (int32_t rank = 0; rank < test.size; ++rank) {
      for (size_t i = 0; i < call.count; ++i) {
        const size_t place = static_cast<size_t>(rank) * call.count + i;
        if (!kept || !Absent(rank)) {
          ASSERT_EQ(all.At(place), Value(Giver(rank), i));
          ASSERT_EQ(gathered.At(place), call.group.rank == call.root ? Value(Giver(rank), i) : 0);
        } else {
          ASSERT_EQ(all.At(place), 0x0909090909090909);
        }
      }
    }
  });
}

TEST_P(ExchangeTest, broadcast_reduce_scatter) {
  const Case& test = GetParam();
  ForEachRank([&](Exchange* exchange, ExchangeCall call) {
    call.element = Element::kFloat32;
    call.root = test.present.back();
    const bool is_root = call.group.rank == call.root;
    Tensor send(call.element, call.count * static_cast<size_t>(test.size));
    send.Fill(call.group.rank);
    Tensor recv(call.element, call.count);
    ASSERT_TRUE(
        exchange
            ->Collective(ExchangeOperation::kBroadcast, call, send.bytes.data(), recv.bytes.data())
            .ok());
    for (size_t i = 0; i < call.count; ++i) {
      ASSERT_EQ(recv.At(i), Value(call.root, i));
    }
    ASSERT_TRUE(
        exchange
            ->Collective(ExchangeOperation::kScatter, call, send.bytes.data(), recv.bytes.data())
            .ok());
    for (size_t i = 0; i < call.count; ++i) {
      ASSERT_EQ(recv.At(i),
                Value(call.root, static_cast<size_t>(call.group.rank) * call.count + i));
    }
    Tensor reduced(call.element, call.count);
    ASSERT_TRUE(
        exchange
            ->Collective(ExchangeOperation::kReduce, call, send.bytes.data(), reduced.bytes.data())
            .ok());
    for (size_t i = 0; i < call.count; ++i) {
      ASSERT_EQ(
          reduced.At(i),
          is_root ? Reference(ReduceKind::kSum, call.element, test.present, test.size, i) : 0);
    }
  });
}

TEST_P(ExchangeTest, all_to_all) {
  const Case& test = GetParam();
  ForEachRank([&](Exchange* exchange, ExchangeCall call) {
    call.element = Element::kInt64;
    const size_t all = call.count * static_cast<size_t>(test.size);
    Tensor send(call.element, all);
    send.Fill(call.group.rank);
    Tensor recv(call.element, all);
    ASSERT_TRUE(
        exchange
            ->Collective(ExchangeOperation::kAllToAll, call, send.bytes.data(), recv.bytes.data())
            .ok());
    const size_t own = static_cast<size_t>(call.group.rank) * call.count;
    for (int32_t rank : test.present) {
      for (size_t i = 0; i < call.count; ++i) {
        ASSERT_EQ(recv.At(static_cast<size_t>(rank) * call.count + i), Value(rank, own + i));
      }
    }
  });
}

TEST_P(ExchangeTest, large_messages_both_ways_at_once_and_to_self) {
  const Case& test = GetParam();
  const size_t count = 3 * kMailboxBytes + 5;
  ForEachRank([&](Exchange* exchange, ExchangeCall call) {
    call.count = count;
    std::vector<std::vector<std::byte>> sends;
    std::vector<std::vector<std::byte>> recvs;
    std::vector<ExchangeTransfer> transfers;
    for (const int32_t peer : test.present) {
      sends.emplace_back(count, static_cast<std::byte>(call.group.rank * 16 + peer));
      recvs.emplace_back(count);
      call.root = peer;
      transfers.push_back({call, sends.back().data(), nullptr});
      transfers.push_back({call, nullptr, recvs.back().data()});
    }
    const ExchangeStatus status = exchange->Transfers(transfers);
    ASSERT_TRUE(status.ok()) << status.message;
    for (size_t i = 0; i < test.present.size(); ++i) {
      const auto value = static_cast<std::byte>(test.present[i] * 16 + call.group.rank);
      ASSERT_EQ(recvs[i], std::vector<std::byte>(count, value));
    }
  });
}

// Members 1 and 6 of eight are recorded, only 3 is present: the nearest of the three stands for
// each other one, the lower of two.
TEST(Exchange, recorded_members_stand_for_the_nearest_absent_ones) {
  const std::vector<int32_t> present = {3};
  Memory memory;
  Exchange exchange(nullptr, &memory);
  const int64_t one = 10;
  const int64_t six = 60;
  const int64_t own = 30;
  const std::vector<Contribution> recorded = {{1, std::as_bytes(std::span(&one, 1))},
                                              {6, std::as_bytes(std::span(&six, 1))}};
  ExchangeCall call = Call(present, 8, 3);
  call.count = 1;
  call.element = Element::kInt64;
  call.recorded = recorded;
  std::vector<int64_t> gathered(8, -1);
  gathered[3] = own;
  ASSERT_TRUE(exchange.Collective(ExchangeOperation::kAllGather, call, &own, gathered.data()).ok());
  EXPECT_EQ(gathered, (std::vector<int64_t>{10, 10, 10, 30, 30, 60, 60, 60}));
  int64_t sum = 0;
  ASSERT_TRUE(exchange.Collective(ExchangeOperation::kAllReduce, call, &own, &sum).ok());
  EXPECT_EQ(sum, 270);
  call.reduction.kind = ReduceKind::kMax;
  ASSERT_TRUE(exchange.Collective(ExchangeOperation::kAllReduce, call, &own, &sum).ok());
  EXPECT_EQ(sum, 60);
}

INSTANTIATE_TEST_SUITE_P(Groups,
                         ExchangeTest,
                         ::testing::Values(Case{{0, 1, 2}, 3, 37},
                                           Case{{0, 1}, 2, kChunkBytes / 8 + 3},
                                           Case{{1, 3}, 4, 5},
                                           Case{{2}, 4, 7},
                                           Case{{0}, 3, kSmallSlotBytes / 8},
                                           Case{{0}, 3, kChunkBytes / 4 + 1}));

}  // namespace
}  // namespace prism::shim
