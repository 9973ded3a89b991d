// Holds over a driver whose GPU is the CPU (tests/support/fake_cuda_driver.cc): the image of the
// real kernels is loaded and the logic from which they are compiled runs, with one thread per
// block.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shim/gpu/hold_device.h"
#include "shim/gpu/host_machine.h"

namespace prism::shim {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;

constexpr uint64_t kShortNs = 2'000'000;
constexpr const char* kKernel = "prism_hold_allreduce";

template <typename Call>
Call Fake(const char* name) {
  static void* const library = dlopen(PRISM_FAKE_DRIVER, RTLD_NOW);
  return reinterpret_cast<Call>(dlsym(library, name));
}

class Stream {
 public:
  Stream() { Fake<decltype(&cuStreamCreate)>("cuStreamCreate")(&stream_, 0); }
  ~Stream() { Fake<decltype(&cuStreamDestroy)>("cuStreamDestroy_v2")(stream_); }
  void Wait() const { Fake<decltype(&cuStreamSynchronize)>("cuStreamSynchronize")(stream_); }
  [[nodiscard]] CUstream get() const { return stream_; }

 private:
  CUstream stream_ = nullptr;
};

class HoldTest : public ::testing::TestWithParam<HoldMeans> {
 protected:
  void SetUp() override {
    Driver driver;
    ASSERT_EQ(LoadDriver(PRISM_FAKE_DRIVER, &driver), nullptr);
    std::string error;
    device_ = HoldDevice::Create(driver, GetParam(), &error);
    ASSERT_NE(device_, nullptr) << error;
  }

  // The next thing that happens on a hold stream.
  HoldEvent Next(uint32_t hold_stream) {
    while (true) {
      for (size_t i = 0; i < events_.size(); ++i) {
        if (events_[i].hold_stream == hold_stream) {
          const HoldEvent event = events_[i];
          events_.erase(events_.begin() + static_cast<long>(i));
          return event;
        }
      }
      device_->Poll(&events_);
    }
  }

  std::unique_ptr<HoldDevice> device_;
  std::vector<HoldEvent> events_;
};

TEST_P(HoldTest, begins_when_its_stream_arrives_and_ends_at_its_deadline) {
  const Stream stream;
  uint64_t last_end = 0;
  for (uint64_t sequence = 0; sequence < 10; ++sequence) {  // more than there are slots
    ASSERT_TRUE(device_->Launch(kKernel, 7, 4, stream.get()));
    const HoldEvent begun = Next(7);
    EXPECT_FALSE(begun.ended);
    EXPECT_EQ(begun.sequence, sequence);
    EXPECT_GE(begun.time_ns, last_end);
    const uint64_t deadline = begun.time_ns + kShortNs;
    device_->SetDeadline(7, sequence, deadline);
    const HoldEvent ended = Next(7);
    EXPECT_TRUE(ended.ended);
    EXPECT_EQ(ended.sequence, sequence);
    EXPECT_GE(ended.time_ns, deadline);
    last_end = ended.time_ns;
  }
  EXPECT_FALSE(device_->HasOpen());
}

// An H100's NVLink and one NIC, on 24 channels; and what a launch tells the kernel.
TEST(HoldTraffic, is_that_of_a_ring_over_the_link_in_equal_parts) {
  EXPECT_EQ(HoldBytesPerUs(450'000'000'000, 24), 28'125U);
  EXPECT_EQ(HoldBytesPerUs(50'000'000'000, 24), 3'125U);
  const HoldTraffic traffic = {0, 0, 1'000};
  EXPECT_FALSE(IsAhead(traffic, 10'000, 10'000));
  EXPECT_TRUE(IsAhead(traffic, 10'001, 10'000));

  Driver driver;
  ASSERT_EQ(LoadDriver(PRISM_FAKE_DRIVER, &driver), nullptr);
  std::string error;
  const auto device = HoldDevice::Create(driver, HoldMeans::kKernel, &error);
  ASSERT_NE(device, nullptr) << error;
  const Stream stream;
  ASSERT_TRUE(device->Launch(kKernel, 4, 2, stream.get(), 28'125));
  const HoldTraffic* const told = Fake<const HoldTraffic* (*)()>("fake_last_traffic")();
  EXPECT_EQ(told->bytes_per_us, 28'125U);
  EXPECT_NE(told->buffer, 0U);
  EXPECT_EQ(told->bytes, uint64_t{64} << 20U);  // more than the cache of any GPU with Hopper's
  device->Abort();
  stream.Wait();
}

TEST_P(HoldTest, waits_without_end_for_a_deadline_that_is_not_known) {
  const Stream stream;
  ASSERT_TRUE(device_->Launch(kKernel, 0, 2, stream.get()));
  EXPECT_FALSE(Next(0).ended);
  const uint64_t later = HostNowNs() + 10 * kShortNs;
  while (HostNowNs() < later) {
    EXPECT_FALSE(device_->Poll(&events_));
  }
  device_->SetDeadline(0, 0, 1);  // past: ends at once
  EXPECT_TRUE(Next(0).ended);
}

TEST_P(HoldTest, what_follows_in_the_stream_waits_for_it) {
  const Stream stream;
  static std::atomic<uint64_t> after = 0;
  after = 0;
  ASSERT_TRUE(device_->Launch(kKernel, 1, 3, stream.get()));
  Fake<decltype(&cuLaunchHostFunc)>("cuLaunchHostFunc")(
      stream.get(), [](void* /*unused*/) { after = HostNowNs(); }, nullptr);
  const uint64_t deadline = Next(1).time_ns + kShortNs;
  device_->SetDeadline(1, 0, deadline);
  EXPECT_TRUE(Next(1).ended);
  stream.Wait();
  EXPECT_GE(after.load(), deadline);
}

TEST_P(HoldTest, streams_do_not_wait_for_each_other) {
  const Stream first;
  const Stream second;
  ASSERT_TRUE(device_->Launch(kKernel, 1, 2, first.get()));
  ASSERT_TRUE(device_->Launch(kHoldTransferName, 2, 2, second.get()));
  EXPECT_FALSE(Next(1).ended);
  EXPECT_FALSE(Next(2).ended);
  device_->SetDeadline(2, 0, 1);
  EXPECT_TRUE(Next(2).ended);
  EXPECT_TRUE(device_->HasOpen());
  device_->SetDeadline(1, 0, 1);
  EXPECT_TRUE(Next(1).ended);
}

// The launch that finds it full waits for the first hold to end.
TEST_P(HoldTest, a_full_queue_keeps_no_hold_from_ending) {
  constexpr uint64_t kHolds = 300;  // the fake driver's queue takes fewer
  const Stream stream;
  std::thread launcher([&] {
    for (uint64_t hold = 0; hold < kHolds; ++hold) {
      EXPECT_TRUE(device_->Launch(kKernel, 3, 1, stream.get()));
    }
  });
  for (uint64_t hold = 0; hold < kHolds; ++hold) {
    EXPECT_FALSE(Next(3).ended);
    if (hold == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until it is full
    }
    device_->SetDeadline(3, hold, 1);
    EXPECT_TRUE(Next(3).ended);
  }
  launcher.join();
  EXPECT_FALSE(device_->HasOpen());
}

TEST_P(HoldTest, abort_ends_those_that_wait_and_those_that_come) {
  const Stream stream;
  ASSERT_TRUE(device_->Launch(kKernel, 3, 4, stream.get()));
  EXPECT_FALSE(Next(3).ended);
  device_->SetDeadline(3, 0, HostNowNs() + 3'600'000'000'000);
  device_->Abort();
  EXPECT_TRUE(Next(3).ended);
  ASSERT_TRUE(device_->Launch(kKernel, 3, 4, stream.get()));
  EXPECT_FALSE(Next(3).ended);
  EXPECT_TRUE(Next(3).ended);
  stream.Wait();
}

TEST_P(HoldTest, each_launch_of_a_graph_looks_its_own_deadlines_up) {
  const Stream stream;
  Fake<decltype(&cuStreamBeginCapture)>("cuStreamBeginCapture_v2")(stream.get(),
                                                                   CU_STREAM_CAPTURE_MODE_GLOBAL);
  const bool captured = device_->Capture(kKernel, 5, 2, stream.get()) &&
                        device_->Capture(kKernel, 5, 4, stream.get());
  CUgraph graph = nullptr;
  Fake<decltype(&cuStreamEndCapture)>("cuStreamEndCapture")(stream.get(), &graph);
  ASSERT_EQ(captured, GetParam() != HoldMeans::kWaitValue);
  if (!captured) {
    return;
  }
  EXPECT_FALSE(device_->HasOpen());
  for (uint64_t launch = 0; launch < 3; ++launch) {
    device_->CountLaunch(5);
    device_->CountLaunch(5);
    Fake<CUresult (*)(CUgraph, CUstream)>("cuGraphLaunch")(graph, stream.get());
    for (uint64_t sequence = 2 * launch; sequence < 2 * launch + 2; ++sequence) {
      const HoldEvent begun = Next(5);
      EXPECT_EQ(begun.sequence, sequence);
      const uint64_t deadline = begun.time_ns + kShortNs / 4 * (sequence + 1);
      device_->SetDeadline(5, sequence, deadline);
      EXPECT_GE(Next(5).time_ns, deadline);
    }
  }
}

std::string MeansName(const ::testing::TestParamInfo<HoldMeans>& means) {
  static const std::vector<std::string> names = {"kernel", "wait_value", "host_callback"};
  return names[static_cast<size_t>(means.param)];
}

INSTANTIATE_TEST_SUITE_P(Means,
                         HoldTest,
                         ::testing::Values(HoldMeans::kKernel,
                                           HoldMeans::kWaitValue,
                                           HoldMeans::kHostCallback),
                         MeansName);

TEST(HoldBlocks, are_the_channels_of_nccl_where_there_is_enough_for_each) {
  EXPECT_EQ(HoldBlocks(1, 24), 1U);
  EXPECT_EQ(HoldBlocks(4 * 512 * 64, 24), 4U);
  EXPECT_EQ(HoldBlocks(int64_t{1} << 30, 24), 24U);
  EXPECT_EQ(HoldBlocks(int64_t{1} << 30, 0), 1U);
}

// Architectures of the fat binary inside a file that has a kernel: it begins with its magic number
// and the sizes of header and body; an entry with its kind (2: an ELF), the size of its header,
// that of its body and, at 28, its architecture.
std::set<uint32_t> Architectures(const std::string& bytes, std::string_view kernel) {
  std::set<uint32_t> found;
  const auto at = [&bytes]<typename T>(size_t offset, T) {
    T value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof(value));
    return value;
  };
  const std::string magic = "\x50\xED\x55\xBA";
  for (size_t begin = bytes.find(magic); begin != bytes.npos && begin + 64 < bytes.size();
       begin = bytes.find(magic, begin + 1)) {
    const size_t end = begin + 16 + at(begin + 8, uint64_t{});
    if (std::string_view(bytes).substr(begin, end - begin).find(kernel) == bytes.npos) {
      continue;
    }
    for (size_t entry = begin + 16; entry + 64 < std::min(end, bytes.size());) {
      if (at(entry, uint16_t{}) == 2) {
        found.insert(at(entry + 28, uint32_t{}));
      }
      entry += std::max(64U, at(entry + 4, uint32_t{})) + at(entry + 8, uint64_t{});
    }
  }
  return found;
}

TEST(HoldImage, the_device_library_holds_code_for_the_supported_architectures) {
  std::ifstream file(PRISM_DEVICE_LIBRARY, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  const std::string bytes = text.str();
  for (const char* const kernel : {"prism_hold_reducescatter", "prism_reduce"}) {
    EXPECT_THAT(Architectures(bytes, kernel), IsSupersetOf({80U, 90U, 100U})) << kernel;
  }
}

}  // namespace
}  // namespace prism::shim
