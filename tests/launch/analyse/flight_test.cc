// Dumps of PyTorch's flight recorder, made by hand: the format, where a rank departs from the
// graph, and what its peers would have.
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "graph/file.h"
#include "launch/analyse/flight/flight_compare.h"
#include "launch/analyse/flight/flight_match.h"
#include "launch/cli/verb.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/tiny_graph.h"

namespace prism::launch {
namespace {

using testing::Collective;
using ::testing::HasSubstr;
using testing::Send;
using testing::TinyGraph;

// Two ranks; all_reduces have 1024 floats.
graph::Graph JobOf(const std::vector<std::vector<testing::TinyOp>>& ranks) {
  graph::Graph graph = TinyGraph(ranks);
  for (graph::Role& role : graph.roles) {
    for (graph::CollectiveShape& shape : role.program.collectives) {
      shape = {.kind = graph::CollectiveKind::kAllReduce,
               .dtype = DataType::kFloat32,
               .reduce = graph::ReduceOp::kSum,
               .root = -1,
               .bytes = 4096};
    }
  }
  return graph;
}

// Rank 0: an all_reduce, then a send of 4096 bytes to rank 1.
graph::Graph Job() {
  return JobOf({{Collective(0, 0, 1000), Send(1, 1, 500, 4096)},
                {Collective(0, 0, 1000), testing::Receive(1, 0, 500, 4096)}});
}

FlightDump Dump(const std::vector<std::string>& names, int64_t elements = 1024) {
  FlightDump dump;
  dump.version = "2.10";
  dump.groups["0"] = {"default_pg", {Rank(0), Rank(1)}};
  for (const std::string& name : names) {
    FlightEntry entry;
    entry.record_id = static_cast<int64_t>(dump.entries.size());
    entry.op_id = entry.record_id + 1;
    entry.group = "0";
    entry.name = name;
    entry.input = {{{elements}}, {"Float"}};
    entry.output = {{{elements}}, {"Float"}};
    entry.state = "completed";
    entry.frames = {{"step", "train.py", 7}};
    dump.entries.push_back(entry);
    (IsPeerEntry(entry) ? dump.entries.back().p2p_seq_id : dump.entries.back().collective_seq_id) =
        entry.op_id;
  }
  return dump;
}

constexpr const char* kSum = "nccl:all_reduce";
constexpr const char* kSend = "nccl:send 0->1";

// Dumps that other ranks wrote are beside the one that is examined.
TEST(Flight, writes_over_no_dump_of_another_rank) {
  const ScratchFolder scratch;
  const std::string folder = scratch.path() + "/";
  const std::string graph = folder + "job.prism";
  graph::Graph job = Job();
  job.job.parallel.dp = 2;
  ASSERT_TRUE(graph::WriteGraph(job, graph).ok());
  ASSERT_TRUE(WriteFileAtomically(folder + "fr_0", EncodeFlightDump(Dump({kSum}))).ok());
  ASSERT_TRUE(WriteFileAtomically(folder + "fr_1", "its own").ok());
  const auto run = [&] {
    const Verb verb = FlightVerb();
    const Result<VerbArguments> arguments =
        VerbArguments::Parse(verb.spec, {graph, folder + "fr_0", "-o", folder, "--ranks", "1"});
    return verb.run(*arguments).status().message();
  };
  EXPECT_EQ(run(), "-o: " + folder + "/fr_1 exists and would be overwritten; name another folder");
  EXPECT_EQ(*ReadFile(folder + "fr_1"), "its own");
  std::filesystem::remove(folder + "fr_1");
  EXPECT_EQ(run(), "");
  EXPECT_EQ(run(), "");  // the same again
}

TEST(Flight, dump_reads_back) {
  const FlightDump dump = Dump({kSum, kSend, "nccl:coalesced"});
  const Result<FlightDump> read = DecodeFlightDump(EncodeFlightDump(dump), "dump");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(*read == dump);
}

TEST(Flight, damaged_dump_is_refused) {
  const std::string bytes = EncodeFlightDump(Dump({kSum, kSend}));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodeFlightDump(bytes.substr(0, size), "dump").status().code(),
              StatusCode::kBadFile);
  }
}

TEST(Flight, departure_is_where_the_longest_run_ends) {
  const FlightDump dump =
      Dump({"nccl:broadcast", kSum, kSend, kSum, kSend, kSum, "nccl:broadcast", kSend});
  const Result<FlightMatch> match = MatchDump(Job(), Rank(0), dump);
  ASSERT_TRUE(match.ok()) << match.status().message();
  EXPECT_EQ(match->begin, 1U);
  EXPECT_EQ(match->end(), 6U);
  EXPECT_EQ(match->expected().op, 1U);  // the send
  EXPECT_EQ(PeersOfExpected(Job(), Rank(0), *match), std::vector<Rank>{Rank(1)});
}

TEST(Flight, overwritten_dump_begins_inside_an_iteration) {
  const Result<FlightMatch> match =
      MatchDump(Job(), Rank(0), Dump({kSend, kSum, kSend, kSum, kSum}));
  ASSERT_TRUE(match.ok());
  EXPECT_EQ(match->begin, 0U);
  EXPECT_EQ(match->phase, 1U);
  EXPECT_EQ(match->end(), 4U);
}

// Rank 0 of a job that begins an iteration with an exchange, and then reduces twice.
graph::Graph Exchanging() {
  testing::TinyOp exchange = Send(1, 1, 500, 4096);
  exchange.transfers.push_back({false, 0, 1, 4096});
  return JobOf({{exchange, Collective(0, 0, 1000), Collective(0, 0, 1000)}, {}});
}

// The rest of a group whose send was overwritten matches no call.
TEST(Flight, overwritten_dump_begins_inside_a_group) {
  FlightDump dump = Dump({"nccl:recv 0<-1", "nccl:coalesced", kSum, kSum});
  const Result<FlightMatch> match = MatchDump(Exchanging(), Rank(0), dump);
  ASSERT_TRUE(match.ok()) << match.status().message();
  EXPECT_EQ(match->begin, 1U);
  EXPECT_EQ(match->end(), 3U);
  EXPECT_EQ(match->places, 1U);
  EXPECT_EQ(match->expected().op, 0U);  // the exchange
}

// Of four consecutive all_reduces the dump has the last two.
TEST(Flight, counts_the_places_that_match_as_well) {
  const testing::TinyOp sum = Collective(0, 0, 1000);
  const graph::Graph job = JobOf({{sum, sum, sum, sum, Send(1, 1, 500, 4096)}, {}});
  FlightDump dump = Dump({kSum, kSum});
  EXPECT_EQ(MatchDump(job, Rank(0), dump)->places, 1U);  // the process began with them
  for (FlightEntry& entry : dump.entries) {
    entry.record_id += 100;
  }
  EXPECT_EQ(MatchDump(job, Rank(0), dump)->places, 3U);
  EXPECT_EQ(MatchDump(job, Rank(0), dump, 0)->places, 1U);
  dump.entries.push_back(Dump({kSend}).entries.front());
  EXPECT_EQ(MatchDump(job, Rank(0), dump)->places, 1U);
}

TEST(Flight, counts_calls_that_it_does_not_know) {
  const FlightDump dump = Dump(
      {"gloo:send 0->1", kSum, "gloo:send 1->0", "nccl:coalesced", "nccl:allreduce_sparse", kSend});
  const Result<FlightMatch> match = MatchDump(Job(), Rank(0), dump);
  ASSERT_TRUE(match.ok()) << match.status().message();
  EXPECT_EQ(match->count, 2U);
  EXPECT_EQ(match->unknown,
            (std::map<std::string, int64_t>{{"gloo:send", 2}, {"nccl:allreduce_sparse", 1}}));
}

// What is left out or open is reported, in both forms.
TEST(Flight, says_what_is_left_out_and_what_is_open) {
  const ScratchFolder scratch;
  const std::string folder = scratch.path() + "/";
  const testing::TinyOp sum = Collective(0, 0, 1000);
  graph::Graph job = JobOf({{sum, sum, sum}, {sum, sum, sum}});
  job.job.parallel.dp = 2;
  ASSERT_TRUE(graph::WriteGraph(job, folder + "sums.prism").ok());
  FlightDump dump = Dump({"gloo:barrier", kSum});
  dump.entries.front().record_id = 7;
  ASSERT_TRUE(WriteFileAtomically(folder + "open_0", EncodeFlightDump(dump)).ok());
  const auto output = [&](const std::string& format) {
    const Verb verb = FlightVerb();
    return verb
        .run(*VerbArguments::Parse(verb.spec,
                                   {folder + "sums.prism", folder + "open_0", "--format", format}))
        ->text;
  };
  EXPECT_THAT(output("text"), HasSubstr("left out         1 call of gloo:barrier, which"));
  EXPECT_THAT(output("text"), HasSubstr("one of 3 places that match as well"));
  EXPECT_THAT(output("json"), HasSubstr("\"places\": 3"));
  EXPECT_THAT(output("json"), HasSubstr("\"gloo:barrier\": 1"));
}

TEST(Flight, a_call_of_another_size_does_not_match) {
  EXPECT_FALSE(MatchDump(Job(), Rank(0), Dump({kSum, kSend}, 1000)).ok());
}

TEST(Flight, peer_receives_what_the_rank_sends_and_waits_for_what_it_left_out) {
  const FlightDump dump = Dump({kSum, kSend, kSum, "nccl:broadcast"});
  const Result<FlightMatch> match = MatchDump(Job(), Rank(0), dump);
  ASSERT_TRUE(match.ok());
  const FlightDump peer = PeerDump(Job(), Rank(0), dump, *match, Rank(1));
  ASSERT_EQ(peer.entries.size(), 4U);
  EXPECT_EQ(peer.entries[1].name, "nccl:recv 1<-0");
  EXPECT_TRUE(peer.entries[1].frames.empty());
  EXPECT_EQ(peer.entries[3].name, "nccl:recv 1<-0");
  EXPECT_EQ(peer.entries[3].state, "scheduled");
  EXPECT_EQ(peer.entries[3].record_id, 3);
}

TEST(Flight, expected_call_without_one_before_is_made_from_the_graph) {
  const FlightDump dump = Dump({kSend, "nccl:broadcast"});
  const Result<FlightMatch> match = MatchDump(Job(), Rank(0), dump);
  ASSERT_TRUE(match.ok());
  const FlightDump peer = PeerDump(Job(), Rank(0), dump, *match, Rank(1));
  ASSERT_EQ(peer.entries.size(), 2U);
  EXPECT_EQ(peer.entries[1].name, kSum);
  EXPECT_EQ(peer.entries[1].input, (FlightTensors{{{1024}}, {"Float"}}));
}

// Rank 1 hangs before the third sum; rank 2 has no dump.
TEST(FlightCompare, names_who_is_missing_and_where) {
  std::map<uint32_t, FlightDump> dumps = {{0, Dump({kSum, kSum, kSum})}, {1, Dump({kSum, kSum})}};
  for (auto& [rank, dump] : dumps) {
    dump.groups["0"].ranks = {Rank(0), Rank(1), Rank(2)};
  }
  dumps[0].entries[2].state = "scheduled";
  const FlightComparison comparison = CompareDumps(dumps);
  EXPECT_THAT(comparison.absent, ::testing::ElementsAre(2));
  ASSERT_EQ(comparison.gaps.size(), 1U);
  const FlightGap& gap = comparison.gaps.front();
  EXPECT_EQ(gap.number, 3);
  EXPECT_THAT(gap.missing, ::testing::ElementsAre(1));
  EXPECT_EQ(gap.call->state, "scheduled");
  dumps[1] = Dump({kSum, "nccl:all_gather", kSum});
  dumps[0].groups = dumps[1].groups;
  const FlightComparison other = CompareDumps(dumps);
  ASSERT_EQ(other.gaps.size(), 1U);
  EXPECT_EQ(other.gaps.front().number, 2);
  EXPECT_THAT(other.gaps.front().other, ::testing::ElementsAre(1));
  dumps = {{0, Dump({kSum})}, {1, Dump({kSum})}};
  EXPECT_TRUE(CompareDumps(dumps).gaps.empty());
}

// Rank 1 waits for a message that rank 0 has not sent; then both have called it, of other sizes;
// then neither's call has ended.
TEST(FlightCompare, names_messages_that_only_one_side_has_called) {
  constexpr const char* kReceive = "nccl:recv 1<-0";
  std::map<uint32_t, FlightDump> dumps = {{0, Dump({kSum, kSend})},
                                          {1, Dump({kSum, kReceive, kReceive})}};
  EXPECT_TRUE(CompareDumps({dumps.begin(), std::next(dumps.begin())}).gaps.empty());
  dumps[1].entries[2].state = "started";
  const FlightComparison comparison = CompareDumps(dumps);
  ASSERT_EQ(comparison.gaps.size(), 1U);
  EXPECT_EQ(comparison.gaps[0].call, &dumps[1].entries[2]);
  EXPECT_THAT(comparison.gaps[0].missing, ::testing::ElementsAre(0));
  // A dump that begins later has the messages that have not ended.
  dumps[1].entries.erase(dumps[1].entries.begin(), dumps[1].entries.begin() + 2);
  EXPECT_THAT(CompareDumps(dumps).gaps.at(0).missing, ::testing::ElementsAre(0));
  dumps[0].entries[1].state = "scheduled";
  EXPECT_TRUE(CompareDumps(dumps).gaps.at(0).missing.empty());
  dumps[1].entries[0].input.sizes = {{512}};
  EXPECT_THAT(CompareDumps(dumps).gaps.at(0).other, ::testing::ElementsAre(1));
  dumps.erase(0);
  EXPECT_THAT(CompareDumps(dumps).absent, ::testing::ElementsAre(0));
}

// Of a batch only the whole ends; it has the number of the collective before it.
TEST(FlightCompare, messages_of_a_batch_end_with_it) {
  std::map<uint32_t, FlightDump> dumps = {
      {0, Dump({kSum, kSend, "nccl:coalesced"})},
      {1, Dump({kSum, "nccl:recv 1<-0", "nccl:coalesced"})},
  };
  for (auto& [rank, dump] : dumps) {
    dump.entries[1].state = "scheduled";
    dump.entries[2].of_messages = true;
    dump.entries[2].p2p_seq_id = dump.entries[1].p2p_seq_id;
    dump.entries[2].collective_seq_id = dump.entries[0].collective_seq_id;
    dump = *DecodeFlightDump(EncodeFlightDump(dump), "dump");
  }
  EXPECT_TRUE(CompareDumps(dumps).gaps.empty());
  dumps[0].entries.resize(1);
  dumps[1].entries[2].state = "started";
  ASSERT_EQ(CompareDumps(dumps).gaps.size(), 1U);
  EXPECT_THAT(CompareDumps(dumps).gaps[0].missing, ::testing::ElementsAre(0));
}

// As torch 2.3 writes them: groups by number and unlisted, no types, one sequence.
TEST(FlightCompare, dumps_of_version_1_are_read) {
  const auto dump = [](const std::string& more) {
    return *DecodeFlightDump(
        R"({"version": "1.4", "entries": [{"record_id": 0, "pg_id": 3, "seq_id": 1,)"
        R"( "profiling_name": "nccl:all_reduce", "input_sizes": [[8]], "output_sizes": [[8]],)"
        R"( "state": "completed", "frames": []})" +
            more + "]}",
        "dump_0");
  };
  const std::map<uint32_t, FlightDump> dumps = {
      {0, dump("")},
      {1,
       dump(R"(, {"record_id": 1, "pg_id": 3, "seq_id": 2, "profiling_name":)"
            R"( "nccl:broadcast", "input_sizes": [], "output_sizes": [], "state": "started"})")}};
  const FlightComparison comparison = CompareDumps(dumps);
  EXPECT_EQ(comparison.unlisted, 1U);
  ASSERT_EQ(comparison.gaps.size(), 1U);
  EXPECT_EQ(comparison.gaps[0].number, 2);
  EXPECT_THAT(comparison.gaps[0].missing, ::testing::ElementsAre(0));
  EXPECT_THAT(DecodeFlightDump(R"({"version": "2.9", "pg_config": {}})", "d").status().message(),
              HasSubstr("has no entries"));
}

TEST(FlightCompare, dumps_as_json_are_read_like_pickles) {
  const std::string json =
      R"({"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg",)"
      R"( "ranks": [0, 1]}}, "entries": [{"record_id": 0, "process_group": ["0", "default_pg"],)"
      R"( "collective_seq_id": 1, "op_id": 1, "profiling_name": "nccl:all_reduce",)"
      R"( "input_sizes": [[1024]], "input_dtypes": ["Float"], "output_sizes": [[1024]],)"
      R"( "output_dtypes": ["Float"], "state": "completed", "time_created_ns": 5,)"
      R"( "duration_ms": 0.25, "timeout_ms": null}]})";
  ASSERT_TRUE(IsFlightDump(json));
  const Result<FlightDump> dump = DecodeFlightDump(json, "rank_1.json");
  ASSERT_TRUE(dump.ok()) << dump.status().message();
  EXPECT_EQ(dump->entries.size(), 1U);
  EXPECT_EQ(dump->groups.at("0").ranks.size(), 2U);
  EXPECT_EQ(RankOfDumpName("folder7/rank_12.json"), 12);
  EXPECT_EQ(RankOfDumpName("dump_3"), 3);
  EXPECT_EQ(RankOfDumpName("folder7/dump"), -1);
  EXPECT_FALSE(DecodeFlightDump("{\"version\": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}", "x").ok());
}

}  // namespace
}  // namespace prism::launch
