// Sandbox ranks on GPUs that are faster or slower than their graph, kernel by kernel: the deadlines
// of their holds and the time of the run are those of a replay in which their kernels take as long
// as on those GPUs, whatever the scale.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "launch/emulate/clock/coordinator.h"
#include "replayer/engine/op_position.h"
#include "replayer/engine/replay_options.h"
#include "replayer/engine/replay_result.h"
#include "replayer/replay.h"
#include "tests/support/tell_coordinator.h"
#include "tests/support/tiny_graph.h"

namespace prism::launch {
namespace {

using testing::Collective;
using testing::Kernel;
using testing::TinyOp;

constexpr int kIterations = 2;

// Ranks that meet at the end of every phase.
struct Job {
  std::vector<std::vector<int64_t>> kernel_ns;  // by rank and phase
  std::vector<int64_t> transfer_ns;             // by phase
  bool overlaps;  // collectives have a separate stream, and compute waits only at the end
};

constexpr uint32_t kOpsOfPhase[] = {2, 4};

uint32_t OpsOfIteration(const Job& job) {
  const auto phases = static_cast<uint32_t>(job.transfer_ns.size());
  return phases * kOpsOfPhase[job.overlaps ? 1 : 0] + (job.overlaps ? 3 : 1);
}

graph::Graph GraphOf(const Job& job) {
  std::vector<std::vector<TinyOp>> ranks;
  for (const std::vector<int64_t>& kernels : job.kernel_ns) {
    std::vector<TinyOp>& ops = ranks.emplace_back();
    for (size_t phase = 0; phase < kernels.size(); ++phase) {
      ops.push_back(Kernel(0, kernels[phase]));
      if (job.overlaps) {
        ops.push_back(testing::Record(0));
        ops.push_back(testing::Wait(1, static_cast<uint32_t>(ops.size()) - 1));
      }
      ops.push_back(Collective(job.overlaps ? 1 : 0, 0, job.transfer_ns[phase]));
    }
    if (job.overlaps) {
      ops.push_back(testing::Record(1));
      ops.push_back(testing::Wait(0, static_cast<uint32_t>(ops.size()) - 1));
    }
    ops.push_back(testing::Sync());
  }
  return testing::TinyGraph(ranks);
}

replayer::ReplayOptions Options() {
  replayer::ReplayOptions options;
  options.iterations = kIterations;
  return options;
}

// A GPU with the streams of a job, and a timer with an arbitrary origin.
struct Gpu {
  int64_t compute_ns;
  int64_t transfers_ns;
};

class Emulation {
 public:
  // `real`: the job as the GPUs of the measured ranks run it.
  Emulation(const graph::Graph& graph, const Job& real, std::vector<Rank> measured, int64_t scale)
      : real_(real), measured_(std::move(measured)), scale_(scale) {
    Result<Coordinator> made = Coordinator::Create(graph, Options(), measured_);
    RC_ASSERT(made.ok());
    coordinator_.emplace(*std::move(made));
    coordinator_->MeasureArrivals(static_cast<double>(scale));
    for (const Rank rank : measured_) {
      Tell(RankEventKind::kIssued, rank, OpsOfIteration(real) * kIterations, 0);
      const int64_t timer = 1'000'000'000 * (1 + rank.value());
      gpus_.push_back({timer, timer});
    }
  }

  replayer::ReplayResult Run() {
    const auto phases = static_cast<uint32_t>(real_.transfer_ns.size());
    for (uint32_t iteration = 0; iteration < kIterations; ++iteration) {
      for (uint32_t phase = 0; phase < phases; ++phase) {
        RunPhase(iteration * OpsOfIteration(real_), phase);
      }
      for (Gpu& gpu : gpus_) {
        gpu.compute_ns = std::max(gpu.compute_ns, gpu.transfers_ns);
      }
    }
    for (const Rank rank : measured_) {
      coordinator_->RankLeft(rank);
    }
    coordinator_->Advance();
    RC_ASSERT(coordinator_->finished());
    return coordinator_->Summarise();
  }

 private:
  void RunPhase(uint32_t first_op, uint32_t phase) {
    const uint32_t ops = kOpsOfPhase[real_.overlaps ? 1 : 0];
    const replayer::OpPosition position = first_op + phase * ops + ops - 1;
    for (size_t i = 0; i < gpus_.size(); ++i) {
      Gpu& gpu = gpus_[i];
      gpu.compute_ns += real_.kernel_ns[measured_[i].value()][phase] / scale_;
      Tell(RankEventKind::kArrived, measured_[i], position,
           std::max(gpu.compute_ns, gpu.transfers_ns));
    }
    const AnswerBatch batch = coordinator_->Advance();
    RC_ASSERT(batch.holds.size() == gpus_.size());
    for (const HoldEnd& end : batch.holds) {
      const auto at = std::find(measured_.begin(), measured_.end(), end.rank) - measured_.begin();
      Gpu& gpu = gpus_[static_cast<size_t>(at)];
      gpu.transfers_ns = end.gpu_ns;
      gpu.compute_ns = real_.overlaps ? gpu.compute_ns : end.gpu_ns;
      Tell(RankEventKind::kPassed, end.rank, position, end.gpu_ns);
    }
  }

  void Tell(RankEventKind kind, Rank rank, replayer::OpPosition position, int64_t value) {
    testing::TellCoordinator({.kind = kind, .rank = rank, .position = position, .value = value},
                             &*coordinator_);
  }

  const Job& real_;
  const std::vector<Rank> measured_;
  const int64_t scale_;
  std::optional<Coordinator> coordinator_;
  std::vector<Gpu> gpus_;
};

// A multiple of every scale, so nothing is rounded.
int64_t DrawTime() {
  return 8 * *rc::gen::inRange<int64_t>(1, 200);
}

RC_GTEST_PROP(ArrivalFeedback, moves_the_run_as_a_replay_with_the_same_delays, ()) {
  Job by_graph;
  by_graph.overlaps = *rc::gen::arbitrary<bool>();
  const auto phases = *rc::gen::inRange<size_t>(1, 6);
  std::generate_n(std::back_inserter(by_graph.transfer_ns), phases, DrawTime);
  const auto ranks = *rc::gen::inRange<uint32_t>(2, 6);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    std::generate_n(std::back_inserter(by_graph.kernel_ns.emplace_back()), phases, DrawTime);
  }
  Job real = by_graph;
  std::vector<Rank> measured;
  const auto measured_ranks = *rc::gen::inRange<uint32_t>(1, ranks + 1);
  for (uint32_t rank = 0; rank < measured_ranks; ++rank) {
    measured.emplace_back(rank);
    // The first arrival sets the clocks: by definition it is at the graph's time.
    std::generate(real.kernel_ns[rank].begin() + 1, real.kernel_ns[rank].end(), DrawTime);
  }
  const int64_t scale = *rc::gen::element<int64_t>(1, 2, 8);

  const graph::Graph graph = GraphOf(by_graph);
  const replayer::ReplayResult emulated = Emulation(graph, real, measured, scale).Run();
  const Result<replayer::ReplayResult> replayed = replayer::Replay(GraphOf(real), Options());
  RC_ASSERT(replayed.ok());
  RC_ASSERT(emulated.iteration_ns == replayed->iteration_ns);
}

}  // namespace
}  // namespace prism::launch
