// Kernels of transformer units against counts by hand. That the built-in style equals a recording,
// op by op, is tested in tests/sim.
#include "slicer/synthesize/blocks/blocks.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "replayer/cost/attention.h"
#include "replayer/cost/kernel_rules.h"

namespace prism::slicer {
namespace {

using graph::AttentionKind;
using graph::BlockKind;
using graph::CollectiveKind;
using graph::GroupAxis;
using graph::JobSpec;
using graph::OpKind;
using graph::Precision;
using graph::Recompute;
using graph::TrainingStyle;

// 4 layers of hidden size 512 on tp 2, vocabulary 1,024 (divides by 128 · tp: no padding).
JobSpec SmallJob(BlockKind block) {
  JobSpec job;
  job.model.block = block;
  job.model.layers = 4;
  job.model.hidden = 512;
  job.model.heads = 8;
  job.model.kv_heads = block == BlockKind::kLlama ? 4 : 8;
  job.model.ffn = 2048;
  job.model.vocab = 1024;
  job.model.seq_len = 256;
  job.parallel.tp = 2;
  job.seq_len = 256;
  job.micro_batch_size = 2;
  job.global_batch_size = 8;
  return job;
}

// Megatron-LM's kernels with unfused attention: every FLOP is in a matrix product.
TrainingStyle UnfusedStyle() {
  TrainingStyle style;
  style.built_in = false;
  style.attention = AttentionKind::kUnfused;
  style.fused_bias_activation = true;
  style.fused_bias_dropout_add = true;
  return style;
}

// Units of one micro-batch on one rank; one layer represents all.
struct Units {
  BlockTables tables;
  UnitBlocks embedding;
  UnitBlocks layer;
  UnitBlocks head;
};

Units MakeUnits(const JobSpec& job, const TrainingStyle& style) {
  Units units;
  const RankShape rank(job, style);
  units.embedding = EmbeddingUnit(rank, {}, &units.tables);
  units.layer = LayerUnit(rank, {}, &units.tables);
  units.head = HeadUnit(rank, {}, &units.tables);
  return units;
}

double MatmulFlops(const graph::Program& program, const BlockTables& tables) {
  double flops = 0;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == OpKind::kKernel) {
      const graph::MatmulShape& shape = tables.signatures()[program.signature[op]].matmul;
      flops += 2.0 * static_cast<double>(shape.m * shape.n * shape.k * shape.batch);
    }
  }
  return flops;
}

// FLOPs of an iteration of the whole job.
double IterationFlops(const JobSpec& job, const TrainingStyle& style) {
  const Units units = MakeUnits(job, style);
  const auto both = [&](const UnitBlocks& unit) {
    return MatmulFlops(unit.forward.program, units.tables) +
           MatmulFlops(unit.backward.program, units.tables);
  };
  const double rank = both(units.embedding) + both(units.head) +
                      static_cast<double>(job.model.layers) * both(units.layer);
  return rank * static_cast<double>(job.parallel.tp * job.parallel.cp * job.parallel.dp *
                                    job.microbatches());
}

// What a causal mask would leave out: half of both products of the core. 4 s² h per sequence
// forward, `passes` times that in total.
double MaskedHalf(const JobSpec& job, double passes) {
  const auto tokens = static_cast<double>(job.tokens_per_iteration());
  return passes * 0.5 * 4.0 * static_cast<double>(job.seq_len * job.model.hidden) * tokens *
         static_cast<double>(job.model.layers);
}

// Bytes by kind of collective over one group.
std::map<CollectiveKind, int64_t> CollectiveBytes(const Block& block, GroupAxis axis) {
  std::map<CollectiveKind, int64_t> bytes;
  const graph::Program& program = block.program;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == OpKind::kCollective && program.comm_slot[op] == graph::SlotOf(axis)) {
      const graph::CollectiveShape& shape = program.collectives[program.signature[op]];
      bytes[shape.kind] += shape.bytes;
    }
  }
  return bytes;
}

TEST(Blocks, matrix_products_add_up_to_model_flops) {
  for (const BlockKind block : {BlockKind::kGpt, BlockKind::kLlama, BlockKind::kNemotron}) {
    JobSpec job = SmallJob(block);
    job.model.kv_heads = job.model.heads;
    EXPECT_DOUBLE_EQ(IterationFlops(job, UnfusedStyle()),
                     graph::ModelFlops(job) + MaskedHalf(job, 3));
  }
}

TEST(Blocks, recomputation_adds_what_hardware_flops_say) {
  JobSpec job = SmallJob(BlockKind::kGpt);
  for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
    job.recompute = recompute;
    EXPECT_DOUBLE_EQ(IterationFlops(job, UnfusedStyle()),
                     graph::HardwareFlops(job) + MaskedHalf(job, 4));
  }
}

TEST(Blocks, parallel_block_has_the_same_products_and_half_the_traffic) {
  const JobSpec job = SmallJob(BlockKind::kGpt);
  TrainingStyle style = UnfusedStyle();
  style.parallel_block = true;
  EXPECT_DOUBLE_EQ(IterationFlops(job, style), graph::ModelFlops(job) + MaskedHalf(job, 3));
  const Units units = MakeUnits(job, style);
  const int64_t activation = 256 * 2 * 512 * 2;
  EXPECT_EQ(CollectiveBytes(units.layer.forward, GroupAxis::kTensor),
            (std::map<CollectiveKind, int64_t>{{CollectiveKind::kAllGather, activation},
                                               {CollectiveKind::kReduceScatter, activation}}));
}

TEST(Blocks, frozen_weights_have_no_gradients) {
  const JobSpec job = SmallJob(BlockKind::kLlama);
  TrainingStyle style = UnfusedStyle();
  const Units trained = MakeUnits(job, style);
  style.frozen_weights = true;
  const Units frozen = MakeUnits(job, style);
  EXPECT_TRUE(frozen.layer.backward.ready.empty());
  // Linear layers have only the input's gradient left; the core has only input gradients.
  const double linear = 256 * 2 * 2.0 * (512 * (512 + 2 * 256) + 512 * 512 + 3 * 512 * 2048) / 2;
  // Adapters of rank 16 beside the first and last projection of attention, whose four products of a
  // backward pass are added.
  const double adapters = 256 * 2 * 2.0 * 2 * 16 * ((512 + 512) + (256 + 512));
  EXPECT_DOUBLE_EQ(MatmulFlops(trained.layer.backward.program, trained.tables) -
                       MatmulFlops(frozen.layer.backward.program, frozen.tables),
                   linear - adapters);
}

TEST(Blocks, padded_rows_of_the_vocabulary_cost_as_others) {
  JobSpec job = SmallJob(BlockKind::kGpt);
  job.model.vocab = 1000;  // padded to 1,024
  const double padding = 3 * 2.0 * 24 * static_cast<double>(job.model.hidden) *
                         static_cast<double>(job.tokens_per_iteration());
  EXPECT_DOUBLE_EQ(IterationFlops(job, UnfusedStyle()),
                   graph::ModelFlops(job) + MaskedHalf(job, 3) + padding);
}

TEST(Blocks, experts_add_up_to_model_flops) {
  JobSpec job = SmallJob(BlockKind::kLlama);
  job.model.kv_heads = job.model.heads;
  job.model.moe = {.experts = 8, .topk = 2, .expert_ffn = 1024, .shared_expert_ffn = 512};
  job.parallel.tp = 1;
  job.parallel.dp = 4;
  job.parallel.ep = 4;
  EXPECT_DOUBLE_EQ(IterationFlops(job, UnfusedStyle()),
                   graph::ModelFlops(job) + MaskedHalf(job, 3));
}

TEST(Blocks, latent_attention_adds_up_to_model_flops) {
  JobSpec job = SmallJob(BlockKind::kLlama);
  job.model.kv_heads = job.model.heads;
  job.model.latent = {.q_rank = 192, .kv_rank = 64, .rope_dim = 32, .value_dim = 64};
  // Keys of 64 + 32, values of 64: (96 + 64) / 2 instead of a head's 64 elements.
  JobSpec wider = job;
  wider.model.hidden = 8 * (96 + 64) / 2;
  EXPECT_DOUBLE_EQ(IterationFlops(job, UnfusedStyle()),
                   graph::ModelFlops(job) + MaskedHalf(wider, 3));
}

TEST(Blocks, zero_bubble_halves_hold_the_products_of_the_whole) {
  TrainingStyle style = UnfusedStyle();
  style.schedule = graph::Schedule::kZeroBubble;
  const Units units = MakeUnits(SmallJob(BlockKind::kGpt), style);
  for (const UnitBlocks* unit : {&units.layer, &units.head}) {
    EXPECT_DOUBLE_EQ(MatmulFlops(unit->backward_input.program, units.tables) +
                         MatmulFlops(unit->backward_weight.program, units.tables),
                     MatmulFlops(unit->backward.program, units.tables));
    EXPECT_EQ(unit->backward_input.ready.size() + unit->backward_weight.ready.size(),
              unit->backward.ready.size());
  }
}

// Korthikanti et al. 2022, section 4.2.2: sequence parallelism replaces two all-reduces per pass by
// two pairs of all-gather and reduce-scatter; backward gathers the two saved inputs again.
TEST(Blocks, tensor_parallel_traffic_of_a_layer) {
  JobSpec job = SmallJob(BlockKind::kGpt);
  const int64_t activation = 256 * 2 * 512 * 2;
  const Units with = MakeUnits(job, UnfusedStyle());
  using Bytes = std::map<CollectiveKind, int64_t>;
  EXPECT_EQ(CollectiveBytes(with.layer.forward, GroupAxis::kTensor),
            (Bytes{{CollectiveKind::kAllGather, 2 * activation},
                   {CollectiveKind::kReduceScatter, 2 * activation}}));
  EXPECT_EQ(CollectiveBytes(with.layer.backward, GroupAxis::kTensor),
            (Bytes{{CollectiveKind::kAllGather, 4 * activation},
                   {CollectiveKind::kReduceScatter, 2 * activation}}));
  job.sequence_parallel = false;
  const Units without = MakeUnits(job, UnfusedStyle());
  EXPECT_EQ(CollectiveBytes(without.layer.forward, GroupAxis::kTensor),
            (Bytes{{CollectiveKind::kAllReduce, 2 * activation}}));
  EXPECT_EQ(CollectiveBytes(without.layer.backward, GroupAxis::kTensor),
            (Bytes{{CollectiveKind::kAllReduce, 2 * activation}}));
}

TEST(Blocks, overlap_in_pieces_moves_the_same_bytes_and_flops) {
  const JobSpec job = SmallJob(BlockKind::kLlama);
  TrainingStyle style = UnfusedStyle();
  const Units plain = MakeUnits(job, style);
  style.tp_comm_overlap = true;
  const Units pieces = MakeUnits(job, style);
  for (const auto side : {&UnitBlocks::forward, &UnitBlocks::backward}) {
    EXPECT_EQ(CollectiveBytes(plain.layer.*side, GroupAxis::kTensor),
              CollectiveBytes(pieces.layer.*side, GroupAxis::kTensor));
    EXPECT_DOUBLE_EQ(MatmulFlops((plain.layer.*side).program, plain.tables),
                     MatmulFlops((pieces.layer.*side).program, pieces.tables));
  }
}

TEST(Blocks, tokens_travel_to_experts_and_back_in_both_directions) {
  JobSpec job = SmallJob(BlockKind::kLlama);
  job.model.moe = {.experts = 8, .topk = 2, .expert_ffn = 1024};
  job.parallel.tp = 1;
  job.parallel.dp = 4;
  job.parallel.ep = 4;
  const Units units = MakeUnits(job, UnfusedStyle());
  const int64_t routed = 256 * 2 * 2 * 512 * 2;  // tokens · top-k · hidden · bytes
  EXPECT_EQ(CollectiveBytes(units.layer.forward, GroupAxis::kExpert)[CollectiveKind::kAllToAll],
            2 * routed);
  EXPECT_EQ(CollectiveBytes(units.layer.backward, GroupAxis::kExpert)[CollectiveKind::kAllToAll],
            2 * routed);
}

TEST(Blocks, fused_dispatch_sends_one_copy_to_a_rank_and_one_between_nodes) {
  JobSpec job = SmallJob(BlockKind::kLlama);
  job.model.moe = {.experts = 8, .topk = 8, .expert_ffn = 1024};  // every rank has experts of all
  job.parallel.tp = 1;
  job.parallel.dp = 4;
  job.parallel.ep = 4;
  TrainingStyle style = UnfusedStyle();
  style.moe_fused_dispatch = true;
  const int64_t copy = 256 * 2 * 512 * 2;  // tokens · hidden · bytes
  const auto sent = [&] {
    return CollectiveBytes(MakeUnits(job, style).layer.forward,
                           GroupAxis::kExpert)[CollectiveKind::kAllToAll];
  };
  style.moe_node_ranks = 4;
  EXPECT_EQ(sent(), 2 * 4 * copy);
  style.moe_node_ranks = 2;  // half of the copies of an even all-to-all leave the node
  EXPECT_EQ(sent(), 2 * 2 * copy);
}

// Memory traffic of the kernels whose name contains `part`, by the rules that cost them.
double BytesOf(const Block& block, const BlockTables& tables, const std::string& part) {
  double bytes = 0;
  for (uint32_t op = 0; op < block.program.size(); ++op) {
    if (block.program.kind[op] != OpKind::kKernel) {
      continue;
    }
    const graph::KernelSignature& signature = tables.signatures()[block.program.signature[op]];
    const replayer::KernelView view = {tables.strings()[signature.name.value()],
                                       tables.strings()[signature.framework_op.value()], signature};
    if (view.framework_op.find(part) != std::string_view::npos) {
      bytes += replayer::FrameworkOpBytes(view).value_or(0);
    }
  }
  return bytes;
}

TEST(Blocks, fused_kernels_move_what_they_read_and_write) {
  const JobSpec job = SmallJob(BlockKind::kGpt);
  TrainingStyle style = UnfusedStyle();
  style.dropout = true;
  const Units units = MakeUnits(job, style);
  // Scores [2 · 4 heads, 256, 256] of 2 bytes, read and written.
  EXPECT_EQ(BytesOf(units.layer.forward, units.tables, "scaled_masked_softmax"),
            2.0 * 8 * 256 * 256 * 2);
  // 128 · 2 · 512 elements outside tensor-parallel regions, twice per layer: two reads and a write
  // of 2 bytes, a byte of mask, and the bias.
  EXPECT_EQ(BytesOf(units.layer.forward, units.tables, "bias_dropout_add"),
            2.0 * (128 * 2 * 512 * 7 + 512 * 2));
  // [256, 2, 1024]: in, out, and the bias.
  EXPECT_EQ(BytesOf(units.layer.forward, units.tables, "bias_gelu"),
            2.0 * 256 * 2 * 1024 * 2 + 1024 * 2);
}

TEST(Blocks, optimizer_launches_are_those_of_libtorch) {
  const JobSpec job = SmallJob(BlockKind::kGpt);
  BlockTables tables;
  const RankShape rank(job, TrainingStyle{});
  // 25 M elements are 382 chunks of 65,536: one launch of 320 and one of 62; and one chunk.
  const Block block = OptimizerStep(rank, {.decay = {25'000'000}, .no_decay = {1024}}, &tables);
  std::vector<uint32_t> adam;
  for (uint32_t op = 0; op < block.program.size(); ++op) {
    if (block.program.kind[op] == OpKind::kKernel) {
      const graph::KernelSignature& signature = tables.signatures()[block.program.signature[op]];
      if (tables.strings()[signature.framework_op.value()] == "aten::_fused_adamw_") {
        adam.push_back(signature.grid[0]);
      }
    }
  }
  EXPECT_EQ(adam, (std::vector<uint32_t>{320, 62, 1}));
}

// Every choice by itself on top of a common style, on jobs to which it applies.
struct Choice {
  std::string name;
  std::function<void(JobSpec*, TrainingStyle*)> apply;
};

auto SplitContext(bool TrainingStyle::* way) {
  return [way](JobSpec* job, TrainingStyle* style) {
    job->parallel.cp = 2;
    style->*way = true;
  };
}

std::vector<Choice> Choices() {
  return {
      {"flash", [](JobSpec*, TrainingStyle* s) { s->attention = AttentionKind::kFlash; }},
      {"flash 1", [](JobSpec*, TrainingStyle* s) { s->attention = AttentionKind::kFlash1; }},
      {"cudnn", [](JobSpec*, TrainingStyle* s) { s->attention = AttentionKind::kCudnn; }},
      {"dropout", [](JobSpec*, TrainingStyle* s) { s->dropout = true; }},
      {"separate",
       [](JobSpec*, TrainingStyle* s) {
         s->fused_bias_activation = s->fused_bias_dropout_add = s->fused_softmax = false;
         s->fused_optimizer = s->gradient_accumulation_fusion = false;
       }},
      {"fused",
       [](JobSpec*, TrainingStyle* s) {
         s->fused_norm = s->fused_rope = s->fused_cross_entropy = true;
       }},
      {"compiled", [](JobSpec*, TrainingStyle* s) { s->compiled = true; }},
      {"fp16", [](JobSpec*, TrainingStyle* s) { s->precision = Precision::kFloat16; }},
      {"fp32", [](JobSpec*, TrainingStyle* s) { s->precision = Precision::kFloat32; }},
      {"fp8", [](JobSpec*, TrainingStyle* s) { s->precision = Precision::kFloat8; }},
      {"mxfp8", [](JobSpec*, TrainingStyle* s) { s->precision = Precision::kMxFloat8; }},
      {"overlap", [](JobSpec*, TrainingStyle* s) { s->tp_comm_overlap = true; }},
      {"no sp", [](JobSpec* j, TrainingStyle*) { j->sequence_parallel = false; }},
      {"ring", [](JobSpec* j, TrainingStyle*) { j->parallel.cp = 2; }},
      {"ulysses", SplitContext(&TrainingStyle::cp_all_to_all)},
      {"torch's ring", SplitContext(&TrainingStyle::cp_torch_ring)},
      {"gathered keys", SplitContext(&TrainingStyle::cp_all_gather)},
      {"fsdp",
       [](JobSpec*, TrainingStyle* s) { s->data_parallel = graph::DataParallelKind::kFsdp; }},
      {"experts",
       [](JobSpec* j, TrainingStyle*) {
         j->model.moe = {.experts = 8, .topk = 2, .expert_ffn = 512, .shared_expert_ffn = 512};
         j->parallel.dp = j->parallel.ep = 2;
       }},
      {"parallel block", [](JobSpec*, TrainingStyle* s) { s->parallel_block = true; }},
      {"window", [](JobSpec* j, TrainingStyle*) { j->model.sliding_window = 64; }},
      {"torchtitan selection",
       [](JobSpec* j, TrainingStyle* s) {
         j->recompute = Recompute::kSelective;
         s->recompute_parts = graph::kRecomputeEverySecondMatmul;
       }},
      {"latent",
       [](JobSpec* j, TrainingStyle*) {
         j->model.latent = {.q_rank = 192, .kv_rank = 64, .rope_dim = 32, .value_dim = 64};
       }},
      {"recompute",
       [](JobSpec* j, TrainingStyle* s) {
         j->recompute = Recompute::kSelective;
         s->recompute_parts = 0x3F;
       }},
  };
}

// Waits name an earlier record of the other stream; every parameter becomes ready as often as it
// is used.
void ExpectWellFormed(const UnitBlocks& unit) {
  for (const Block* block : {&unit.forward, &unit.backward}) {
    const graph::Program& program = block->program;
    for (uint32_t op = 0; op < program.size(); ++op) {
      if (program.kind[op] == OpKind::kEventWait) {
        ASSERT_LT(program.dep[op], op);
        EXPECT_EQ(program.kind[program.dep[op]], OpKind::kEventRecord);
        EXPECT_NE(program.stream[program.dep[op]], program.stream[op]);
      }
    }
  }
  EXPECT_TRUE(unit.forward.ready.empty());
  std::vector<int32_t> uses(unit.parameters.size());
  uint32_t last = 0;
  for (const GradientReady& ready : unit.backward.ready) {
    ASSERT_LT(ready.parameter, uses.size());
    EXPECT_GE(ready.op, last);
    EXPECT_LE(ready.op, unit.backward.program.size());
    last = ready.op;
    ++uses[ready.parameter];
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    EXPECT_EQ(uses[i], unit.parameters[i].uses) << "parameter " << i;
  }
}

TEST(Blocks, every_choice_gives_well_formed_units) {
  for (const BlockKind block : {BlockKind::kGpt, BlockKind::kLlama, BlockKind::kNemotron}) {
    for (const Choice& choice : Choices()) {
      SCOPED_TRACE(choice.name);
      JobSpec job = SmallJob(block);
      TrainingStyle style = UnfusedStyle();
      choice.apply(&job, &style);
      const Units units = MakeUnits(job, style);
      ExpectWellFormed(units.embedding);
      ExpectWellFormed(units.layer);
      ExpectWellFormed(units.head);
    }
  }
}

// Names of kernels that are costed by default, because no rule matches them.
std::string UnknownKernels(const BlockTables& tables) {
  std::string unknown;
  for (const graph::KernelSignature& signature : tables.signatures()) {
    const replayer::KernelView view = {tables.strings()[signature.name.value()],
                                       tables.strings()[signature.framework_op.value()], signature};
    const bool known = signature.matmul.m > 0 || replayer::IsAttentionKernel(view) ||
                       replayer::TensorListBytes(view) || replayer::FrameworkOpBytes(view);
    if (!known) {
      unknown += std::string(view.framework_op) + ": " + std::string(view.kernel) + "\n";
    }
  }
  return unknown;
}

TEST(Blocks, every_kernel_has_a_rule_that_costs_it) {
  for (const BlockKind block : {BlockKind::kGpt, BlockKind::kLlama, BlockKind::kNemotron}) {
    for (const Choice& choice : Choices()) {
      SCOPED_TRACE(choice.name);
      JobSpec job = SmallJob(block);
      job.seq_len = job.model.seq_len = 4096;  // embedding gradients are sorted
      TrainingStyle style = UnfusedStyle();
      choice.apply(&job, &style);
      Units units = MakeUnits(job, style);
      const RankShape rank(job, style);
      OptimizerStep(rank, {.decay = {1 << 20}, .no_decay = {1024}, .weights = 1 << 20},
                    &units.tables);
      EXPECT_EQ(UnknownKernels(units.tables), "");
    }
  }
}

TEST(Blocks, compiled_code_launches_fewer_kernels) {
  const JobSpec job = SmallJob(BlockKind::kLlama);
  TrainingStyle style = UnfusedStyle();
  style.attention = AttentionKind::kFlash;
  style.fused_bias_activation = false;
  const Units eager = MakeUnits(job, style);
  style.compiled = true;
  const Units compiled = MakeUnits(job, style);
  EXPECT_LT(compiled.layer.forward.program.size() * 4, eager.layer.forward.program.size() * 3);
  EXPECT_LT(compiled.layer.backward.program.size(), eager.layer.backward.program.size());
}

// All parameters of the model, divided by hand: tied embeddings count once.
TEST(Blocks, parameters_add_up_to_the_model) {
  for (const BlockKind block : {BlockKind::kGpt, BlockKind::kLlama}) {
    JobSpec job = SmallJob(block);
    job.model.tied_embeddings = false;
    const Units units = MakeUnits(job, TrainingStyle{});
    const auto count = [&](const UnitBlocks& unit) {
      int64_t elements = 0;
      for (const graph::UnitParameter& parameter : unit.parameters) {
        elements += parameter.ElementCount() * (parameter.split ? job.parallel.tp : 1);
      }
      return elements;
    };
    EXPECT_EQ(count(units.embedding) + 4 * count(units.layer) + count(units.head),
              graph::ModelParameters(job.model));
  }
}

}  // namespace
}  // namespace prism::slicer
