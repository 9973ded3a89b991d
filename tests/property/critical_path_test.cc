// The critical path on random graphs with all perturbations: it has the length of the iteration,
// has no gap, and each of its steps is what the rank did then according to the simple evaluator.
#include "replayer/blame/critical_path.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "replayer/replay.h"
#include "tests/support/random_perturbations.h"
#include "tests/support/simple_evaluator.h"

namespace prism::replayer {
namespace {

using graph::OpKind;

// Whether the op of that kind, in one of the iterations, ended when the step does and began when
// the step does or, where the iteration cut it off, before.
class StepCheck {
 public:
  StepCheck(const graph::Graph& graph, const std::vector<Timeline>& timelines)
      : graph_(graph), timelines_(timelines) {}

  [[nodiscard]] bool Holds(const PathStep& step, bool first) const {
    const graph::Program& program = graph_.role_of(step.rank).program;
    const Timeline& times = timelines_[step.rank.value()];
    for (size_t at = step.op; at < times.end.size(); at += program.size()) {
      const TimeNs begin = BeginOf(step, times, at);
      const bool begins = first ? begin <= step.begin : begin == step.begin;
      if (begins && EndOf(step, times, at) == step.end) {
        return true;
      }
    }
    return false;
  }

 private:
  static TimeNs EndOf(const PathStep& step, const Timeline& times, size_t at) {
    return step.kind == PathKind::kHost ? times.issue[at] : times.end[at];
  }

  [[nodiscard]] TimeNs BeginOf(const PathStep& step, const Timeline& times, size_t at) const {
    const graph::Program& program = graph_.role_of(step.rank).program;
    switch (step.kind) {
      case PathKind::kCompute:
      case PathKind::kCopy:
        return times.start[at];
      case PathKind::kTransfer:
        return TransferBegin(step, times, at);
      case PathKind::kOverlap: {
        const uint32_t dep = program.dep[step.op];
        if (program.kind[step.op] == OpKind::kEventWait) {
          return std::max(times.start[at], times.end[at - step.op + dep]);
        }
        return step.begin;  // the host waits: its end is checked
      }
      case PathKind::kHost:
        return HostBegin(times, at, program, step.begin);
      case PathKind::kLate:
        return 0;
    }
    return -1;
  }

  // A collective begins when one of its members arrives and none arrives later; a transfer when one
  // side does.
  [[nodiscard]] TimeNs TransferBegin(const PathStep& step, const Timeline& times, size_t at) const {
    const graph::Program& program = graph_.role_of(step.rank).program;
    std::vector<uint32_t> members = {step.rank.value(), step.partner.value()};
    if (program.kind[step.op] == OpKind::kCollective) {
      const uint32_t comm = graph_.ranks.comms(step.rank)[program.comm_slot[step.op]];
      const auto all = graph_.communicators.members_of(CommId(comm));
      members.assign(all.begin(), all.end());
      if (times.start[at] > step.begin) {
        return -1;
      }
    }
    const bool comes = std::any_of(members.begin(), members.end(), [&](uint32_t member) {
      const std::vector<TimeNs>& starts = timelines_[member].start;
      return std::find(starts.begin(), starts.end(), step.begin) != starts.end();
    });
    return comes ? step.begin : -1;
  }

  // The end of what the host did before, except for NCCL groups, whose ops are issued together.
  static TimeNs HostBegin(const Timeline& times,
                          size_t at,
                          const graph::Program& program,
                          TimeNs begin) {
    if (at == 0) {
      return begin;
    }
    const OpKind before = program.kind[(at - 1) % program.size()];
    const bool waits = before == OpKind::kEventSync || before == OpKind::kStreamSync ||
                       before == OpKind::kDeviceSync;
    return std::min(begin, waits ? times.end[at - 1] : times.issue[at - 1]);
  }

  const graph::Graph& graph_;
  const std::vector<Timeline>& timelines_;
};

void ExpectContiguous(const CriticalPath& path) {
  TimeNs now = path.begin;
  for (const PathStep& step : path.steps) {
    ASSERT_EQ(step.begin, now);
    ASSERT_GT(step.end, step.begin);
    now = step.end;
  }
  EXPECT_EQ(now, path.end);
}

TEST(CriticalPathProperty, is_contiguous_and_what_ranks_did) {
  for (uint64_t seed = 0; seed < 1000 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const graph::Graph graph = prism::testing::ReplayableGraph(seed);
    ReplayOptions options = prism::testing::RandomPerturbations(graph, seed);
    const Result<ReplayResult> replay = Replay(graph, options);
    ASSERT_TRUE(replay.ok());
    const Result<CriticalPath> path = FindCriticalPath(graph, options);
    if (!path.ok()) {  // the slowest rank uses no device
      EXPECT_EQ(path.status().code(), StatusCode::kInvalidArgument);
      continue;
    }
    EXPECT_EQ(path->end - path->begin, replay->iteration_ns.back());
    ExpectContiguous(*path);
    options.iterations += 1;  // the path may end with the host's work up to the next iteration
    const prism::testing::SimpleResult simple = prism::testing::EvaluateSimply(graph, options);
    const StepCheck check(graph, simple.timelines);
    for (size_t i = 0; i < path->steps.size(); ++i) {
      const PathStep& step = path->steps[i];
      const bool last_of_host = i + 1 == path->steps.size() && step.kind == PathKind::kHost;
      EXPECT_TRUE(last_of_host || check.Holds(step, i == 0))
          << "step " << i << " of rank " << step.rank.value() << " op " << step.op << " kind "
          << static_cast<int>(step.kind) << " " << step.begin << " to " << step.end;
    }
  }
}

}  // namespace
}  // namespace prism::replayer
