#include "slicer/synthesize/synthesize.h"

#include <algorithm>
#include <array>
#include <map>

#include <gtest/gtest.h>

#include "graph/validate/validate.h"
#include "slicer/synthesize/pass_schedule.h"
#include "slicer/workloads/workloads.h"
#include "tests/support/small_job.h"
#include "tests/support/uniform_pipeline.h"

namespace prism::slicer {
namespace {

using graph::Graph;
using graph::OpKind;
using graph::Schedule;

graph::ParallelSizes Sizes(int32_t pp, int32_t vpp) {
  graph::ParallelSizes sizes;
  sizes.pp = pp;
  sizes.vpp = vpp;
  return sizes;
}

std::string Show(const std::vector<StageStep>& passes) {
  const std::map<StepKind, const char*> letters = {{StepKind::kForward, "F"},
                                                   {StepKind::kBackward, "B"},
                                                   {StepKind::kInputGradient, "I"},
                                                   {StepKind::kWeightGradient, "W"}};
  std::string text;
  for (const StageStep& pass : passes) {
    text += letters.at(pass.kind);
    text += std::to_string(pass.microbatch);
    text += std::string(static_cast<size_t>(pass.chunk), '\'');
    text += " ";
  }
  return text;
}

std::string Show(Schedule schedule, graph::ParallelSizes sizes, int32_t stage, int64_t count) {
  return Show(StagePasses(sizes, schedule, stage, count));
}

TEST(StagePasses, one_forward_one_backward) {
  constexpr Schedule kSchedule = Schedule::kOneForwardOneBackward;
  EXPECT_EQ(Show(kSchedule, Sizes(4, 1), 0, 6), "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5 ");
  EXPECT_EQ(Show(kSchedule, Sizes(4, 1), 3, 3), "F0 B0 F1 B1 F2 B2 ");
  EXPECT_EQ(Show(kSchedule, Sizes(4, 1), 0, 2), "F0 F1 B0 B1 ");
}

// Two stages, two chunks, four micro-batches. Stage 0: warm-up (2-0-1)*2 + (2-1)*2 = 4 passes.
TEST(StagePasses, interleaved_as_megatron_does) {
  constexpr Schedule kSchedule = Schedule::kOneForwardOneBackward;
  EXPECT_EQ(Show(kSchedule, Sizes(2, 2), 0, 4),
            "F0 F1 F0' F1' F2 B0' F3 B1' F2' B0 F3' B1 B2' B3' B2 B3 ");
  EXPECT_EQ(Show(kSchedule, Sizes(2, 2), 1, 4),
            "F0 F1 F0' B0' F1' B1' F2 B0 F3 B1 F2' B2' F3' B3' B2 B3 ");
}

TEST(Synthesize, graphs_of_parts_and_of_the_iteration_cost_one_launch_each) {
  graph::JobSpec job;
  job.model.layers = 1;
  job.model.hidden = 256;
  job.model.heads = job.model.kv_heads = 4;
  job.model.ffn = 512;
  job.model.vocab = 1000;
  job.seq_len = 128;
  graph::TrainingStyle style;
  style.built_in = false;
  const auto launches = [&] {
    size_t count = 0;
    const Result<graph::JobProgram> program = Synthesize(job, style);
    EXPECT_TRUE(program.ok());
    for (const graph::Program& block : program->blocks) {
      for (const uint8_t flags : block.flags) {
        count += (flags & graph::kLaunchedWithPrevious) == 0 ? 1U : 0U;
      }
    }
    return count;
  };
  const size_t eager = launches();
  style.graph_parts = graph::kGraphAttention | graph::kGraphMlp;
  EXPECT_LT(launches(), eager - 30);
  style.host_cost = graph::HostCost::kGraph;
  EXPECT_EQ(launches(), 0U);
}

// 16 micro-batches: one round for each if a stage has one chunk, one for two if it has two, all but
// the first, which leads a stage out of filling the pipeline, and the last alike.
TEST(Synthesize, rounds_of_the_steady_part_call_the_same_blocks) {
  for (const int32_t vpp : {1, 2}) {
    graph::JobSpec job;
    job.model.layers = 8;
    job.model.hidden = 256;
    job.model.heads = job.model.kv_heads = 4;
    job.model.ffn = 512;
    job.model.vocab = 1000;
    job.seq_len = 128;
    job.parallel = Sizes(2, vpp);
    job.global_batch_size = 16;
    const auto program = Synthesize(job, {}, Markers::kNone);
    ASSERT_TRUE(program.ok()) << program.status().message();
    const graph::StageProgram& stage = program->stages.back();
    ASSERT_EQ(stage.rounds.size(), vpp == 1 ? 16U : 8U);
    const auto at = [&](size_t round) { return stage.calls.begin() + stage.rounds[round]; };
    for (size_t round = 2; round + 2 < stage.rounds.size(); ++round) {
      EXPECT_TRUE(std::equal(at(round), at(round + 1), at(round - 1), at(round))) << round;
    }
    EXPECT_FALSE(std::equal(at(1), at(2), at(0), at(1)));
  }
}

// Packed sequences attend to themselves, in every layer.
TEST(Synthesize, packed_sequences_shorten_the_keys_of_every_layer) {
  graph::JobSpec job;
  job.model.layers = 2;
  job.model.hidden = 256;
  job.model.heads = job.model.kv_heads = 4;
  job.model.ffn = 512;
  job.model.vocab = 1000;
  job.seq_len = 128;
  graph::TrainingStyle style;
  style.attention = graph::AttentionKind::kFlash;
  style.packed_length = 32;
  const Result<graph::JobProgram> program = Synthesize(job, style);
  ASSERT_TRUE(program.ok()) << program.status().message();
  size_t attentions = 0;
  for (const graph::KernelSignature& signature : program->signatures) {
    const std::string& kernel = program->strings[signature.name.value()];
    if (kernel.find("flash_fwd") != std::string::npos) {
      ++attentions;
      EXPECT_EQ(signature.inputs[1].dims, (std::vector<int64_t>{1, 32, 4, 64})) << kernel;
    }
  }
  EXPECT_GT(attentions, 0U);
}

// Stage s defers s weight passes, so that the input gradients of the next micro-batch go first.
TEST(StagePasses, zero_bubble_puts_off_weight_gradients_by_stage) {
  EXPECT_EQ(Show(Schedule::kZeroBubble, Sizes(2, 1), 0, 3), "F0 F1 I0 W0 F2 I1 W1 I2 W2 ");
  EXPECT_EQ(Show(Schedule::kZeroBubble, Sizes(2, 1), 1, 3), "F0 I0 F1 I1 W0 F2 I2 W1 W2 ");
}

TEST(StagePasses, breadth_first_runs_all_micro_batches_of_a_chunk_before_the_next) {
  EXPECT_EQ(Show(Schedule::kGpipe, Sizes(2, 1), 1, 2), "F0 F1 B0 B1 ");
  EXPECT_EQ(Show(Schedule::kLoopedBreadthFirst, Sizes(2, 2), 0, 2), "F0 F1 F0' F1' B0' B1' B0 B1 ");
}

// Length of the iteration when kernels take their fixed time and everything else takes none: a
// plain evaluation of the dataflow, independent of the replayer.
class Dataflow {
 public:
  explicit Dataflow(const Graph& graph) : graph_(graph), states_(graph.ranks.size()) {
    for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
      states_[rank].stream.resize(Program(rank).stream_count, 0);
    }
  }

  DurationNs Run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (uint32_t rank = 0; rank < states_.size(); ++rank) {
        while (states_[rank].next < Program(rank).size() && Step(rank)) {
          ++states_[rank].next;
          moved = true;
        }
      }
    }
    DurationNs end = 0;
    for (uint32_t rank = 0; rank < states_.size(); ++rank) {
      EXPECT_EQ(states_[rank].next, Program(rank).size()) << "rank " << rank << " stalls";
      for (const DurationNs tail : states_[rank].stream) {
        end = std::max(end, tail);
      }
    }
    return end;
  }

 private:
  struct State {
    uint32_t next = 0;
    std::vector<DurationNs> stream;
    std::map<uint32_t, DurationNs> event;
    std::map<std::pair<uint32_t, uint32_t>, size_t> received;  // (comm, from) → count
  };

  const graph::Program& Program(uint32_t rank) const { return graph_.role_of(Rank(rank)).program; }

  // Ops in host order: sound here because every stream waits only for earlier ops.
  bool Step(uint32_t rank) {
    State& state = states_[rank];
    const graph::Program& program = Program(rank);
    const uint32_t op = state.next;
    DurationNs& tail = state.stream[program.stream[op]];
    switch (program.kind[op]) {
      case OpKind::kKernel:
        tail += program.value[op];
        return true;
      case OpKind::kEventRecord:
        state.event[op] = tail;
        return true;
      case OpKind::kEventWait:
        tail = std::max(tail, state.event[program.dep[op]]);
        return true;
      case OpKind::kPeerGroup:
        return Transfer(rank, program.peer_groups[program.signature[op]].transfers.at(0), tail);
      default:
        return true;
    }
  }

  bool Transfer(uint32_t rank, const graph::PeerTransfer& transfer, DurationNs& tail) {
    const uint32_t comm = graph_.ranks.comms(Rank(rank))[transfer.comm_slot];
    const uint32_t peer = graph_.ranks.peers(Rank(rank))[transfer.peer_slot];
    if (transfer.is_send) {
      sent_[{comm, rank, peer}].push_back(tail);
      return true;
    }
    const std::vector<DurationNs>& arrived = sent_[{comm, peer, rank}];
    size_t& count = states_[rank].received[{comm, peer}];
    if (count == arrived.size()) {
      return false;
    }
    tail = std::max(tail, arrived[count++]);
    return true;
  }

  const Graph& graph_;
  std::vector<State> states_;
  std::map<std::array<uint32_t, 3>, std::vector<DurationNs>> sent_;
};

// Narayanan et al., SC21, section 2.2: m (tf + tb) + (pp - 1) (tf + tb) / vpp, where tf and tb are
// a whole stage's, that is vpp times a chunk's.
TEST(UniformPipeline, the_bubble_is_that_of_the_closed_form) {
  for (const int32_t pp : {1, 2, 4, 8}) {
    for (const int32_t vpp : {1, 2, 3}) {
      for (const int64_t rounds : {1, 2, 5}) {
        if (pp == 1 && vpp > 1) {
          continue;
        }
        prism::testing::UniformPipeline options;
        options.parallel = Sizes(pp, vpp);
        options.microbatches = rounds * pp;
        options.forward_ns = 1009;
        options.backward_ns = 2017;
        options.layers_per_chunk = 3;
        const Result<Graph> graph = prism::testing::MakeUniformPipeline(options);
        ASSERT_TRUE(graph.ok()) << graph.status().message();
        const graph::Validation validation = graph::Validate(*graph);
        ASSERT_TRUE(validation.ok()) << validation.faults.front().message;
        const DurationNs chunk = options.forward_ns + options.backward_ns;
        EXPECT_EQ(Dataflow(*graph).Run(), options.microbatches * vpp * chunk + (pp - 1) * chunk)
            << "pp " << pp << " vpp " << vpp << " m " << options.microbatches;
      }
    }
  }
}

TEST(UniformPipeline, collectives_of_tp_and_dp_validate) {
  prism::testing::UniformPipeline options;
  options.parallel = Sizes(4, 2);
  options.parallel.tp = 2;
  options.parallel.dp = 3;
  options.microbatches = 8;
  options.tensor_bytes = 64;
  options.gradient_bytes = 128;
  const Result<Graph> graph = prism::testing::MakeUniformPipeline(options);
  ASSERT_TRUE(graph.ok());
  EXPECT_TRUE(graph::Validate(*graph).ok());
}

TEST(UniformPipeline, interleaving_that_does_not_divide_is_refused) {
  prism::testing::UniformPipeline options;
  options.parallel = Sizes(4, 2);
  options.microbatches = 6;
  EXPECT_EQ(prism::testing::MakeUniformPipeline(options).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(Synthesize, ranks_that_would_have_nothing_are_refused) {
  const auto code = [](auto change) {
    graph::JobSpec job = prism::testing::SmallJob();
    change(&job);
    return Synthesize(job, {}).status().code();
  };
  EXPECT_EQ(code([](graph::JobSpec*) {}), StatusCode::kOk);
  const auto refused = StatusCode::kInvalidArgument;
  EXPECT_EQ(code([](graph::JobSpec* job) { job->model.heads = 1; }), refused);
  EXPECT_EQ(code([](graph::JobSpec* job) { job->model.hidden = 4; }), refused);
  EXPECT_EQ(code([](graph::JobSpec* job) { job->model.ffn = 1; }), refused);
  EXPECT_EQ(code([](graph::JobSpec* job) { job->seq_len = 1; }), refused);
}

int64_t KernelsAndCollectives(const graph::Program& program) {
  return std::ranges::count_if(program.kind, [](OpKind kind) {
    return kind == OpKind::kKernel || kind == OpKind::kCollective;
  });
}

TEST(Workloads, every_workload_validates_at_several_sizes) {
  const std::map<std::string, std::vector<int32_t>> sizes = {
      {"ring", {2, 3, 64}},    {"stencil", {2, 8, 12, 64, 97}},
      {"llm", {2, 7, 12, 64}}, {"astra", {2, 64}},
      {"dlrm", {2, 64}},       {"gpt3-layer", {128, 8192}},
      {"gpt3-kernel", {256}},
  };
  for (const std::string& name : WorkloadNames()) {
    for (const int32_t ranks : sizes.at(name)) {
      const Result<Graph> graph = MakeWorkload(name, ranks);
      ASSERT_TRUE(graph.ok()) << name << ": " << graph.status().message();
      EXPECT_EQ(graph->ranks.size(), static_cast<uint32_t>(ranks));
      const graph::Validation validation = graph::Validate(*graph);
      EXPECT_TRUE(validation.ok())
          << name << " " << ranks << ": " << validation.faults.front().message;
    }
  }
}

// 128 micro-batches × 6 layers × (20 + 32) = 39,936, and what surrounds the layers.
TEST(Workloads, gpt3_at_kernel_level_has_about_40_000_kernels_and_collectives) {
  const Result<Graph> graph = MakeWorkload("gpt3-kernel", 128);
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(KernelsAndCollectives(graph->roles[1].program), 39'936 + 13);
  EXPECT_EQ(KernelsAndCollectives(graph->roles[0].program), 39'936 + 13 + 2 * 128);
}

TEST(Workloads, unknown_names_and_sizes_are_refused) {
  EXPECT_EQ(MakeWorkload("nbody", 8).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeWorkload("ring", 1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeWorkload("gpt3-layer", 130).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace prism::slicer
