#include "slicer/record/pass_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prism::slicer {
namespace {

constexpr uint32_t kNever = PassHistory::kNever;

TEST(PassHistory, the_innermost_marker_with_a_phase_decides) {
  PassHistory history;
  history.BeginMarker("forward");
  history.BeginMarker("layer 3");
  EXPECT_EQ(history.PhaseOf(history.path(), /*in_backward=*/true), Phase::kForward);
  history.BeginMarker("backward of layer 3");
  EXPECT_EQ(history.PhaseOf(history.path(), /*in_backward=*/false), Phase::kBackward);
  EXPECT_THAT(history.Markers(history.path()),
              testing::ElementsAre("forward", "layer 3", "backward of layer 3"));
}

TEST(PassHistory, markers_close_in_any_order) {
  PassHistory history;
  history.BeginMarker("forward");
  history.BeginMarker("layer 0");
  history.EndMarker("forward");
  history.EndMarker("optimizer");
  EXPECT_THAT(history.Markers(history.path()), testing::ElementsAre("layer 0"));
}

TEST(PassHistory, what_happens_last_in_an_iteration_is_before_its_end) {
  PassHistory history;
  EXPECT_EQ(history.FirstIteration(), kNever);
  history.BeginMarker("iteration");
  const uint32_t first = history.now();
  const uint32_t last_event = history.Tick();
  history.EndMarker("iteration");
  const uint32_t end = history.now();
  history.BeginMarker("iteration");
  EXPECT_EQ(history.FirstIteration(), first);
  EXPECT_EQ(history.IterationEnd(last_event), end);
  EXPECT_EQ(history.IterationEnd(history.Tick()), kNever);
}

TEST(PassHistory, a_forward_pass_without_a_name_ends_where_backward_begins) {
  PassHistory history;
  const uint32_t forward = history.Tick();
  EXPECT_FALSE(history.SeePass(/*in_backward=*/false));
  EXPECT_TRUE(history.SeePass(/*in_backward=*/true));
  EXPECT_FALSE(history.SeePass(/*in_backward=*/true));
  EXPECT_EQ(history.ForwardEnd(forward), history.now());
  EXPECT_EQ(history.PhaseOf(history.path(), /*in_backward=*/true), Phase::kBackward);
}

TEST(PassHistory, a_forward_pass_with_a_name_ends_there) {
  PassHistory history;
  history.BeginMarker("forward");
  const uint32_t forward = history.Tick();
  history.EndMarker("forward");
  const uint32_t end = history.now();
  history.Tick();
  EXPECT_TRUE(history.SeePass(/*in_backward=*/true));
  EXPECT_EQ(history.ForwardEnd(forward), end);
  EXPECT_EQ(history.ForwardEnd(end), kNever);
}

TEST(PassHistory, a_repeated_forward_pass_has_ends_of_its_own) {
  PassHistory history;
  history.BeginMarker("backward");
  history.BeginMarker("recompute");
  const uint32_t inside = history.Tick();
  EXPECT_EQ(history.PhaseOf(history.path(), /*in_backward=*/true), Phase::kRecompute);
  history.EndMarker("recompute");
  EXPECT_EQ(history.RecomputeEnd(inside), history.now());
  EXPECT_EQ(history.ForwardEnd(inside), kNever);
}

}  // namespace
}  // namespace prism::slicer
