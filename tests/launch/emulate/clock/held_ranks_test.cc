// Sandbox ranks on GPUs with one virtual peer, end to end: each rank is a thread with a stream of
// the fake driver, holds with the real image's kernels, and its own service and channel; worker and
// process 0 are this thread.
#include <dlfcn.h>
#include <time.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <cuda.h>
#include <gtest/gtest.h>

#include "launch/emulate/clock/coordinator.h"
#include "launch/emulate/clock/hold_streams.h"
#include "shim/channel/channel.h"
#include "shim/gpu/hold_device.h"
#include "shim/gpu/hold_service.h"
#include "tests/support/tiny_graph.h"

namespace prism::launch {
namespace {

using channel::Record;
using channel::RecordKind;
using testing::Collective;
using testing::Kernel;

constexpr int kIterations = 3;
constexpr int64_t kMs = 1'000'000;
constexpr int64_t kVirtualKernelNs = 20 * kMs;  // of the virtual rank, the slowest according to its
                                                // graph
constexpr int64_t kTransferNs = 2 * kMs;
constexpr uint32_t kHoldStream = 3;

template <typename Call>
Call Fake(const char* name) {
  static void* const library = dlopen(PRISM_FAKE_DRIVER, RTLD_NOW);
  return reinterpret_cast<Call>(dlsym(library, name));
}

void Sleep(int64_t duration_ns) {
  const timespec time = {.tv_sec = 0, .tv_nsec = duration_ns};
  nanosleep(&time, nullptr);
}

// The process of a rank: issues kernels and collectives without waiting in between.
class HeldRank {
 public:
  // `kernel_ns`: by iteration, the time of its kernels.
  explicit HeldRank(std::vector<int64_t> kernel_ns)
      : consumer_(channel::Config{}),
        header_(channel::MapChannel(consumer_.descriptor())),
        kernel_ns_(std::move(kernel_ns)) {
    shim::Driver driver;
    std::string error;
    EXPECT_EQ(shim::LoadDriver(PRISM_FAKE_DRIVER, &driver), nullptr);
    device_ = shim::HoldDevice::Create(driver, shim::HoldMeans::kKernel, &error);
    EXPECT_NE(device_, nullptr) << error;
    Fake<decltype(&cuStreamCreate)>("cuStreamCreate")(&stream_, 0);
    program_ = std::thread([this] { Run(); });
    service_ = std::thread([this] { Serve(); });
  }

  ~HeldRank() {
    device_->Abort();
    program_.join();
    service_.join();
    Fake<decltype(&cuStreamDestroy)>("cuStreamDestroy_v2")(stream_);
  }

  channel::Consumer& consumer() { return consumer_; }
  HoldStreams& streams() { return streams_; }
  [[nodiscard]] bool finished() const { return finished_; }

 private:
  void Push(const Record& record) {
    const std::lock_guard<std::mutex> lock(ring_);
    channel::Push(header_, record, nullptr, 0);
  }

  void Run() {
    for (int64_t& kernel_ns : kernel_ns_) {
      Record record = {};
      record.kind = RecordKind::kCollective;
      record.hold_stream = kHoldStream + 1;
      Fake<decltype(&cuLaunchHostFunc)>("cuLaunchHostFunc")(
          stream_, [](void* duration) { Sleep(*static_cast<int64_t*>(duration)); }, &kernel_ns);
      Push(record);
      EXPECT_TRUE(device_->Launch("prism_hold_allreduce", kHoldStream, 2, stream_));
    }
    Fake<decltype(&cuStreamSynchronize)>("cuStreamSynchronize")(stream_);
    while (device_->HasOpen()) {
      sched_yield();
    }
    finished_ = true;
  }

  void Serve() {
    shim::HoldService service(
        device_.get(), header_, [this](const Record& record) { Push(record); },
        [](uint32_t, uint64_t) { return true; });
    while (!finished_) {
      if (!service.Step()) {
        sched_yield();
      }
    }
  }

  channel::Consumer consumer_;
  channel::Header* header_;
  std::vector<int64_t> kernel_ns_;
  std::unique_ptr<shim::HoldDevice> device_;
  CUstream stream_ = nullptr;
  std::mutex ring_;
  std::atomic<bool> finished_ = false;
  HoldStreams streams_;
  std::thread program_;
  std::thread service_;
};

// Ranks 0 and 1 run on GPUs, rank 2 is virtual. According to the graph each of the first two
// computes for a millisecond.
graph::Graph ThreeRanks() {
  const std::vector<testing::TinyOp> real = {Kernel(0, kMs), Collective(0, 0, kTransferNs)};
  return testing::TinyGraph(
      {real, real, {Kernel(0, kVirtualKernelNs), Collective(0, 0, kTransferNs)}});
}

class HeldRanksTest : public ::testing::Test {
 protected:
  void Start(const std::vector<std::vector<int64_t>>& kernels_ns) {
    replayer::ReplayOptions options;
    options.iterations = kIterations;
    Result<Coordinator> made = Coordinator::Create(graph_, options, {Rank(0), Rank(1)});
    ASSERT_TRUE(made.ok()) << made.status().message();
    coordinator_.emplace(*std::move(made));
    coordinator_->MeasureArrivals(1);
    for (const std::vector<int64_t>& kernel_ns : kernels_ns) {
      ranks_.push_back(std::make_unique<HeldRank>(kernel_ns));
    }
  }

  // What a worker does with a record (EmulationWorker), in this graph: an iteration is two ops, the
  // second of them the collective.
  void TakeRecord(uint32_t rank, const Record& record) {
    RankEvent event;
    event.rank = Rank(rank);
    if (record.kind == RecordKind::kCollective) {
      event.position = issued_[rank] += 2;
      ranks_[rank]->streams().Add(record.hold_stream - 1, event.position - 1);
    } else {
      event.kind = record.hold.ended != 0 ? RankEventKind::kPassed : RankEventKind::kArrived;
      event.position =
          *ranks_[rank]->streams().PositionOf(record.hold.hold_stream, record.hold.sequence);
      event.value = static_cast<int64_t>(record.hold.time_ns);
      (record.hold.ended != 0 ? ends_ : arrivals_)[rank].push_back(event.value);
    }
    WireWriter out;
    PutEvent(event, &out);
    const std::string bytes = out.Take();
    WireReader in(bytes);
    coordinator_->Take(&in);
  }

  // False: there was nothing to do.
  bool Step() {
    bool busy = false;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      Record record;
      std::span<const std::byte> payload;
      while (ranks_[rank]->consumer().TryPop(&record, &payload)) {
        TakeRecord(rank, record);
        busy = true;
      }
    }
    if (!busy) {
      return false;
    }
    for (const HoldEnd& end : coordinator_->Advance().holds) {
      HeldRank& rank = *ranks_[end.rank.value()];
      const auto hold = rank.streams().HoldAt(end.position);
      rank.consumer().SetDeadline(hold->hold_stream, hold->sequence,
                                  static_cast<uint64_t>(end.gpu_ns));
    }
    return true;
  }

  replayer::ReplayResult RunToEnd() {
    bool running = true;
    while (running) {
      running = !ranks_[0]->finished() || !ranks_[1]->finished();
      if (!Step()) {
        sched_yield();
      }
    }
    for (const Rank rank : {Rank(0), Rank(1)}) {
      coordinator_->RankLeft(rank);
    }
    coordinator_->Advance();
    EXPECT_TRUE(coordinator_->finished());
    return coordinator_->Summarise();
  }

  graph::Graph graph_ = ThreeRanks();
  std::optional<Coordinator> coordinator_;
  std::vector<std::unique_ptr<HeldRank>> ranks_;
  replayer::OpPosition issued_[2] = {0, 0};
  std::vector<int64_t> arrivals_[2];  // by the GPU's timer
  std::vector<int64_t> ends_[2];
};

TEST_F(HeldRanksTest, streams_are_held_until_the_virtual_peer_has_come) {
  Start({{kMs, kMs, kMs}, {kMs, kMs, kMs}});
  const replayer::ReplayResult result = RunToEnd();
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(ends_[rank].size(), 3U);
    // The first arrival is at one millisecond of virtual time.
    EXPECT_GE(ends_[rank][0] - arrivals_[rank][0], kVirtualKernelNs - kMs + kTransferNs);
    for (int i = 1; i < kIterations; ++i) {
      EXPECT_GE(ends_[rank][i], arrivals_[rank][i]);
      EXPECT_GE(arrivals_[rank][i], ends_[rank][i - 1] + kMs);  // the stream kept its order
    }
  }
  EXPECT_GE(result.iteration_ns[1], kVirtualKernelNs + kTransferNs);
}

TEST_F(HeldRanksTest, a_late_rank_delays_the_others) {
  constexpr int64_t kLateKernelNs = 200 * kMs;
  Start({{kMs, kMs, kMs}, {kMs, kLateKernelNs, kMs}});
  const replayer::ReplayResult result = RunToEnd();
  EXPECT_GE(result.iteration_ns[1], kLateKernelNs + kTransferNs);
  // Its peer on the other GPU was held at the collective for as long.
  EXPECT_GE(ends_[0][1] - ends_[0][0], kLateKernelNs);
}

TEST_F(HeldRanksTest, nobody_hangs_when_the_run_is_aborted) {
  Start({{kMs, kMs, kMs}, {kMs, kMs, kMs}});
  while (arrivals_[0].empty()) {
    Step();
  }
  ASSERT_FALSE(ranks_[0]->finished()) << "a hold stands while its peers are not known to come";
  EXPECT_TRUE(ends_[0].empty());
  ranks_.clear();  // aborts and waits for streams and threads
}

}  // namespace
}  // namespace prism::launch
