#include "launch/emulation/verifier.h"

#include <functional>
#include <string>

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

// What the rank did where it departed; "" where it did not.
std::string DepartureOf(const RecordScript& script) {
  const graph::Graph graph = GraphOf(Script());
  const SignatureIndex index(graph);
  Verifier verifier(graph, index, Rank(0), 3);
  slicer::OpStream stream{Rank(0)};
  for (const slicer::ScriptedRecord& scripted : script.records()) {
    const auto ops = stream.Push(scripted.record, scripted.payload);
    EXPECT_TRUE(ops.ok());
    for (const slicer::PlacedOp& op : *ops) {
      const Verdict verdict = verifier.Check(op, stream);
      if (verdict.kind == VerdictKind::kMismatch) {
        return verdict.did;
      }
    }
  }
  EXPECT_EQ(verifier.position(), 3 * graph.roles[0].program.size());
  return {};
}

TEST(Verifier, WhatIsInTheGraphIsNoDeparture) {
  EXPECT_EQ(DepartureOf(Script()), "");
}

TEST(Verifier, ARangeThatTheProgramNamesIsNoDeparture) {
  EXPECT_EQ(DepartureOf(Script([](RecordScript* script) {
              script->Marker("enumerate(DataLoader)", true);
              script->Marker("enumerate(DataLoader)", false);
            })),
            "");
}

TEST(Verifier, AnotherKernelIsOne) {
  EXPECT_THAT(DepartureOf(Script([](RecordScript* script) { script->Kernel("extra"); })),
              HasSubstr("extra"));
}

}  // namespace
}  // namespace prism::launch
