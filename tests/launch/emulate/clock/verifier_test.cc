#include "launch/emulate/clock/verifier.h"

#include <functional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slicer/record/recorder.h"
#include "tests/slicer/record_script.h"

namespace prism::launch {
namespace {

using slicer::RecordScript;
using ::testing::HasSubstr;

// Iterations of two kernels; `between` adds to the last one.
RecordScript Script(const std::function<void(RecordScript*)>& between = nullptr) {
  RecordScript script;
  for (int i = 0; i < 3; ++i) {
    script.Marker("iteration", true);
    script.Marker("forward", true);
    script.Kernel("gemm");
    if (i == 2 && between) {
      between(&script);
    }
    script.Marker("forward", false);
    script.Kernel("update");
    script.Marker("iteration", false);
  }
  return script;
}

graph::Graph GraphOf(const RecordScript& script) {
  slicer::Recorder recorder({.rank = Rank(0), .warmup_iterations = 0});
  for (const slicer::ScriptedRecord& scripted : script.records()) {
    EXPECT_TRUE(recorder.Consume(scripted.record, scripted.payload).ok());
  }
  graph::Fragment fragment = *recorder.Finish();
  graph::Graph graph;
  graph.roles.emplace_back().program = fragment.program;
  graph.strings = fragment.strings;
  graph.signatures = fragment.signatures;
  graph.ranks.role = {0};
  return graph;
}

struct Departure {
  std::string did;  // "" where it did not
  replayer::OpPosition position = 0;
  int left_out_waits = 0;  // ops that passed any
};

// What the rank did where it departed, and where that is.
Departure DepartureFrom(const RecordScript& expected, const RecordScript& script) {
  const graph::Graph graph = GraphOf(expected);
  const SignatureIndex index(graph);
  Verifier verifier(graph, index, Rank(0), 3);
  slicer::OpStream stream{Rank(0)};
  Departure departure;
  for (const slicer::ScriptedRecord& scripted : script.records()) {
    const auto ops = stream.Push(scripted.record, scripted.payload);
    EXPECT_TRUE(ops.ok());
    for (const slicer::PlacedOp& op : *ops) {
      const Verdict verdict = verifier.Check(op, stream);
      departure.position = verifier.position();
      departure.left_out_waits += verifier.TakeLeftOutWait() ? 1 : 0;
      if (verdict.kind == VerdictKind::kMismatch) {
        departure.did = verdict.did;
        return departure;
      }
    }
  }
  return departure;
}

std::string DepartureOf(const RecordScript& script) {
  const auto [did, position, waits] = DepartureFrom(Script(), script);
  EXPECT_EQ(waits, 0);
  if (did.empty()) {
    EXPECT_EQ(position, 3 * GraphOf(Script()).roles[0].program.size());
  }
  return did;
}

// Iterations that end with a range and a wait for an event; iteration `without` has nothing after
// the first kernel, or no range and no wait.
RecordScript WaitingScript(int without = -1, bool kernel = true) {
  RecordScript script;
  for (int i = 0; i < 3; ++i) {
    script.Marker("iteration", true);
    script.Kernel("gemm");
    script.Event(channel::RecordKind::kEventRecord, 1, 0);
    script.Marker("iteration", false);
    if (i != without || kernel) {
      script.Kernel("log");
    }
    if (i != without) {
      script.Marker("save", true);
      channel::Record wait = {};
      wait.kind = channel::RecordKind::kSync;
      wait.sync.kind = channel::SyncKind::kEvent;
      wait.sync.event = 1;
      script.Add(wait);
      script.Marker("save", false);
    }
  }
  return script;
}

TEST(Verifier, what_is_in_the_graph_is_no_departure) {
  EXPECT_EQ(DepartureOf(Script()), "");
}

TEST(Verifier, a_range_that_the_program_names_is_no_departure) {
  EXPECT_EQ(DepartureOf(Script([](RecordScript* script) {
              script->Marker("enumerate(DataLoader)", true);
              script->Marker("enumerate(DataLoader)", false);
            })),
            "");
}

TEST(Verifier, a_wait_and_a_range_that_only_the_graph_has_at_an_end_are_no_departure) {
  for (const int without : {-1, 0, 1, 2}) {
    const Departure departure = DepartureFrom(WaitingScript(), WaitingScript(without));
    EXPECT_EQ(departure.did, "") << without;
    // After the last iteration there is no op that would pass it.
    EXPECT_EQ(departure.left_out_waits, without == 0 || without == 1 ? 1 : 0) << without;
  }
}

TEST(Verifier, who_leaves_out_the_end_of_an_iteration_stands_in_it) {
  const auto [did, position, waits] = DepartureFrom(WaitingScript(), WaitingScript(1, false));
  EXPECT_THAT(did, HasSubstr("iteration"));
  const uint32_t size = GraphOf(WaitingScript()).roles[0].program.size();
  EXPECT_EQ(position / size, 1);
}

// A stream that waits for an event of another; `timed` adds event records that nobody waits for.
RecordScript TimedScript(bool timed, uint32_t waited_for = 1) {
  RecordScript script;
  for (int i = 0; i < 3; ++i) {
    script.Marker("iteration", true);
    script.Kernel("gemm");
    if (timed) {
      script.Event(channel::RecordKind::kEventRecord, 7, 0);
    }
    script.Event(channel::RecordKind::kEventRecord, 1, 0);
    script.Kernel("norm");
    script.Event(channel::RecordKind::kEventRecord, 2, 0);
    script.Event(channel::RecordKind::kEventWait, waited_for, 1);
    script.Kernel("reduce", 1);
    if (timed) {
      script.Event(channel::RecordKind::kEventRecord, 8, 0);
    }
    script.Marker("iteration", false);
  }
  return script;
}

TEST(Verifier, a_record_that_nobody_waits_for_is_no_departure) {
  EXPECT_EQ(DepartureFrom(TimedScript(true), TimedScript(false)).did, "");
  EXPECT_EQ(DepartureFrom(TimedScript(false), TimedScript(true)).did, "");
  EXPECT_EQ(DepartureFrom(TimedScript(true), TimedScript(true)).did, "");
}

TEST(Verifier, a_wait_for_another_point_of_a_stream_is_one) {
  for (const bool timed : {false, true}) {
    EXPECT_EQ(DepartureFrom(TimedScript(timed, 1), TimedScript(false, 7)).did,
              "stream 1 waits for an event of an earlier iteration");
    EXPECT_THAT(DepartureFrom(TimedScript(timed, 2), TimedScript(!timed, 1)).did,
                HasSubstr("stream 1 waits for the event of op"));
  }
  EXPECT_EQ(DepartureFrom(TimedScript(true, 1), TimedScript(true, 7)).did, "")
      << "both come behind the same kernel";
}

TEST(Verifier, another_kernel_is_one) {
  EXPECT_THAT(DepartureOf(Script([](RecordScript* script) { script->Kernel("extra"); })),
              HasSubstr("extra"));
}

// Template arguments are left out of what is said unless they are all that differs.
TEST(Verifier, kernels_that_differ_in_template_arguments_are_told_apart) {
  const auto of_kernel = [](const std::string& name) {
    RecordScript script;
    for (int i = 0; i < 3; ++i) {
      script.Marker("iteration", true);
      script.Kernel(name);
      script.Marker("iteration", false);
    }
    return script;
  };
  const RecordScript four = of_kernel("add<4, at::native::CUDAFunctor_add<float>>");
  const RecordScript eight = of_kernel("add<8, at::native::CUDAFunctor_add<float>>");
  EXPECT_THAT(DepartureFrom(eight, four).did, HasSubstr("add<4, at::native"));
  EXPECT_THAT(DepartureFrom(of_kernel("copy"), four).did, HasSubstr("add<...>"));
}

}  // namespace
}  // namespace prism::launch
