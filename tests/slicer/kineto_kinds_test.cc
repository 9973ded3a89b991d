// Kinds of profiles that people bring: full launch queues, slow networks, stragglers, pipelines,
// marks of other tools, cut files. Each is a small profile with the time that it must give.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/inputs/measured_cluster.h"
#include "replayer/blame/straggler.h"
#include "replayer/edit/edit.h"
#include "replayer/gains.h"
#include "tests/slicer/kineto_profile.h"

namespace prism::slicer {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

std::string Noted(const std::string& name, int elements, int size, const std::string& ranks) {
  return fmt::format(
      ", \"Collective name\": \"{}\", \"In msg nelems\": {}, \"Out msg nelems\": {}, "
      "\"dtype\": \"Float\", \"Group size\": {}, \"Process Group Name\": \"5\", "
      "\"Process Group Ranks\": \"{}\"",
      name, elements, elements, size, ranks);
}

constexpr const char* kAllReduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)";

// Kernels of 100 us one after the other, four a step; a launch takes 5 us until `length` are
// outstanding, then until one ends.
std::string FullQueue(int length, int per_step, int steps) {
  Profile profile(0, 1);
  std::vector<double> ends;
  double host = 0;
  for (int step = 0; step < steps; ++step) {
    const double begin = host;
    for (int k = 0; k < per_step; ++k) {
      const auto place = static_cast<int>(ends.size());
      const double room = place >= length ? ends[static_cast<size_t>(place - length)] : 0;
      const double called = host;
      host = std::max(host, room) + 5;
      profile.Call("cudaLaunchKernel", called, host - called);
      const double start = std::max(host, ends.empty() ? 0 : ends.back());
      profile.Task("gemm", 7, start, 100);
      ends.push_back(start + 100);
    }
    profile.Step(begin, host - begin, fmt::format("ProfilerStep#{}", step));
  }
  return profile.Json();
}

graph::Graph Imported(const std::vector<std::string>& profiles, const KinetoChoice& choice = {}) {
  Result<ImportResult> result = Import(profiles, 0, choice);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? result->graph : graph::Graph();
}

graph::Graph WithKernelsTimes(graph::Graph graph, double factor) {
  for (graph::Role& role : graph.roles) {
    for (uint32_t op = 0; op < role.program.size(); ++op) {
      if (role.program.kind[op] == graph::OpKind::kKernel) {
        role.program.value.Set(op,
                               std::llround(factor * static_cast<double>(role.program.value[op])));
      }
    }
  }
  return graph;
}

double ExactNs(const graph::Graph& graph) {
  return static_cast<double>(IterationNs(graph));
}

// Steps of four kernels are shorter than the queue, those of forty longer.
TEST(KinetoKinds, launches_into_a_full_queue_are_the_time_of_the_gpu) {
  for (const int per_step : {4, 40}) {
    const graph::Graph graph = Imported({FullQueue(6, per_step, 6)});
    const double step = per_step * 100e3;
    EXPECT_NEAR(ExactNs(graph), step, 5'000) << per_step;
    EXPECT_NEAR(ExactNs(WithKernelsTimes(graph, 0.5)), step / 2.0, 5'000) << per_step;
    EXPECT_NEAR(ExactNs(WithKernelsTimes(graph, 0)), step / 20.0, 5'000) << per_step;
  }
}

// Its launches take long for other reasons than a queue.
TEST(KinetoKinds, slow_launches_of_a_short_queue_stay_host_time) {
  Profile profile(0, 1);
  profile.Step(0, 1000);
  for (int k = 0; k < 8; ++k) {
    profile.Call("cudaLaunchKernel", 100.0 * k, 95).Task("gemm", 7, 100.0 * k + 95, 50);
  }
  EXPECT_NEAR(ExactNs(WithKernelsTimes(Imported({profile.Json()}), 0.5)), 1'000'000, 1000);
}

std::string SlowNetwork(double all_reduce, int rank, double compute) {
  Profile profile(rank, 4);
  const double length = compute + all_reduce + 400;
  for (int step = 0; step < 3; ++step) {
    const double at = step * length;
    profile.Step(at, length, fmt::format("ProfilerStep#{}", step));
    profile.Call("cudaLaunchKernel", at + 10, 5).Task("gemm", 7, at + 20, compute);
    profile.Call("cudaStreamWaitEvent", at + 25, 2).Call("cudaLaunchKernel", at + 30, 5);
    profile.Task(kAllReduce, 20, at + 20 + compute, all_reduce,
                 Noted("allreduce", 4194304, 4, "[0, 1, 2, 3]"));
    profile.Call("cudaStreamWaitEvent", at + 36, 2).Call("cudaLaunchKernel", at + 40, 5);
    profile.Task("optimizer", 7, at + 21 + compute + all_reduce, 300);
    profile.Call("cudaDeviceSynchronize", at + 50, length - 60);
  }
  return profile.Json();
}

TEST(KinetoKinds, collectives_keep_their_measured_time) {
  const graph::Graph graph = Imported({SlowNetwork(11'000, 0, 500)});
  EXPECT_NEAR(ExactNs(graph), 11'900'000, 60'000);
  const auto differ = launch::MeasuredTransfersDiffer(graph);
  ASSERT_TRUE(differ);
  EXPECT_THAT(differ->example, HasSubstr("measured 11 ms, model of"));
  graph::Graph modelled = graph;
  launch::UseModelledTransfers(&modelled);
  EXPECT_LT(IterationNs(modelled), 2'000'000);
}

TEST(KinetoKinds, a_rank_that_computes_longer_is_the_straggler) {
  std::vector<std::string> profiles;
  for (int rank = 0; rank < 4; ++rank) {
    profiles.push_back(rank == 2 ? SlowNetwork(30, rank, 500) : SlowNetwork(330, rank, 200));
  }
  const graph::Graph graph = Imported(profiles);
  EXPECT_NEAR(ExactNs(graph), 920'000, 10'000);
  const Result<replayer::ReplayResult> replay = replayer::Replay(graph, {});
  ASSERT_TRUE(replay.ok());
  const replayer::Symptoms symptoms =
      replayer::FindStraggler(graph, replay->ranks, replay->waits_ns);
  ASSERT_THAT(symptoms.suspects, SizeIs(1));
  EXPECT_EQ(symptoms.suspects.front().rank, Rank(2));
}

// Rank 3 begins its step late, so that the others wait for it: only the profiles show that.
TEST(KinetoKinds, a_rank_that_enters_collectives_last_is_the_straggler) {
  std::vector<std::string> profiles;
  for (int rank = 0; rank < 4; ++rank) {
    profiles.push_back(SlowNetwork(rank == 3 ? 100 : 1000, rank, 200));
  }
  const graph::Graph graph = Imported(profiles);
  const Result<replayer::ReplayResult> replay = replayer::Replay(graph, {});
  ASSERT_TRUE(replay.ok());
  const replayer::Symptoms symptoms =
      replayer::FindStraggler(graph, replay->ranks, replay->waits_ns);
  ASSERT_THAT(symptoms.suspects, SizeIs(1));
  EXPECT_EQ(symptoms.suspects.front().rank, Rank(3));
}

TEST(KinetoKinds, clocks_that_differ_are_named_and_change_nothing) {
  std::string late = SlowNetwork(330, 1, 200);
  for (size_t at = 0; (at = late.find("\"ts\": 1", at)) != std::string::npos; ++at) {
    late[at + 6] = '9';
  }
  const Result<ImportResult> same = Import({SlowNetwork(330, 0, 200), SlowNetwork(330, 1, 200)});
  const Result<ImportResult> skewed = Import({SlowNetwork(330, 0, 200), late});
  ASSERT_TRUE(same.ok() && skewed.ok());
  EXPECT_THAT(skewed->notes.Lines(),
              Contains(HasSubstr("clocks of the profiles differ by up to 8")));
  EXPECT_THAT(same->notes.Lines(), Not(Contains(HasSubstr("clocks"))));
  EXPECT_EQ(IterationNs(same->graph), IterationNs(skewed->graph));
}

TEST(KinetoKinds, a_slow_stage_delays_the_next) {
  const std::string noted = ", \"Src Rank\": 0, \"Dst Rank\": 1";
  const std::string kernel = "ncclDevKernel_SendRecv(args)";
  Profile sender(0, 2);
  sender.Step(0, 1000).Call("cudaLaunchKernel", 10, 5).Task("gemm", 7, 20, 500);
  sender.Call("cudaStreamWaitEvent", 20, 2).Call("cudaLaunchKernel", 30, 5);
  sender.Task(kernel, 20, 520, 20, Noted("send", 1048576, 2, "[0, 1]") + noted);
  sender.Call("cudaDeviceSynchronize", 900, 100);
  Profile receiver(1, 2);
  receiver.Step(0, 1000).Call("cudaLaunchKernel", 10, 5);
  receiver.Task(kernel, 20, 20, 520, Noted("recv", 1048576, 2, "[0, 1]") + noted);
  receiver.Call("cudaStreamWaitEvent", 30, 2).Call("cudaLaunchKernel", 40, 5);
  receiver.Task("gemm", 7, 540, 300).Call("cudaDeviceSynchronize", 900, 100);
  const graph::Graph graph = Imported({sender.Json(), receiver.Json()});
  EXPECT_NEAR(ExactNs(graph), 1'000'000, 1000);
  graph::Graph slow = graph;
  slow.roles[slow.ranks.role[0]] = WithKernelsTimes(graph, 2).roles[graph.ranks.role[0]];
  EXPECT_GT(IterationNs(slow), 1'050'000);
  // Alone, the receive is a kernel as long as it took.
  EXPECT_THAT(Import({sender.Json()}, 0)->notes.Lines(),
              Contains(HasSubstr("whose other end is not among the profiles")));
}

TEST(KinetoKinds, kernels_of_other_libraries_that_communicate_are_no_compute) {
  Profile profile(0, 1);
  profile.Step(0, 1000).Call("cudaLaunchKernel", 10, 5);
  profile.Task("void deep_ep::intranode::dispatch<8>(args)", 20, 20, 500);
  profile.Call("cudaLaunchKernel", 30, 5)
      .Task("void deep_ep::intranode::combine<8>(args)", 20, 530, 90);
  profile.Call("cudaDeviceSynchronize", 40, 700);
  const graph::Graph graph = Imported({profile.Json()});
  const Result<replayer::ReplayResult> replay = replayer::Replay(graph, {});
  ASSERT_TRUE(replay.ok());
  EXPECT_EQ(replay->ranks.front().compute_ns, 0);
  EXPECT_EQ(replay->ranks.front().exposed_comm_ns, 590'000);
}

TEST(KinetoKinds, steps_that_launched_nothing_are_passed_over) {
  Profile profile(0, 1);
  profile.Step(0, 1000, "ProfilerStep#1").Step(1000, 50, "ProfilerStep#2");
  profile.Call("cudaLaunchKernel", 10, 5).Task("gemm", 7, 20, 900);
  EXPECT_EQ(IterationNs(Imported({profile.Json()})), 1'000'000);
}

TEST(KinetoKinds, of_a_file_that_was_cut_the_step_that_is_whole_counts) {
  Profile profile(0, 1);
  for (int step = 0; step < 3; ++step) {
    profile.Step(1000 * step, 1000, fmt::format("ProfilerStep#{}", step));
  }
  profile.Call("cudaLaunchKernel", 1010, 5).Call("cudaLaunchKernel", 1020, 5);
  profile.Task("second", 7, 1030, 100);
  profile.Call("cudaLaunchKernel", 10, 5).Task("first", 7, 20, 300);
  const std::string json = profile.Json();
  const Result<ImportResult> result = Import({json.substr(0, json.size() - 2)});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->notes.Lines(), Contains(HasSubstr("cut off")));
  EXPECT_THAT(result->notes.Lines(), Contains(HasSubstr("ProfilerStep#0 of 3")));
}

TEST(KinetoKinds, marks_and_categories_of_older_profilers_are_read) {
  std::string old = "{\"traceEvents\": [";
  old +=
      "{\"ph\": \"X\", \"cat\": \"Runtime\", \"name\": \"cudaLaunchKernel\", \"tid\": 1, "
      "\"ts\": 10, \"dur\": 5, \"args\": {\"correlation\": 1}},";
  old +=
      "{\"ph\": \"X\", \"cat\": \"Kernel\", \"name\": \"k\", \"tid\": 7, \"ts\": 16, "
      "\"dur\": 80, \"args\": {\"correlation\": 1}}]}";
  EXPECT_EQ(IterationNs(Imported({old})), 86'000);
  Profile marked(0, 1);
  for (int step = 0; step < 3; ++step) {
    marked.Step(1000 * step, 1000, fmt::format("ProfilerStep#{}", step), "cpu_op");
    marked.Step(1000 * step, 999, fmt::format("ProfilerStep#{}", step));
    marked.Call("cudaLaunchKernel", 1000 * step + 10, 5).Task("k", 7, 1000 * step + 20, 300);
  }
  EXPECT_EQ(IterationNs(Imported({marked.Json()})), 1'000'000);
}

TEST(KinetoKinds, the_step_or_range_that_is_asked_for_counts) {
  Profile profile(0, 1);
  for (int step = 1; step <= 3; ++step) {
    profile.Step(1000 * step, 100 * step, fmt::format("ProfilerStep#{}", step));
    profile.Step(1000 * step, 50 * step, "forward");
    profile.Call("cudaLaunchKernel", 1000 * step + 10, 5).Task("k", 7, 1000 * step + 20, 20);
  }
  const std::string json = profile.Json();
  EXPECT_EQ(IterationNs(Imported({json})), 200'000);
  EXPECT_EQ(IterationNs(Imported({json}, {.step = 3})), 300'000);
  EXPECT_EQ(IterationNs(Imported({json}, {.range = "forward"})), 100'000);
  EXPECT_EQ(IterationNs(Imported({json}, {.range = "forward", .number = 3})), 150'000);
  EXPECT_THAT(Import({json}, 0, {.step = 7}).status().message(),
              HasSubstr("has no range 'ProfilerStep#7'; its 3 steps are ProfilerStep#1 to"));
  EXPECT_THAT(Import({json}, 0, {.range = "forward", .number = 4}).status().message(),
              HasSubstr("has no range 'forward' number 4; it has 3 of them"));
}

TEST(KinetoKinds, groups_of_any_ranks_are_read) {
  for (const std::string ranks : {"[0, 1, 2, 3, 8, 9, 10, 11]", "[0, 1, 5]"}) {
    Profile profile(0, 16);
    profile.Step(0, 1000).Call("cudaLaunchKernel", 10, 5).Task("gemm", 7, 20, 100);
    profile.Call("cudaLaunchKernel", 30, 5)
        .Task(kAllReduce, 20, 130, 50, Noted("allreduce", 4, ranks.size() > 12 ? 8 : 3, ranks));
    EXPECT_EQ(IterationNs(Imported({profile.Json()})), 1'000'000) << ranks;
  }
}

TEST(KinetoKinds, times_that_are_none_are_counted) {
  for (const std::string bad : {"NaN", "Infinity", "-5.0", "null", "\"seven\"", "1e300"}) {
    Profile profile(0, 1);
    profile.Step(0, 1000).Call("cudaLaunchKernel", 10, 5).Task("gemm", 7, 20, 100);
    profile.Call("cudaLaunchKernel", 30, 5).Task("other", 7, 120, 77777);
    std::string json = profile.Json();
    json.replace(json.find("77777"), 5, bad);
    const Result<ImportResult> result = Import({json});
    ASSERT_TRUE(result.ok()) << bad << result.status().message();
    EXPECT_THAT(result->notes.Lines(),
                Contains(HasSubstr("no numbers, or negative, are left out: 1")))
        << bad;
  }
}

TEST(KinetoKinds, nested_brackets_are_refused_in_plain_words) {
  const std::string json = "{\"traceEvents\": " + std::string(1'000'000, '[');
  EXPECT_THAT(Import({json}).status().message(),
              HasSubstr("more than 64 brackets inside each other"));
}

// Each task waits for the tasks of 2,000 streams that ended when it began.
TEST(KinetoKinds, many_streams_that_wait_for_each_other_take_few_waits) {
  Profile profile(0, 1);
  profile.Step(0, 10'000'000);
  constexpr int kStreams = 2000;
  for (int k = 0; k < 3 * kStreams; ++k) {
    profile.Call("cudaStreamWaitEvent", 10.0 * k, 1).Call("cudaLaunchKernel", 10.0 * k + 2, 3);
    profile.Task("k", 7 + k % kStreams, 10.0 * k + 6, 3);
  }
  const graph::Graph graph = Imported({profile.Json()});
  EXPECT_LT(graph.OpsPerIteration(), 70 * 3 * kStreams);
}

TEST(MeasuredCluster, the_gpu_of_the_file_chooses) {
  const auto name = [](const std::string& gpu, int64_t bytes) {
    const auto cluster = launch::ClusterOfGpu(gpu, bytes);
    EXPECT_TRUE(cluster.ok()) << cluster.status().message();
    return cluster.ok() && *cluster ? (*cluster)->gpu.name : "none";
  };
  EXPECT_EQ(name("NVIDIA A100-SXM4-80GB", 0), "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(name("NVIDIA A100-PG509-200", 42297524224), "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(name("Tesla V100-SXM2-32GB", 34089730048), "Tesla V100-SXM3-32GB");
  EXPECT_EQ(name("NVIDIA H100 PCIe", 0), "NVIDIA H100 PCIe");
  EXPECT_EQ(name("GPU X", 0), "none");
}

}  // namespace
}  // namespace prism::slicer
