// The synthesised graph of the built-in workload against the recorded one, for layouts drawn by a
// seed: kind, stream, flags and dependencies of every op, collectives, communicators and peers,
// framework ops, shapes of tensors and matrix products. Only the family of a kernel's name is
// compared (KernelFamily), and its launch geometry not at all.
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/base/rng.h"
#include "graph/diff/diff.h"
#include "slicer/stitch/stitch.h"
#include "slicer/synthesize/expand.h"
#include "slicer/synthesize/synthesize.h"
#include "tests/sim/recorded_ranks.h"

namespace prism::launch {
namespace {

constexpr uint64_t kSeed = 5;
constexpr int kLayouts = 30;
constexpr int kExpertLayouts = 15;
constexpr int kShardedLayouts = 30;

template <typename T>
T Pick(Rng& rng, const std::vector<T>& values) {
  return values[static_cast<size_t>(rng.UniformInt(0, static_cast<int64_t>(values.size()) - 1))];
}

// Small shapes: what matters is which ops there are, and of what shape.
graph::JobSpec DrawJob(Rng& rng) {
  graph::JobSpec job = TinyJob();
  graph::ParallelSizes& sizes = job.parallel;
  job.model.block = Pick<graph::BlockKind>(rng, {graph::BlockKind::kGpt, graph::BlockKind::kLlama});
  job.model.tied_embeddings = Pick<int>(rng, {0, 1}) == 1;
  job.model.kv_heads = Pick<int64_t>(rng, {4, job.model.block == graph::BlockKind::kLlama ? 2 : 4});
  job.model.vocab = Pick<int64_t>(rng, {1000, 2048, 50257});
  sizes.tp = Pick<int32_t>(rng, {1, 2});
  sizes.cp = Pick<int32_t>(rng, {1, 1, 2});
  sizes.dp = Pick<int32_t>(rng, {1, 2, 3});
  sizes.pp = Pick<int32_t>(rng, {1, 2, 3});
  sizes.vpp = sizes.pp > 1 ? Pick<int32_t>(rng, {1, 2}) : 1;
  job.model.layers = int64_t{sizes.pp} * sizes.vpp * Pick<int32_t>(rng, {1, 2});
  job.micro_batch_size = Pick<int64_t>(rng, {1, 2});
  const int64_t microbatches =
      sizes.vpp > 1 ? sizes.pp * Pick<int64_t>(rng, {1, 2}) : Pick<int64_t>(rng, {1, 3, 4});
  job.global_batch_size = microbatches * job.micro_batch_size * sizes.dp;
  job.seq_len = Pick<int64_t>(rng, {128, 256});
  job.sequence_parallel = Pick<int>(rng, {0, 1}) == 1;
  job.recompute = Pick<graph::Recompute>(
      rng, {graph::Recompute::kNone, graph::Recompute::kSelective, graph::Recompute::kFull});
  job.zero_stage = Pick<int32_t>(rng, {0, 1});
  return job;
}

// Experts in place of some feed-forward layers: on one rank, on all, replicated and not.
graph::JobSpec DrawExpertJob(Rng& rng) {
  graph::JobSpec job = DrawJob(rng);
  graph::ParallelSizes& sizes = job.parallel;
  job.model.block = graph::BlockKind::kLlama;
  sizes.cp = 1;
  sizes.etp = sizes.tp;
  sizes.ep = Pick<int32_t>(rng, {1, 2, 4});
  const int32_t dp = sizes.ep * Pick<int32_t>(rng, {1, 2});
  job.global_batch_size = job.global_batch_size / sizes.dp * dp;
  sizes.dp = dp;
  job.sequence_parallel = sizes.tp > 1;
  job.model.moe.experts = Pick<int64_t>(rng, {4, 8, 12});
  job.model.moe.topk = Pick<int64_t>(rng, {1, 2, 3});
  job.model.moe.expert_ffn = Pick<int64_t>(rng, {128, 384});
  job.model.moe.shared_expert_ffn = Pick<int64_t>(rng, {0, 0, 256});
  job.model.moe.dense_layers = Pick<int64_t>(rng, {0, 0, 1});
  return job;
}

// Gradients sharded as well (ZeRO 2), or parameters, too (ZeRO 3). In one of three jobs layers fill
// separate buckets.
graph::JobSpec DrawShardedJob(Rng& rng) {
  graph::JobSpec job = Pick<int>(rng, {0, 0, 1}) == 1 ? DrawExpertJob(rng) : DrawJob(rng);
  if (job.model.moe.experts == 0) {
    job.parallel.dp = Pick<int32_t>(rng, {1, 2, 3, 4});
    job.global_batch_size =
        Pick<int64_t>(rng, {1, 2}) * job.parallel.pp * job.micro_batch_size * job.parallel.dp;
    if (Pick<int>(rng, {0, 0, 1}) == 1) {
      job.model.hidden = 4096;
      job.model.heads = job.model.kv_heads = 32;
      job.model.ffn = 12288;
    }
  }
  job.zero_stage = job.model.moe.experts > 0 ? 2 : Pick<int32_t>(rng, {2, 3, 3});
  return job;
}

std::string Describe(const graph::JobSpec& job) {
  const graph::ParallelSizes& sizes = job.parallel;
  return fmt::format(
      "{} hidden {} layers {} tied {} kv {} vocab {} tp {} cp {} dp {} pp {} vpp {} mbs {} "
      "micro-batches {} "
      "seq {} "
      "sp {} recompute {} zero {} ep {} experts {} topk {} shared {} dense layers {}",
      job.model.block == graph::BlockKind::kGpt ? "gpt" : "llama", job.model.hidden,
      job.model.layers, job.model.tied_embeddings, job.model.kv_heads, job.model.vocab, sizes.tp,
      sizes.cp, sizes.dp, sizes.pp, sizes.vpp, job.micro_batch_size, job.microbatches(),
      job.seq_len, job.sequence_parallel, static_cast<int>(job.recompute), job.zero_stage, sizes.ep,
      job.model.moe.experts, job.model.moe.topk, job.model.moe.shared_expert_ffn,
      job.model.moe.dense_layers);
}

// The name without return type, namespaces, template arguments and parameters.
std::string BareName(const std::string& name) {
  std::string bare;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const char letter = name[i];
    if (name.compare(i, 21, "(anonymous namespace)") == 0) {
      i += 20;
    } else if (letter == '<') {
      ++depth;
    } else if (letter == '>') {
      --depth;
    } else if (depth == 0 && letter == '(') {
      break;
    } else if (depth == 0 && (letter == ' ' || letter == ':')) {
      bare.clear();
    } else if (depth == 0) {
      bare += letter;
    }
  }
  return bare;
}

// libtorch picks one of several kernels of a family by alignment and size, which a synthesised
// kernel does not specify.
std::string KernelFamily(const std::string& name) {
  std::string family = BareName(name);
  for (const std::string prefix : {"vectorized_", "unrolled_", "_"}) {
    if (family.starts_with(prefix)) {
      family.erase(0, prefix.size());
    }
  }
  for (const std::string suffix :
       {"_vectorized", "_alignedK_contig", "_aligned16_contig", "Template"}) {
    if (family.ends_with(suffix)) {
      family.erase(family.size() - suffix.size());
    }
  }
  return family;
}

// Drops what a synthesised kernel does not specify: grid, block, template arguments.
void DropGeometry(graph::Graph* graph) {
  for (graph::KernelSignature& signature : graph->signatures) {
    signature.grid = {0, 0, 0};
    signature.block = {0, 0, 0};
    std::string name = KernelFamily(graph->strings[signature.name.value()]);
    signature.name = StringId(static_cast<uint32_t>(graph->strings.size()));
    graph->strings.push_back(std::move(name));
  }
}

// Memory is not synthesised. Signatures are compared op by op already; their tables differ in the
// number of members of a family.
std::string Text(const std::vector<graph::Difference>& differences) {
  std::string text;
  for (const graph::Difference& difference : differences) {
    if (difference.kind != graph::DifferenceKind::kMemory &&
        difference.kind != graph::DifferenceKind::kSignature) {
      text += fmt::format("{} {} ({}): {} | {}\n", graph::DifferenceKindName(difference.kind),
                          difference.where, difference.count, difference.left, difference.right);
    }
  }
  return text;
}

void ExpectRecorded(const graph::JobSpec& job) {
  const Recording recording = {.job = job};
  Result<RunContext> context = MakeTestContext(recording);
  ASSERT_TRUE(context.ok()) << context.status().message();
  slicer::StitchInput input;
  input.job = job;
  input.cluster = context->cluster;
  input.plan = context->plan;
  std::vector<Rank> ranks;
  for (const slicer::PlannedRole& role : context->plan.roles) {
    ranks.push_back(role.representative);
  }
  auto fragments = RecordAlone(recording, ranks);
  ASSERT_TRUE(fragments.ok()) << fragments.status().message();
  input.fragments = std::move(*fragments);
  Result<graph::Graph> recorded = slicer::Stitch(std::move(input));
  ASSERT_TRUE(recorded.ok()) << recorded.status().message();
  const Result<graph::JobProgram> program = slicer::Synthesize(job, graph::TrainingStyle());
  ASSERT_TRUE(program.ok()) << program.status().message();
  Result<graph::Graph> synthesised = slicer::Expand(*program, context->cluster);
  ASSERT_TRUE(synthesised.ok()) << synthesised.status().message();
  DropGeometry(&*recorded);
  DropGeometry(&*synthesised);
  EXPECT_EQ(Text(graph::DiffGraphs(*recorded, *synthesised)), "");
}

TEST(Synthesis, equals_the_recorded_graph_op_by_op) {
  Rng rng(kSeed, "layouts");
  for (int i = 0; i < kLayouts; ++i) {
    const graph::JobSpec job = DrawJob(rng);
    SCOPED_TRACE(fmt::format("layout {}: {}", i, Describe(job)));
    ExpectRecorded(job);
  }
}

TEST(Synthesis, equals_the_recorded_graph_of_experts_op_by_op) {
  Rng rng(kSeed, "expert layouts");
  for (int i = 0; i < kExpertLayouts; ++i) {
    const graph::JobSpec job = DrawExpertJob(rng);
    SCOPED_TRACE(fmt::format("layout {}: {}", i, Describe(job)));
    ExpectRecorded(job);
  }
}

TEST(Synthesis, equals_the_recorded_graph_of_sharded_states_op_by_op) {
  Rng rng(kSeed, "sharded layouts");
  for (int i = 0; i < kShardedLayouts; ++i) {
    const graph::JobSpec job = DrawShardedJob(rng);
    SCOPED_TRACE(fmt::format("layout {}: {}", i, Describe(job)));
    ExpectRecorded(job);
  }
}

// Kernels over parts of a unit's values and gradients that 32 bits cannot index are halved.
TEST(Synthesis, equals_the_recorded_graph_of_large_sharded_units_op_by_op) {
  graph::JobSpec job = TinyJob();
  job.model.block = graph::BlockKind::kLlama;
  job.model.layers = 1;
  job.model.hidden = 8192;
  job.model.heads = 64;
  job.model.kv_heads = 8;
  job.model.ffn = 40960;
  job.model.tied_embeddings = false;
  job.parallel = {.dp = 8};
  job.global_batch_size = 8;
  job.zero_stage = 3;
  ExpectRecorded(job);
}

}  // namespace
}  // namespace prism::launch
