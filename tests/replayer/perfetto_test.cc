// Reads a trace back with libprotobuf, which shares nothing with our writer.
#include "replayer/report/perfetto.h"

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replayer/engine/replay_options.h"
#include "replayer/replay.h"
#include "tests/replayer/perfetto_test.pb.h"
#include "tests/support/tiny_graph.h"

namespace prism::replayer {
namespace {

using prism::testing::Collective;
using prism::testing::Kernel;
using prism::testing::Sync;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

struct ReadSlice {
  std::string track;  // "rank 0: stage 0/stream 1"
  std::string name;
  uint64_t begin = 0;
  uint64_t end = 0;
  size_t depth = 0;
  std::vector<uint64_t> flows;
};

// Follows the packets as Perfetto's importer does: state first, names before use, ends close the
// innermost slice of their track.
class Reader {
 public:
  void Read(const std::string& bytes) {
    prism::testing::pftrace::Trace trace;
    ASSERT_TRUE(trace.ParseFromString(bytes));
    uint64_t now = 0;
    for (const auto& packet : trace.packet()) {
      ASSERT_EQ(packet.trusted_packet_sequence_id(), 1U);
      ASSERT_EQ(packet.sequence_flags(), &packet == &trace.packet(0) ? 1U : 2U);
      for (const auto& name : packet.interned_data().event_names()) {
        names_[name.iid()] = name.name();
      }
      if (packet.has_track_descriptor()) {
        ReadTrack(packet.track_descriptor());
      }
      if (packet.has_track_event()) {
        ASSERT_GE(packet.timestamp(), now);
        now = packet.timestamp();
        ReadEvent(packet.track_event(), now);
      }
    }
    for (const auto& [track, open] : open_) {
      EXPECT_THAT(open, IsEmpty()) << tracks_[track];
    }
  }

  [[nodiscard]] const std::vector<ReadSlice>& slices() const { return slices_; }

  // "<name> <begin>..<end> depth <depth>" of the slices of a track.
  [[nodiscard]] std::vector<std::string> On(const std::string& track) const {
    std::vector<std::string> result;
    for (const ReadSlice& slice : slices_) {
      if (slice.track == track) {
        result.push_back(
            fmt::format("{} {}..{} depth {}", slice.name, slice.begin, slice.end, slice.depth));
      }
    }
    return result;
  }

 private:
  void ReadTrack(const prism::testing::pftrace::TrackDescriptor& track) {
    if (track.has_process()) {
      processes_[track.process().pid()] = track.process().process_name();
    } else {
      ASSERT_TRUE(processes_.contains(track.thread().pid()));
      tracks_[track.uuid()] = processes_[track.thread().pid()] + "/" + track.thread().thread_name();
    }
  }

  void ReadEvent(const prism::testing::pftrace::TrackEvent& event, uint64_t now) {
    ASSERT_TRUE(tracks_.contains(event.track_uuid()));
    std::vector<size_t>& open = open_[event.track_uuid()];
    if (event.type() == 2) {
      ASSERT_FALSE(open.empty());
      slices_[open.back()].end = now;
      open.pop_back();
      return;
    }
    ASSERT_EQ(event.type(), 1);
    ASSERT_TRUE(names_.contains(event.name_iid()));
    ReadSlice slice = {tracks_[event.track_uuid()],
                       names_[event.name_iid()],
                       now,
                       0,
                       open.size(),
                       {event.flow_ids().begin(), event.flow_ids().end()}};
    open.push_back(slices_.size());
    slices_.push_back(slice);
  }

  std::map<uint64_t, std::string> names_;
  std::map<int32_t, std::string> processes_;
  std::map<uint64_t, std::string> tracks_;
  std::map<uint64_t, std::vector<size_t>> open_;
  std::vector<ReadSlice> slices_;
};

TEST(Perfetto, slices_tracks_and_flows_read_back) {
  graph::Graph graph =
      prism::testing::TinyGraph({{Kernel(0, 100), Collective(1, 0, 30), Sync(), Kernel(0, 7)},
                                 {Kernel(0, 40), Collective(0, 0, 30), Kernel(0, 2)}});
  ReplayOptions options;
  options.iterations = 1;
  options.traced = {Rank(0), Rank(1)};
  Result<ReplayResult> result = Replay(graph, options);
  ASSERT_TRUE(result.ok());
  std::string bytes = EncodePerfetto(graph, result->timelines);
  EXPECT_EQ(bytes, EncodePerfetto(graph, result->timelines));
  Reader reader;
  reader.Read(bytes);
  EXPECT_THAT(reader.On("rank 0: stage 0/stream 0"),
              ElementsAre("kernel 0..100 depth 0", "kernel 100..107 depth 0"));
  EXPECT_THAT(reader.On("rank 0: stage 0/stream 1"),
              ElementsAre("all_reduce world 0..70 depth 0", "transfer 40..70 depth 1"));
  EXPECT_THAT(reader.On("rank 0: stage 0/host"), ElementsAre("device sync 0..100 depth 0"));
  std::map<uint64_t, std::vector<std::string>> flows;
  for (const ReadSlice& slice : reader.slices()) {
    for (uint64_t flow : slice.flows) {
      flows[flow].push_back(slice.track);
    }
  }
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_THAT(flows.begin()->second,
              UnorderedElementsAre("rank 0: stage 0/stream 1", "rank 1: stage 1/stream 0"));
}

}  // namespace
}  // namespace prism::replayer
