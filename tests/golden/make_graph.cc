// make_graph KIND FILE: writes a small synthetic graph for the golden cases, so that none is stored
// as a binary. The cluster is the invented one of tests/support, so that presets may change their
// numbers without changing these graphs.
//
//   pipeline  16 ranks, tp 2, pp 4, dp 2
//   slower    the same with longer backward passes and larger gradients
//   unmatched the same with one stage that reduces fewer bytes than its peers: not valid
//   crossing  2 ranks that both send before they receive
//   training  4 ranks, tp 2, dp 2: a small transformer that recomputes its layers
//   large     8,192 ranks, tp 8, pp 16, dp 64
//   snapshot  no graph, but a memory snapshot of torch
#include <cstdio>
#include <string>
#include <utility>

#include "graph/base/file.h"
#include "graph/file.h"
#include "slicer/synthesize/expand.h"
#include "slicer/synthesize/synthesize.h"
#include "tests/support/planted_graph.h"
#include "tests/support/small_job.h"
#include "tests/support/small_snapshot.h"
#include "tests/support/test_parameters.h"
#include "tests/support/uniform_pipeline.h"

namespace prism::testing {
namespace {

constexpr int64_t kMiB = 1 << 20;

UniformPipeline SmallPipeline() {
  UniformPipeline options;
  options.parallel = {.tp = 2, .dp = 2, .pp = 4};
  options.microbatches = 8;
  options.forward_ns = 2 * kNsPerMs;
  options.backward_ns = 4 * kNsPerMs;
  options.layers_per_chunk = 2;
  options.tensor_bytes = 8 * kMiB;
  options.gradient_bytes = 64 * kMiB;
  return options;
}

// The first stages keep more activations, as under 1F1B.
void AddMemory(graph::Graph* graph) {
  for (graph::Role& role : graph->roles) {
    graph::MemoryProfile& memory = role.memory;
    const int64_t activations = (4 - role.stage % 4) * 512 * kMiB;
    memory.at_peak = {{"parameters", 1024 * kMiB, graph::Mark::kMeasured},
                      {"activations", activations, graph::Mark::kMeasured}};
    memory.peak_allocated = 1024 * kMiB + activations;
    memory.peak_reserved = memory.peak_allocated + 128 * kMiB;
    memory.steady_allocated = 1024 * kMiB;
    memory.outside = {{"context", 426 * kMiB, graph::Mark::kAssumed},
                      {"nccl:tp", 542 * kMiB, graph::Mark::kAssumed}};
    memory.peak_op = "aten::mm [2048,1024] bfloat16";
    memory.peak_phase = "iteration/micro-batch 3/forward/layer 1";
  }
}

Result<graph::Graph> MakeTraining() {
  graph::JobSpec job = SmallJob();
  job.name = "training";
  job.global_batch_size = 8;
  job.recompute = graph::Recompute::kFull;
  PRISM_ASSIGN_OR_RETURN(const graph::JobProgram program, slicer::Synthesize(job, {}));
  return slicer::Expand(program, TestCluster());
}

graph::Graph MakeCrossing() {
  PlantedGraph planted(2);
  planted.Communicator("pp", {0, 1}).Peer(0, 1).Peer(1, 0);
  for (uint32_t role = 0; role < 2; ++role) {
    planted.IterationMarker(role, true).Send(role, 0, 0, 64).Receive(role, 0, 0, 64);
    planted.IterationMarker(role, false);
  }
  graph::Graph graph = planted.Build();
  graph.cluster = TestCluster();
  return graph;
}

Result<graph::Graph> Make(const std::string& kind) {
  if (kind == "crossing") {
    return MakeCrossing();
  }
  if (kind == "training") {
    return MakeTraining();
  }
  UniformPipeline options = SmallPipeline();
  if (kind == "slower") {
    options.backward_ns = 5 * kNsPerMs;
    options.gradient_bytes = 96 * kMiB;
  } else if (kind == "large") {
    options.parallel = {.tp = 8, .dp = 64, .pp = 16};
    options.microbatches = 32;
  } else if (kind != "pipeline" && kind != "unmatched") {
    return InvalidArgument("unknown kind " + kind);
  }
  PRISM_ASSIGN_OR_RETURN(graph::Graph graph, MakeUniformPipeline(options));
  graph.job.seq_len = 2048;
  graph.cluster = TestCluster();
  graph.cluster.gpu.name = "Test GPU";
  graph.cluster.gpu.memory_bytes = 80 * 1024 * kMiB;
  for (const graph::Role& role : graph.roles) {
    graph.ranks.source[role.representative.value()] = graph::RankSource::kRecorded;
  }
  graph.sandbox_ranks = {Rank(0)};
  graph.ranks.source[0] = graph::RankSource::kSandbox;
  AddMemory(&graph);
  if (kind == "unmatched") {
    // Stage 1 contains all ranks of a dp group, so its shape must differ on only one rank: give
    // that rank a separate role.
    graph.roles.push_back(graph.roles[graph.ranks.role[4]]);
    graph.roles.back().name = "stage 1 odd";
    graph.roles.back().representative = Rank(5);
    graph.roles.back().program.collectives.front().bytes /= 2;
    graph.ranks.role[5] = static_cast<uint32_t>(graph.roles.size() - 1);
  }
  return graph;
}

}  // namespace
}  // namespace prism::testing

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs(
        "usage: make_graph pipeline|slower|unmatched|crossing|training|large|snapshot FILE\n",
        stderr);
    return 2;
  }
  if (argv[1] == std::string("snapshot")) {
    const std::string pickle = prism::replayer::EncodeSnapshot(prism::testing::SmallSnapshot());
    return static_cast<int>(prism::WriteFileAtomically(argv[2], pickle).code());
  }
  const prism::Result<prism::graph::Graph> graph = prism::testing::Make(argv[1]);
  prism::Status status = graph.status();
  if (graph.ok()) {
    status = prism::graph::WriteGraph(*graph, argv[2]);
  }
  if (!status.ok()) {
    std::fprintf(stderr, "make_graph: %s\n", status.message().c_str());
  }
  return static_cast<int>(status.code());
}
