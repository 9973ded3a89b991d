// Profiles of torch.profiler: what is read, the resulting graph, what is refused; and profiles of
// real jobs against their measured times.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replayer/edit/edit_builder.h"
#include "slicer/import/kineto/collective_words.h"
#include "slicer/import/kineto/process_axis.h"
#include "slicer/import/kineto/trace_file.h"
#include "tests/slicer/kineto_profile.h"
#include "tests/support/test_parameters.h"

namespace prism::slicer {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

// A kernel, a collective that waits for it, a kernel that waits for that, and a synchronisation.
Profile SmallStep(int rank = 0, int world = 2, const std::string& noted = "") {
  Profile profile(rank, world);
  profile.Step(0, 400);
  profile.Call("cudaLaunchKernel", 90, 10).Task("first", 7, 100, 50);
  profile.Call("cudaStreamWaitEvent", 110, 1);
  profile.Call("cudaLaunchKernel", 112, 8)
      .Task("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 20, 151, 60, noted);
  profile.Call("cudaStreamWaitEvent", 130, 1);
  profile.Call("cudaLaunchKernel", 132, 8).Task("second", 7, 212, 30);
  profile.Call("cudaDeviceSynchronize", 150, 100);
  return profile;
}

std::string ErrorOf(const std::string& json) {
  const Result<ImportResult> result = Import({json});
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kBadFile);
  return result.status().message();
}

constexpr const char* kNoted =
    ", \"Collective name\": \"allreduce\", \"In msg nelems\": 1024, \"Out msg nelems\": 1024, "
    "\"dtype\": \"BFloat16\", \"Process Group Name\": \"dp\", \"Process Group Ranks\": \"[0, 1]\"";

TEST(KinetoImport, host_and_gpu_take_the_time_that_they_took) {
  const Result<ImportResult> result = Import({SmallStep().Json()}, 2);
  ASSERT_TRUE(result.ok()) << result.status().message();
  // The host issues the first kernel at 100; the three run one after the other, 50 + 60 + 30; the
  // host returns 8 after them (250 - 242), and 2 for the GPU's two gaps of 1, and works for 150
  // more.
  EXPECT_EQ(IterationNs(result->graph), 400'000);
  EXPECT_EQ(result->graph.ranks.size(), 2U);
  EXPECT_EQ(result->graph.roles.size(), 1U);
  EXPECT_THAT(
      result->notes.Lines(),
      Contains(HasSubstr("collectives of unknown size are kernels with their shortest time")));
}

TEST(KinetoImport, collectives_are_as_the_profile_notes_them) {
  const Result<ImportResult> result = Import({SmallStep(0, 2, kNoted).Json()}, 64);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const graph::Program& program = result->graph.roles.front().program;
  const graph::CollectiveShape expected = {graph::CollectiveKind::kAllReduce, DataType::kBfloat16,
                                           graph::ReduceOp::kSum, -1, 2048};
  EXPECT_THAT(program.collectives, ElementsAre(expected));
  EXPECT_EQ(result->graph.communicators.members_of(CommId(0)).size(), 64U);
}

TEST(KinetoImport, ranges_around_a_launch_note_what_the_kernel_does_not) {
  Profile profile;
  profile.Step(0, 100);
  profile.Issue("nccl:all_to_all", 5, 30, "[[16, 8], []]");
  profile.Call("cudaLaunchKernel", 10, 5).Task("ncclKernel_SendRecv_RING(args)", 20, 20, 9);
  const Result<ImportResult> result = Import({profile.Json()});
  ASSERT_TRUE(result.ok()) << result.status().message();
  const graph::CollectiveShape& shape = result->graph.roles.front().program.collectives.at(0);
  EXPECT_EQ(shape.kind, graph::CollectiveKind::kAllToAll);
  EXPECT_EQ(shape.bytes, 16 * 8 * 4);
}

TEST(KinetoImport, gathers_that_the_host_notes_by_their_input_have_the_bytes_of_all) {
  Profile profile(0, 4);
  profile.Step(0, 100).Issue("nccl:_allgather_base", 5, 30, "[[100]]");
  profile.Call("cudaLaunchKernel", 10, 5).Task("ncclKernel_AllGather_RING(args)", 20, 20, 9);
  const Result<ImportResult> result = Import({profile.Json()});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->graph.roles.front().program.collectives.at(0).bytes, 4 * 100 * 4);
}

// PyTorch numbers groups in order of creation, so equal places have different names.
TEST(KinetoImport, groups_of_an_axis_are_one_whatever_their_names) {
  const auto rank = [](int of, const std::string& group, const std::string& ranks) {
    return SmallStep(of, 4,
                     fmt::format(", \"Collective name\": \"allreduce\", \"In msg nelems\": 8, "
                                 "\"dtype\": \"Float\", \"Process Group Name\": \"{}\", "
                                 "\"Process Group Ranks\": \"{}\"",
                                 group, ranks))
        .Json();
  };
  const Result<ImportResult> result = Import({rank(0, "1", "[0, 1]"), rank(3, "2", "[2, 3]")});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->graph.communicators.members_of(CommId(0)).size(), 2U);
}

TEST(KinetoImport, shortened_list_of_ranks_is_continued_to_its_size) {
  const std::string noted =
      ", \"Collective name\": \"allreduce\", \"In msg nelems\": 8, \"dtype\": \"Float\", "
      "\"Group size\": 64, \"Process Group Ranks\": \"[0, 8, 16, ...]\"";
  const Result<ImportResult> result = Import({SmallStep(0, 512, noted).Json()});
  ASSERT_TRUE(result.ok()) << result.status().message();
  const auto members = result->graph.communicators.members_of(CommId(0));
  EXPECT_EQ(members.size(), 64U);
  EXPECT_EQ(members[63], 504U);
}

// PyTorch writes the first ranks and the last.
TEST(KinetoImport, shortened_list_of_unequal_distances_is_refused) {
  const auto noted = [](const std::string& ranks) {
    return SmallStep(0, 512,
                     fmt::format(", \"Collective name\": \"allreduce\", \"In msg nelems\": 8, "
                                 "\"dtype\": \"Float\", \"Group size\": 64, "
                                 "\"Process Group Ranks\": \"{}\"",
                                 ranks))
        .Json();
  };
  EXPECT_TRUE(Import({noted("[0, 1, 2, ..., 63]")}).ok());
  EXPECT_THAT(ErrorOf(noted("[0, 1, 2, ..., 455]")), HasSubstr("are not equally spaced"));
  EXPECT_THAT(ErrorOf(noted("[0, 1, 2, 64, ..., 455]")), HasSubstr("are not equally spaced"));
}

TEST(KinetoImport, job_of_unknown_size_has_the_ranks_that_its_groups_name) {
  std::string json = SmallStep(0, 2, kNoted).Json();
  json.replace(json.find("\"world_size\""), 12, "\"not_stated\"");
  const Result<ImportResult> result = Import({json});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->graph.ranks.size(), 2U);
  EXPECT_THAT(result->notes.Lines(), Contains(HasSubstr("do not say how many ranks")));
}

TEST(KinetoImport, tasks_without_a_call_are_counted_and_nothing_else_is_refused) {
  Profile some = SmallStep();
  some.Call("cudaLaunchKernel", 300, 5);
  std::string json = some.Task("lost", 7, 320, 10).Json();
  const size_t call = json.rfind("\"correlation\": 7}", json.find("\"lost\""));
  json.replace(call, 17, "\"correlation\": 0}");
  const Result<ImportResult> result = Import({json});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->notes.Lines(),
              Contains(HasSubstr("GPU tasks without the call that launched them")));
  Profile lost;
  lost.Step(0, 100).Task("lost", 7, 20, 10).Call("cudaMalloc", 10, 5);
  EXPECT_THAT(ErrorOf(lost.Json()),
              HasSubstr("launched anything on the GPU; it has 1 GPU tasks without the call"));
}

TEST(KinetoImport, profiles_of_ranks_beyond_a_smaller_job_are_counted) {
  Profile slow(1, 2);
  slow.Step(0, 900).Call("cudaLaunchKernel", 10, 5).Task("slow", 7, 20, 800);
  const Result<ImportResult> result = Import({SmallStep().Json(), slow.Json()}, 1);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->graph.ranks.size(), 1U);
  EXPECT_THAT(result->notes.Lines(),
              Contains(HasSubstr("profiles of ranks that the smaller job does not have")));
}

TEST(KinetoImport, all_profiles_give_the_step_of_the_first) {
  const auto profile = [](int of, double first, double second) {
    Profile two(of, 2);
    two.Step(0, first, "ProfilerStep#1").Step(2000, second, "ProfilerStep#2");
    two.Call("cudaLaunchKernel", 10, 5).Task("in step 1", 7, 20, 9);
    two.Call("cudaLaunchKernel", 2010, 5).Task("in step 2", 7, 2020, 9);
    return two.Json();
  };
  // By its own durations the second profile would give step 2.
  const Result<ImportResult> result = Import({profile(0, 100, 200), profile(1, 200, 100)});
  ASSERT_TRUE(result.ok()) << result.status().message();
  ASSERT_EQ(result->graph.signatures.size(), 1U);
  EXPECT_EQ(result->graph.strings[result->graph.signatures[0].name.value()], "in step 1");
}

TEST(KinetoImport, devices_of_one_process_run_side_by_side) {
  Profile profile(0, 1);
  profile.Step(0, 1000);
  profile.Call("cudaLaunchKernel", 0, 10).Task("one", 7, 10, 800, ", \"device\": 0");
  profile.Call("cudaLaunchKernel", 10, 10).Task("other", 7, 20, 800, ", \"device\": 1");
  profile.Call("cudaDeviceSynchronize", 30, 790);
  const Result<ImportResult> result = Import({profile.Json()});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->notes.Lines(), Contains(HasSubstr("further GPUs of one process")));
  EXPECT_EQ(IterationNs(result->graph), 1'000'000);
}

TEST(KinetoImport, largest_part_of_an_uneven_exchange_counts_for_all) {
  const auto rank = [](int of, const std::string& dims) {
    Profile profile(of, 2);
    profile.Step(0, 100).Issue("nccl:all_to_all", 5, 30, dims);
    profile.Call("cudaLaunchKernel", 10, 5).Task("ncclKernel_SendRecv_RING(args)", 20, 20, 9);
    return profile.Json();
  };
  const Result<ImportResult> result = Import({rank(0, "[[100]]"), rank(1, "[[300]]")});
  ASSERT_TRUE(result.ok()) << result.status().message();
  for (const graph::Role& role : result->graph.roles) {
    const graph::Program& program = role.program;
    const auto op = static_cast<size_t>(
        std::ranges::find(program.kind, graph::OpKind::kCollective) - program.kind.begin());
    EXPECT_EQ(program.collectives[program.signature[op]].bytes, 1200);
  }
}

TEST(KinetoImport, rank_without_a_profile_does_what_the_next_lower_one_does) {
  Profile slow(2, 4);
  slow.Step(0, 900).Call("cudaLaunchKernel", 10, 5).Task("slow", 7, 20, 800);
  slow.Call("cudaDeviceSynchronize", 30, 795);
  const Result<ImportResult> result = Import({SmallStep(0, 4).Json(), slow.Json()}, 8);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->graph.ranks.role, ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));
}

TEST(KinetoImport, what_cannot_be_read_is_refused_with_its_place) {
  EXPECT_THAT(ErrorOf("{\"traceEvents\": [}, 1, 2, 3, 4, 5, 6, 7, 8]}"),
              HasSubstr("profile0: no trace of torch.profiler: byte 17 of the JSON: "));
  EXPECT_THAT(ErrorOf("{\"traceEvents\": []}"), HasSubstr("contains no kernels of a GPU"));
  EXPECT_THAT(ErrorOf(Profile().Step(0, 1).Task("k", 7, 0, 1).Json()),
              HasSubstr("contains no calls of CUDA"));
  EXPECT_THAT(ErrorOf("no JSON"), HasSubstr("byte 1 of the JSON: Invalid value"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("profile0: is empty"));
  EXPECT_THAT(ErrorOf("\"abc\""), HasSubstr("contains no kernels of a GPU"));
  EXPECT_THAT(ErrorOf(SmallStep(5, 2).Json()), HasSubstr("of rank 5, but the job has 2"));
  const Result<ImportResult> twice = Import({SmallStep().Json(), SmallStep().Json()});
  EXPECT_THAT(twice.status().message(), HasSubstr("a second profile of rank 0"));
}

TEST(KinetoImport, list_of_events_alone_is_read_as_they_are) {
  const std::string whole = SmallStep().Json();
  const size_t begin = whole.find("\"traceEvents\": ") + 15;
  const std::string list = whole.substr(begin, whole.rfind(']') + 1 - begin);
  const Result<KinetoTrace> from_object = ReadKinetoTrace(whole, "p");
  const Result<KinetoTrace> from_list = ReadKinetoTrace(list, "p");
  ASSERT_TRUE(from_list.ok()) << from_list.status().message();
  EXPECT_EQ(from_list->tasks.size(), from_object->tasks.size());
  EXPECT_EQ(from_list->calls.size(), from_object->calls.size());
  EXPECT_EQ(from_list->rank, -1);
  EXPECT_FALSE(from_list->is_cut_off);
  EXPECT_TRUE(ReadKinetoTrace(list.substr(0, list.size() - 1), "p")->is_cut_off);
}

TEST(KinetoImport, file_that_is_cut_off_gives_what_came_before) {
  const std::string json = SmallStep().Json();
  const Result<ImportResult> result = Import({json.substr(0, json.size() - 60)});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->notes.Lines(), Contains(HasSubstr("cut off")));
}

TEST(KinetoImport, target_that_groups_do_not_divide_is_refused) {
  const std::string pairs = SmallStep(0, 4, kNoted).Json();  // of four ranks: 0 and 1, 2 and 3
  const Result<ImportResult> even = Import({pairs}, 12);
  ASSERT_TRUE(even.ok()) << even.status().message();
  EXPECT_THAT(even->notes.Lines(), Contains(HasSubstr("share no group: 3")));
  const Result<ImportResult> odd = Import({pairs}, 13);
  EXPECT_EQ(odd.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(odd.status().message(),
              HasSubstr("13 ranks are not a multiple of process group 'dp'"));
}

TEST(ProcessAxis, outermost_groups_grow_and_others_stay) {
  const ProcessAxis tensor = *AxisOf("tp", {2, 3}, 8);
  const ProcessAxis data = *AxisOf("dp", {1, 3, 5, 7}, 8);
  EXPECT_THAT(GroupOn(tensor, Rank(13), 16, 8), Optional(ElementsAre(12, 13)));
  EXPECT_THAT(GroupOn(data, Rank(13), 16, 8), Optional(ElementsAre(1, 3, 5, 7, 9, 11, 13, 15)));
  EXPECT_EQ(AxisOf("beyond", {8, 9}, 8), std::nullopt);
}

// Megatron's model-parallel group: two tensor-parallel ranks of each of two pipeline stages.
TEST(ProcessAxis, groups_of_two_axes_are_regular) {
  const ProcessAxis model = *AxisOf("mp", {0, 1, 8, 9}, 16);
  EXPECT_TRUE(model.members.empty());
  EXPECT_THAT(GroupOn(model, Rank(6), 16, 16), Optional(ElementsAre(6, 7, 14, 15)));
  EXPECT_THAT(GroupOn(model, Rank(6), 32, 16), Optional(ElementsAre(6, 7, 14, 15, 22, 23, 30, 31)));
}

TEST(ProcessAxis, other_ranks_than_those_of_an_irregular_group_form_more_of_its_size) {
  const ProcessAxis odd = *AxisOf("odd", {0, 1, 5}, 8);
  EXPECT_THAT(GroupOn(odd, Rank(5), 8, 8), Optional(ElementsAre(0, 1, 5)));
  EXPECT_THAT(GroupOn(odd, Rank(3), 8, 8), Optional(ElementsAre(2, 3, 4)));
  EXPECT_THAT(GroupOn(odd, Rank(7), 8, 8), Optional(ElementsAre(6, 7)));
  EXPECT_THAT(GroupOn(odd, Rank(13), 16, 8), Optional(ElementsAre(8, 9, 13)));
  EXPECT_EQ(GroupOn(odd, Rank(13), 12, 8), std::nullopt);
}

TEST(CollectiveWords, names_of_pytorch_and_of_nccl_are_known) {
  const auto kind = [](const std::string& noted, const std::string& kernel) {
    KinetoCollective collective;
    collective.name = noted;
    collective.dtype = "Float";
    collective.elements = 8;
    const auto shape = ShapeOf(collective, kernel);
    return shape ? graph::CollectiveKindName(shape->kind) : "none";
  };
  EXPECT_STREQ(kind("_allgather_base", "x"), kind("all_gather", "x"));
  EXPECT_STREQ(kind("", "ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclWorkElem)"),
               kind("reduce_scatter_tensor_coalesced", "x"));
  EXPECT_STREQ(kind("", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"), "none");
  KinetoRange task;
  for (const char* const name :
       {"ncclDevKernel_Broadcast_RING_LL(args)", "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
        "void ncclKernel_SendRecv(args)", "rcclGenericKernel<4>"}) {
    task.name = name;
    EXPECT_TRUE(IsCollective(task)) << name;
  }
  task.name = "void at::native::vectorized_elementwise_kernel";
  EXPECT_FALSE(IsCollective(task));
  KinetoCollective noted;
  noted.name = "allreduce";
  task.noted = &noted;
  EXPECT_TRUE(IsCollective(task));
}

// Words, numbers, escapes and the end of the file may fall between any two pieces.
TEST(KinetoImport, pieces_of_a_file_are_read_as_the_whole) {
  std::string text = SmallStep(0, 2, kNoted).Json();
  text.replace(text.find("first"), 5, R"(f\u00fcr \"a\" \ud83d\ude00)");
  const auto read = [&](std::string_view whole, size_t size) {
    const auto next = [&] {
      const std::string_view piece = whole.substr(0, size);
      whole.remove_prefix(piece.size());
      return piece;
    };
    return ReadKinetoTrace(next, "p");
  };
  const Result<KinetoTrace> whole = ReadKinetoTrace(text, "p");
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_EQ(whole->tasks.front().name, "f\u00fcr \"a\" \U0001f600");
  for (const size_t size : {1, 2, 3, 7, 64, 1000}) {
    const Result<KinetoTrace> trace = read(text, size);
    ASSERT_TRUE(trace.ok()) << trace.status().message();
    EXPECT_FALSE(trace->is_cut_off);
    const auto equal = [](const KinetoRange& a, const KinetoRange& b) {
      return a.name == b.name && a.begin_ns == b.begin_ns && a.duration_ns == b.duration_ns &&
             a.correlation == b.correlation && a.stream == b.stream &&
             a.collective().elements == b.collective().elements &&
             a.collective().ranks() == b.collective().ranks();
    };
    EXPECT_TRUE(std::ranges::equal(trace->tasks, whole->tasks, equal));
    EXPECT_TRUE(std::ranges::equal(trace->calls, whole->calls, equal));
    EXPECT_TRUE(read(text.substr(0, text.size() - 5), size)->is_cut_off);
    const std::string wrong = text.substr(0, 500) + "]" + text.substr(500);
    EXPECT_EQ(read(wrong, size).status().message(), ReadKinetoTrace(wrong, "p").status().message());
  }
}

TEST(KinetoImport, stream_that_waits_for_nothing_ran_what_the_profile_lacks) {
  Profile profile;
  profile.Step(0, 1000).Call("cudaGraphLaunch", 10, 10);
  profile.Task("first of the graph", 7, 25, 75).Task("last of it", 7, 400, 100);
  profile.Call("cudaDeviceSynchronize", 30, 480);
  const Result<ImportResult> result = Import({profile.Json()});
  ASSERT_TRUE(result.ok()) << result.status().message();
  // From 20, when the launch returns: 75 + 300 + 100, and the host's 505 after them, of which 5 are
  // from the launch to its first kernel.
  EXPECT_EQ(IterationNs(result->graph), 1'000'000);
  EXPECT_THAT(result->notes.Lines(), Contains(HasSubstr("gaps of streams stay as they are")));
}

// With record_shapes=True: 64 x 128 by 128 x 32 in rows is 32 x 64 in columns.
TEST(KinetoImport, kernels_of_products_have_their_shape) {
  Profile profile;
  profile.Step(0, 1000).Op("aten::addmm", 5, 20, "[[32], [64, 128], [128, 32], []]");
  profile.Call("cudaLaunchKernel", 10, 5).Task("sm90_xmma_gemm_bf16", 7, 20, 100);
  profile.Call("cudaLaunchKernel", 30, 5).Task("sm90_xmma_gemm_bf16", 7, 120, 100);
  const Result<ImportResult> result = Import({profile.Json()});
  ASSERT_TRUE(result.ok()) << result.status().message();
  std::vector<int64_t> m;
  for (const graph::KernelSignature& signature : result->graph.signatures) {
    m.push_back(signature.matmul.m);
    if (signature.matmul.m > 0) {
      EXPECT_EQ(signature.matmul.n, 64);
      EXPECT_EQ(signature.matmul.k, 128);
      EXPECT_EQ(signature.matmul.batch, 1);
      EXPECT_EQ(signature.matmul.input, DataType::kBfloat16);
    }
  }
  EXPECT_THAT(m, Contains(32));
  EXPECT_THAT(m, Contains(0));  // the second kernel is launched by no product
  // Twice the rate of products: the product takes less, the other kernel what it took.
  const graph::Graph& graph = result->graph;
  const replayer::ReplayOptions options;
  replayer::EditBuilder builder(graph, options);
  graph::ClusterSpec faster = graph.cluster;
  for (const graph::Parameter& parameter : faster.parameters.all()) {
    const bool is_rate = parameter.key.find("peak") != std::string::npos ||
                         parameter.key.find("hbm") != std::string::npos;
    if (parameter.key.starts_with("gpu.") && is_rate) {
      faster.parameters.SetValue(parameter.key, parameter.value * 4);
    }
  }
  builder.TakeGpuOf(faster);
  Result<replayer::Edit> edit = std::move(builder).Take();
  ASSERT_TRUE(edit.ok()) << edit.status().message();
  ASSERT_EQ(edit->programs.size(), 1U);
  ASSERT_EQ(edit->programs.front().durations.size(), 1U);
  EXPECT_LT(edit->programs.front().durations.front().duration_ns, 100'000);
}

// Two jobs whose host is slower than their GPUs: their steps take what they took.
TEST(KinetoImport, steps_of_real_jobs_take_their_measured_time) {
  namespace fs = std::filesystem;
  const fs::path traces = fs::path(PRISM_TRACES) / "hta-single";
  if (!fs::exists(traces)) {
    GTEST_SKIP() << "no recorded profiles beside the repository";
  }
  const auto seconds = [&](const std::string& name) {
    ImportOptions options;
    options.cluster = prism::testing::TestCluster();
    const Result<ImportResult> result = ImportKineto({traces / name}, options);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? SecondsFromNs(IterationNs(result->graph)) : 0;
  };
  EXPECT_NEAR(seconds("a100_ddp2_rank0_ncclmeta.json.gz"), 0.2197, 0.0022);
  EXPECT_NEAR(seconds("v100_ddp2_rank1_memevents.json.gz"), 0.3461, 0.0035);
}

}  // namespace
}  // namespace prism::slicer
