// The NCCL replacement in a separate process: only rank 0, all other members virtual.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "shim/nccl/nccl_api.h"
#include "shim/session.h"
#include "shim/virtual_device/memory.h"

namespace prism::shim {
namespace {

constexpr int kRanks = 8;

class NcclTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ncclUniqueId id = {};
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ASSERT_EQ(ncclCommInitRank(&comm_, kRanks, id, 3), ncclSuccess);
  }

  void TearDown() override { EXPECT_EQ(ncclCommDestroy(comm_), ncclSuccess); }

  // Device memory with these values in it; freed with the process.
  template <typename T>
  T* Device(const std::vector<T>& values) {
    T* buffer = static_cast<T*>(DeviceAllocate(values.size() * sizeof(T)));
    WriteBytes(buffer, values.data(), values.size() * sizeof(T));
    return buffer;
  }

  template <typename T>
  std::vector<T> Values(const T* buffer, size_t count) {
    std::vector<T> values(count);
    ReadBytes(values.data(), buffer, count * sizeof(T));
    return values;
  }

  float* Unwritten(size_t count) {
    return static_cast<float*>(DeviceAllocate(count * sizeof(float)));
  }

  ncclComm_t comm_ = nullptr;
};

TEST_F(NcclTest, answers_about_itself) {
  int value = 0;
  ASSERT_EQ(ncclGetVersion(&value), ncclSuccess);
  EXPECT_EQ(value, 22809);
  ASSERT_EQ(ncclCommCount(comm_, &value), ncclSuccess);
  EXPECT_EQ(value, kRanks);
  ASSERT_EQ(pncclCommUserRank(comm_, &value), ncclSuccess);
  EXPECT_EQ(value, 3);
  ASSERT_EQ(ncclCommCuDevice(comm_, &value), ncclSuccess);
  EXPECT_EQ(value, 0);
  ncclResult_t error = ncclInternalError;
  ASSERT_EQ(ncclCommGetAsyncError(comm_, &error), ncclSuccess);
  EXPECT_EQ(error, ncclSuccess);
  EXPECT_STREQ(ncclGetErrorString(ncclSuccess), "no error");
}

TEST_F(NcclTest, absent_ranks_contribute_what_the_present_one_does) {
  float* buffer = Device<float>({1, 2, 3});
  ASSERT_EQ(ncclAllReduce(buffer, buffer, 3, ncclFloat, ncclSum, comm_, nullptr), ncclSuccess);
  EXPECT_EQ(Values(buffer, 3), (std::vector<float>{8, 16, 24}));
  ASSERT_EQ(ncclAllReduce(buffer, buffer, 3, ncclFloat, ncclAvg, comm_, nullptr), ncclSuccess);
  EXPECT_EQ(Values(buffer, 3), (std::vector<float>{8, 16, 24}));
  float* all = Unwritten(3 * kRanks);
  ASSERT_EQ(ncclAllGather(buffer, all, 3, ncclFloat, comm_, nullptr), ncclSuccess);
  EXPECT_EQ(Values(all + 21, 3), (std::vector<float>{8, 16, 24}));
  float* part = Unwritten(3);
  ASSERT_EQ(ncclReduceScatter(all, part, 3, ncclFloat, ncclMax, comm_, nullptr), ncclSuccess);
  EXPECT_EQ(Values(part, 3), (std::vector<float>{8, 16, 24}));
}

TEST_F(NcclTest, unwritten_stays_unwritten) {
  float* input = Unwritten(1000);
  float* output = Device<float>(std::vector<float>(1000, 5));
  ASSERT_EQ(ncclAllReduce(input, output, 1000, ncclFloat, ncclSum, comm_, nullptr), ncclSuccess);
  EXPECT_EQ(ValidBytes(output, 4000), 0U);
}

TEST_F(NcclTest, an_absent_root_leaves_what_is_there) {
  float* written = Device<float>({7});
  ASSERT_EQ(ncclBroadcast(written, written, 1, ncclFloat, 0, comm_, nullptr), ncclSuccess);
  EXPECT_EQ(Values(written, 1), (std::vector<float>{7}));
  float* unwritten = Unwritten(1);
  ASSERT_EQ(ncclBcast(unwritten, 1, ncclFloat, 0, comm_, nullptr), ncclSuccess);
  EXPECT_EQ(ValidBytes(unwritten, 4), 4U);
}

TEST_F(NcclTest, nested_groups_run_at_the_outermost_end) {
  float* buffer = Device<float>({1});
  float* received = Device<float>({9});
  ncclGroupStart();
  ncclGroupStart();
  EXPECT_EQ(ncclAllReduce(buffer, buffer, 1, ncclFloat, ncclSum, comm_, nullptr), ncclSuccess);
  EXPECT_EQ(ncclSend(buffer, 1, ncclFloat, 4, comm_, nullptr), ncclSuccess);
  EXPECT_EQ(ncclRecv(received, 1, ncclFloat, 2, comm_, nullptr), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(Values(buffer, 1), (std::vector<float>{1}));
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(Values(buffer, 1), (std::vector<float>{8}));
  EXPECT_NE(Values(received, 1), (std::vector<float>{9}));
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

TEST_F(NcclTest, absent_senders_give_normals_of_norm_one_and_what_was_sent_before) {
  constexpr size_t kCount = 4096;
  float* received = Unwritten(kCount);
  ASSERT_EQ(ncclRecv(received, kCount, ncclFloat, 2, comm_, nullptr), ncclSuccess);
  const std::vector<float> first = Values(received, kCount);
  double square = 0;
  for (const float value : first) {
    square += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_NEAR(square, 1, 0.1);
  ASSERT_EQ(ncclRecv(received, kCount, ncclFloat, 2, comm_, nullptr), ncclSuccess);
  EXPECT_NE(Values(received, kCount), first);
  // Shapes go both ways.
  int64_t* shape = Device<int64_t>({16, 256});
  int64_t* other = Device<int64_t>({0, 0});
  ASSERT_EQ(ncclSend(shape, 2, ncclInt64, 4, comm_, nullptr), ncclSuccess);
  ASSERT_EQ(ncclRecv(other, 2, ncclInt64, 2, comm_, nullptr), ncclSuccess);
  EXPECT_EQ(Values(other, 2), (std::vector<int64_t>{16, 256}));
}

TEST_F(NcclTest, scaled_sums) {
  double half = 0.5;
  ncclRedOp_t op = ncclSum;
  ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &half, ncclDouble, ncclScalarHostImmediate, comm_),
            ncclSuccess);
  double* buffer = Device<double>({3});
  ASSERT_EQ(ncclAllReduce(buffer, buffer, 1, ncclDouble, op, comm_, nullptr), ncclSuccess);
  EXPECT_EQ(Values(buffer, 1), (std::vector<double>{12}));
  EXPECT_EQ(ncclRedOpDestroy(op, comm_), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(buffer, buffer, 1, ncclDouble, op, comm_, nullptr), ncclInvalidArgument);
}

// Its number may be reused before the group is carried out.
TEST_F(NcclTest, scaled_sums_may_be_destroyed_once_they_were_given) {
  double* first = Device<double>({1});
  double* second = Device<double>({1});
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (auto [scale, buffer] : {std::pair{0.5, first}, std::pair{0.25, second}}) {
    ncclRedOp_t op = ncclSum;
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &scale, ncclDouble, ncclScalarHostImmediate, comm_),
              ncclSuccess);
    ASSERT_EQ(ncclAllReduce(buffer, buffer, 1, ncclDouble, op, comm_, nullptr), ncclSuccess);
    ASSERT_EQ(ncclRedOpDestroy(op, comm_), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(Values(first, 1), (std::vector<double>{0.5 * kRanks}));
  EXPECT_EQ(Values(second, 1), (std::vector<double>{0.25 * kRanks}));
}

TEST_F(NcclTest, refuses_what_makes_no_sense) {
  float* buffer = Device<float>({1});
  EXPECT_EQ(ncclAllReduce(buffer, buffer, 1, ncclFloat, ncclSum, nullptr, nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclBroadcast(buffer, buffer, 1, ncclFloat, kRanks, comm_, nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(nullptr, buffer, 1, ncclFloat, ncclSum, comm_, nullptr),
            ncclInvalidArgument);
  EXPECT_NE(std::string(ncclGetLastError(comm_)).find("AllReduce"), std::string::npos);
  EXPECT_EQ(ncclAllReduce(buffer, buffer, 1, ncclNumTypes, ncclSum, comm_, nullptr),
            ncclInvalidArgument);
}

TEST_F(NcclTest, shrink_keeps_the_order) {
  int excluded[] = {1, 5};
  ncclComm_t child = nullptr;
  ASSERT_EQ(ncclCommShrink(comm_, excluded, 2, &child, nullptr, NCCL_SHRINK_DEFAULT), ncclSuccess);
  int value = 0;
  ncclCommCount(child, &value);
  EXPECT_EQ(value, 6);
  ncclCommUserRank(child, &value);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(ncclCommDestroy(child), ncclSuccess);
}

TEST_F(NcclTest, split_into_unknown_members_is_refused) {
  ncclComm_t child = nullptr;
  EXPECT_EQ(ncclCommSplit(comm_, 0, 0, &child, nullptr), ncclInvalidUsage);
  EXPECT_EQ(ncclCommSplit(comm_, NCCL_SPLIT_NOCOLOR, 0, &child, nullptr), ncclSuccess);
  EXPECT_EQ(child, nullptr);
}

TEST_F(NcclTest, takes_device_memory_at_first_use_and_gives_it_back) {
  const int64_t before = QueryDeviceUsage().free_bytes;
  ncclUniqueId id = {};
  ncclGetUniqueId(&id);
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, kRanks, id, 0), ncclSuccess);
  const auto taken = [&] { return (before - QueryDeviceUsage().free_bytes) >> 20; };
  EXPECT_EQ(taken(), 230);
  float* buffer = Device<float>({1});  // one granule of 2 MiB
  ncclAllReduce(buffer, buffer, 1, ncclFloat, ncclSum, comm, nullptr);
  ncclAllReduce(buffer, buffer, 1, ncclFloat, ncclSum, comm, nullptr);
  EXPECT_EQ(taken(), 230 + 2 + 256);
  ncclSend(buffer, 1, ncclFloat, 1, comm, nullptr);
  ncclSend(buffer, 1, ncclFloat, 1, comm, nullptr);
  EXPECT_EQ(taken(), 230 + 2 + 256 + 64);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(taken(), 2);
  EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
}

TEST_F(NcclTest, a_full_device_fails_as_nccl_does) {
  const int64_t free_bytes = QueryDeviceUsage().free_bytes;
  void* rest = DeviceAllocate(static_cast<size_t>(free_bytes - (100 << 20)));
  ASSERT_NE(rest, nullptr);
  ncclUniqueId id = {};
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, kRanks, id, 0), ncclUnhandledCudaError);
  EXPECT_TRUE(DeviceFree(rest));
}

}  // namespace
}  // namespace prism::shim
