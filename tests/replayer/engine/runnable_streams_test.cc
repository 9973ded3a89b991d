#include "replayer/engine/runnable_streams.h"

#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prism::replayer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The streams that are asked, in their order; none of them moves.
std::vector<uint16_t> Asked(RunnableStreams* streams) {
  std::vector<uint16_t> asked;
  EXPECT_FALSE(streams->AdvanceAll([&](uint16_t stream) {
    asked.push_back(stream);
    return false;
  }));
  return asked;
}

TEST(RunnableStreams, all_are_asked_once_at_first) {
  RunnableStreams streams(3);
  EXPECT_THAT(Asked(&streams), ElementsAre(0, 1, 2));
  EXPECT_THAT(Asked(&streams), IsEmpty());
  EXPECT_EQ(streams.asked(), 3);
}

TEST(RunnableStreams, a_stream_is_asked_again_when_its_op_is_issued) {
  RunnableStreams streams(2);
  Asked(&streams);
  streams.WaitForHost(1, 7);
  streams.WaitForHost(0, 9);
  streams.Issued(7);
  EXPECT_THAT(Asked(&streams), IsEmpty()) << "ops before the seventh";
  streams.Issued(8);
  EXPECT_THAT(Asked(&streams), ElementsAre(1));
  streams.Issued(20);
  EXPECT_THAT(Asked(&streams), ElementsAre(0));
}

TEST(RunnableStreams, all_that_wait_for_an_event_are_asked_once_when_it_is_recorded) {
  RunnableStreams streams(3);
  Asked(&streams);
  streams.WaitForEvent(2, 5);
  streams.WaitForEvent(0, 5);
  streams.WaitForEvent(1, 6);
  streams.Recorded(5);
  streams.Recorded(5);
  EXPECT_THAT(Asked(&streams), ElementsAre(2, 0));
}

TEST(RunnableStreams, settled_holds_count_from_the_next_taking_on) {
  RunnableStreams streams(2);
  Asked(&streams);
  streams.NoteSettled(1);
  EXPECT_THAT(Asked(&streams), IsEmpty());
  streams.TakeSettled();
  EXPECT_THAT(Asked(&streams), ElementsAre(1));
}

TEST(RunnableStreams, what_becomes_runnable_meanwhile_is_asked_too) {
  RunnableStreams streams(2);
  Asked(&streams);
  streams.WaitForEvent(0, 1);
  streams.NoteSettled(1);
  streams.TakeSettled();
  std::vector<uint16_t> asked;
  EXPECT_TRUE(streams.AdvanceAll([&](uint16_t stream) {
    asked.push_back(stream);
    if (stream == 1) {
      streams.Recorded(1);
    }
    return stream == 1;
  }));
  EXPECT_THAT(asked, ElementsAre(1, 0));
}

TEST(RunnableStreams, with_all_asked_waits_are_not_kept) {
  RunnableStreams streams(2);
  streams.AskAll();
  streams.WaitForHost(1, 7);
  EXPECT_THAT(Asked(&streams), ElementsAre(0, 1));
  EXPECT_THAT(Asked(&streams), ElementsAre(0, 1));
}

}  // namespace
}  // namespace prism::replayer
