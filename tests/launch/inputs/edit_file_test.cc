// The effect of --edit FILE.toml on a synthesised job: which kernels, how long, and what it
// assumes.
#include "launch/inputs/edit_file.h"

#include <cmath>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/inputs/presets.h"
#include "replayer/cost/compute_cost.h"
#include "slicer/synthesize/expand.h"
#include "slicer/synthesize/synthesize.h"
#include "tests/support/scratch_folder.h"

namespace prism::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EditFiles : public ::testing::Test {
 protected:
  EditFiles() {
    graph::JobSpec job;
    job.name = "small";
    job.model = LoadModel("gpt3-1.3b")->model;
    job.model.layers = 2;
    job.seq_len = 1024;
    job.global_batch_size = 2;
    const Result<graph::JobProgram> program = slicer::Synthesize(job, {});
    graph_ = *slicer::Expand(*program, *LoadCluster("a100-80-8x"));
  }

  Result<EditFile> Read(const std::string& text) {
    const ScratchFolder folder;
    const std::string path = folder / "edit.toml";
    std::ofstream(path) << text;
    return ReadEditFile(path, graph_, {});
  }

  [[nodiscard]] const graph::Program& program() const { return graph_.roles.front().program; }
  [[nodiscard]] const graph::KernelSignature& SignatureOf(uint32_t op) const {
    return graph_.signatures[program().signature[op]];
  }
  [[nodiscard]] DurationNs Duration(uint32_t op) const {
    return replayer::ComputeCost(graph_.cluster).Kernel(graph_, SignatureOf(op)).duration_ns;
  }

  graph::Graph graph_;
};

TEST_F(EditFiles, names_products_by_shape) {
  const int64_t hidden = graph_.job.model.hidden;
  const Result<EditFile> file =
      Read("[kernels.\"*\"]\nshape = \"*x*x" + std::to_string(4 * hidden) + "\"\nfactor = 0.5\n");
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_FALSE(file->edit.programs.front().durations.empty());
  for (const replayer::OpDuration& op : file->edit.programs.front().durations) {
    EXPECT_EQ(SignatureOf(op.op).matmul.k, 4 * hidden);
    EXPECT_EQ(op.duration_ns, std::llround(0.5 * static_cast<double>(Duration(op.op))));
  }
  EXPECT_FALSE(Read("[kernels.\"*\"]\nshape = \"7x7x7\"\nfactor = 0.5\n").ok());
}

TEST_F(EditFiles, fuses_runs_into_their_longest_kernel) {
  const Result<EditFile> file = Read("[kernels.\"elementwise_kernel\"]\nfuse = true\n");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto& durations = file->edit.programs.front().durations;
  ASSERT_GT(durations.size(), 1U);
  EXPECT_GT(durations[0].duration_ns, 0);
  EXPECT_EQ(durations[1].op, durations[0].op + 1);
  EXPECT_EQ(durations[1].duration_ns, 0);
  EXPECT_GE(durations[0].duration_ns, Duration(durations[1].op));
  EXPECT_THAT(file->assumptions, ElementsAre(HasSubstr("longest kernel")));
}

TEST_F(EditFiles, finds_kernels_by_their_names_in_any_case) {
  EXPECT_TRUE(Read("[kernels.\"ELEMENTWISE_*\"]\nfactor = 0.5\n").ok());
  EXPECT_FALSE(Read("[kernels.\"ELEMENTWISE\"]\nfactor = 0.5\n").ok());
}

TEST_F(EditFiles, takes_another_gpu_by_its_data_sheet) {
  const Result<EditFile> file = Read("[gpu]\nof = \"h200-8x\"\n");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const graph::ClusterSpec other = *LoadCluster("h200-8x");
  EXPECT_EQ(file->edit.cluster->gpu, other.gpu);
  EXPECT_EQ(file->edit.cluster->parameters.Value("gpu.hbm_bytes_per_s"),
            other.parameters.Value("gpu.hbm_bytes_per_s"));
  EXPECT_EQ(file->edit.cluster->parameters.Value("net.nic_bytes_per_s"),
            graph_.cluster.parameters.Value("net.nic_bytes_per_s"));
  EXPECT_THAT(file->assumptions, ElementsAre(HasSubstr("0 of measured duration")));
  EXPECT_FALSE(Read("[gpu]\nof = \"none\"\n").ok());
}

TEST_F(EditFiles, other_tables_are_of_what_the_program_tables_make) {
  const Result<EditFile> file = Read(
      "[[program]]\noptimizer = \"lion\"\n[[program]]\noffload = \"activations\"\nbytes = 1000\n"
      "[kernels.\"fused::lion\"]\nmicroseconds = 1\n");
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_TRUE(file->program.has_value());
  for (const replayer::OpDuration& op : file->edit.programs.front().durations) {
    const uint32_t signature = file->program->roles.front().program.signature[op.op];
    EXPECT_EQ(file->program->string(file->program->signatures[signature].name), "fused::lion");
  }
  EXPECT_THAT(file->assumptions,
              ElementsAre(HasSubstr("lion instead of adam"), HasSubstr("offload of activations")));
  EXPECT_EQ(file->memory.size(), 2U);
  EXPECT_FALSE(Read("[[program]]\noptimizer = \"none\"\n").ok());
}

// The job's shape determines what a layer keeps: one that recomputes keeps its input.
TEST_F(EditFiles, a_described_job_says_how_large_activations_are) {
  const auto bytes = [](const EditFile& file) { return file.assumptions.back(); };
  const Result<EditFile> kept = Read("[[program]]\noffload = \"activations\"\n");
  ASSERT_TRUE(kept.ok()) << kept.status().message();
  EXPECT_THAT(bytes(*kept), HasSubstr("(as the job's shape says)"));
  graph_.job.recompute = graph::Recompute::kFull;
  const Result<EditFile> input = Read("[[program]]\noffload = \"activations\"\n");
  ASSERT_TRUE(input.ok()) << input.status().message();
  EXPECT_THAT(bytes(*input), HasSubstr("4 MiB of a layer"));
  EXPECT_NE(bytes(*input), bytes(*kept));
  graph_.job.user_program = true;
  EXPECT_THAT(Read("[[program]]\noffload = \"activations\"\n").status().message(),
              HasSubstr("how large they are"));
}

TEST_F(EditFiles, refuses_times_that_sums_could_wrap) {
  EXPECT_THAT(Read("[kernels.\"*\"]\nmicroseconds = 1e12\n").status().message(),
              HasSubstr("more than 11 days"));
}

TEST_F(EditFiles, swaps_two_ranks_once) {
  graph::JobSpec job = graph_.job;
  job.parallel = {.dp = 2};
  graph_ = *slicer::Expand(*slicer::Synthesize(job, {}), graph_.cluster);
  const Result<EditFile> once = Read("[placement]\n\"0\" = 1\n");
  ASSERT_TRUE(once.ok()) << once.status().message();
  EXPECT_THAT(once->edit.options->placement, ElementsAre(1U, 0U));
  EXPECT_THAT(Read("[placement]\n\"0\" = 1\n\"1\" = 0\n").status().message(), HasSubstr("twice"));
}

TEST_F(EditFiles, other_precision_and_other_gpu_compose) {
  const Result<EditFile> file = Read("[gpu]\nof = \"h200-8x\"\n[precision]\nproducts = \"fp8\"\n");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const replayer::ComputeCost cost(*file->edit.cluster);
  int64_t products = 0;
  for (const replayer::OpDuration& op : file->edit.programs.front().durations) {
    graph::KernelSignature signature = SignatureOf(op.op);
    EXPECT_GT(signature.matmul.m, 0);
    signature.matmul.input = DataType::kFloat8;
    EXPECT_NEAR(static_cast<double>(op.duration_ns),
                static_cast<double>(cost.Kernel(graph_, signature).duration_ns), 1);
    ++products;
  }
  EXPECT_GT(products, 10);
  EXPECT_EQ(file->assumptions.size(), 2U);
}

}  // namespace
}  // namespace prism::launch
