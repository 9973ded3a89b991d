// How a framework runs a job: everything about an iteration that JobSpec leaves open. The defaults
// are those of the built-in workload (launch/trainer/), so TrainingStyle{} describes what
// prism-emulate records.
#pragma once

#include <cstdint>
#include <string>

#include "graph/base/data_type.h"
#include "graph/base/time.h"

namespace prism::graph {

enum class AttentionKind : uint8_t {
  kFlash,    // FlashAttention 2
  kCudnn,    // cuDNN's through Transformer Engine
  kUnfused,  // batched matrix products with a softmax between
  kFlash1,   // FlashAttention 1 and its Triton version (2022 to mid 2023)
};

// Order of forward and backward passes of a stage. With vpp > 1 kOneForwardOneBackward is
// Megatron's interleaved schedule.
enum class Schedule : uint8_t {
  kOneForwardOneBackward,
  kGpipe,
  kZeroBubble,         // ZB-H1 (Qi et al. 2024): separate weight gradients, memory as 1F1B
  kLoopedBreadthFirst  // Lamy-Poirier 2023: all micro-batches of a chunk, then the next chunk
};

// How data parallelism stores and reduces what it replicates.
enum class DataParallelKind : uint8_t {
  kMegatron,  // flat buckets: all_reduce (ZeRO 0), or reduce_scatter and all_gather (ZeRO 1)
  kZero2,     // DeepSpeed: gradients reduced to their owner in every micro-batch
  kFsdp       // ZeRO 3: parameters gathered layer by layer, gradients scattered
};

// Format of matrix products; the rest runs in 16 bit, or in 32 where the products do.
enum class Precision : uint8_t {
  kBfloat16,
  kFloat16,
  kFloat8,  // one scale a tensor
  kFloat32,
  kFloat8Block,  // one scale per block of 128 x 128 or 1 x 128 elements
  kMxFloat8,     // one scale 32 elements
  kNvFloat4,
};

// Type of activations and parameters outside the matrix products of that format.
DataType ActivationType(Precision precision);

// What is computed again in the backward pass where JobSpec::recompute is kSelective; may be
// combined.
enum RecomputePart : uint32_t {
  kRecomputeCoreAttention = 1U << 0U,  // Korthikanti et al. 2022
  kRecomputeNorm = 1U << 1U,
  kRecomputeActivation = 1U << 2U,         // GeLU, SwiGLU, the experts' activation
  kRecomputeMlp = 1U << 3U,                // the dense feed-forward
  kRecomputeMoe = 1U << 4U,                // router, dispatch and experts
  kRecomputeUpProjection = 1U << 5U,       // of multi-head latent attention
  kRecomputeEverySecondMatmul = 1U << 6U,  // torchtitan's selection per op
  kRecomputeEverySecondLayer = 1U << 7U,   // torchtitan's selection per layer, llama 2 era
};

// Class of host cost per op: eager Python issues more slowly than compiled code; kGraph: the whole
// iteration is one CUDA graph, so that the host launches almost nothing and waits for nothing.
enum class HostCost : uint8_t { kEager, kCompiled, kGraph };

// Parts of a layer whose passes are one CUDA graph each (Megatron-Core: cuda_graph_scope); may be
// combined.
enum GraphPart : uint32_t {
  kGraphAttention = 1U << 0U,
  kGraphMlp = 1U << 1U,
  kGraphRouter = 1U << 2U,  // and what prepares the dispatch
};

// Which tensors a stage keeps, and when it allocates what comes and goes (replayer/memory/).
enum class MemoryPattern : uint8_t {
  kUsual,      // what data_parallel says
  kNanotron,   // one accumulator of all gradients, collectives that stay pending
  kDeepSpeed,  // the step makes flat copies of the gradients
};

struct TrainingStyle {
  std::string framework = "prism-workload";  // for display only; nothing depends on it
  bool built_in = true;  // the workload of launch/trainer/, with its own kernels throughout

  // Kernels of a layer.
  AttentionKind attention = AttentionKind::kFlash;
  bool dropout = false;                // attention and hidden
  bool fused_bias_activation = false;  // bias and GeLU (or SwiGLU) in one kernel
  bool fused_bias_dropout_add = false;
  bool fused_norm = false;    // one kernel forward (Apex, Transformer Engine)
  bool fused_softmax = true;  // for unfused attention: scale, mask, softmax in one kernel
  bool fused_rope = false;
  bool fused_cross_entropy = false;
  bool compiled_cross_entropy = false;  // Megatron's: copies float32 logits, does not overwrite
  bool chunked_head = false;  // logits of some tokens at a time, computed again in backward
  bool gradient_accumulation_fusion = true;  // weight gradients are added within the matmul
  Precision precision = Precision::kBfloat16;
  bool compiled = false;  // torch.compile: elementwise chains become one kernel
  HostCost host_cost = HostCost::kEager;
  uint32_t graph_parts = 0;  // GraphPart
  uint32_t recompute_parts = kRecomputeCoreAttention;
  bool frozen_weights = false;   // low-rank adapters: no gradients of the model's own weights
  bool adapter_dropout = false;  // of what they read
  bool adapters_of_all = false;  // of the feed-forward too, not only of the attention
  int64_t adapter_rank = 16;     // MLPerf's fine-tuning of Llama 2 70B
  int64_t adapter_sets = 1;      // that take turns

  // Tensor, context and expert parallelism.
  bool tp_comm_overlap = false;      // tensor-parallel transfers beside the matrix products
  bool async_tp_all_reduce = false;  // input gradients all-reduced beside the weight gradients
  bool cp_all_gather = false;        // context parallel gathers keys and values (Llama 3)
  bool parallel_block = false;       // attention and feed-forward side by side (MegaScale)
  bool cp_all_to_all = false;        // context parallel by all-to-all over heads; else a ring
  bool cp_torch_ring = false;        // the ring of torch.distributed: heads expanded, fp32 sums
  int64_t packed_length = 0;         // length of the sequences packed into one; 0: not packed
  bool moe_fused_dispatch = false;   // DeepEP, HybridEP; else permute kernels and all-to-all
  bool moe_overlap = false;       // dispatch and combine beside the compute of another micro-batch
  bool moe_drop_and_pad = false;  // fixed number of rows per expert: the host need not know
  int32_t moe_node_ranks = 0;     // of an expert group in one NVLink domain; 0: not known
  DurationNs moe_router_host_ns = 0;  // host time of a pass beyond its ops: routing and its maps,
  DurationNs moe_expert_host_ns = 0;  // dispatch and the lists of expert weights

  // Pipeline.
  bool layers_from_front = false;  // chunks are filled from the front, the last gets the rest
  int32_t first_stage_layers = 0;  // without interleaving; 0: as many as the others
  int32_t last_stage_layers = 0;
  Schedule schedule = Schedule::kOneForwardOneBackward;
  bool balanced_stages = false;         // layers dealt out by cost, the head counted (nanotron)
  bool overlap_p2p = false;             // sends and receives beside compute, each with its own wait
  bool scatter_gather_p2p = false;      // a boundary sends 1/tp and gathers (SC21, section 4.1)
  bool keeps_pipeline_outputs = false;  // torch: the last stage returns all logits
  bool serial_p2p = false;  // messages of a boundary one by one, each waited for (nanotron)

  // Data parallelism.
  DataParallelKind data_parallel = DataParallelKind::kMegatron;
  DataType gradient_type = DataType::kFloat32;  // of reduction
  // DeepSpeed's BF16_Optimizer: autograd sums in 16 bit, each micro-batch is then cast and added to
  // fp32; gradients are all-reduced in 16 bit even where the optimizer is sharded.
  bool separate_fp32_gradients = false;
  MemoryPattern memory = MemoryPattern::kUsual;
  bool expandable_segments = false;              // set by its launcher in PYTORCH_ALLOC_CONF
  bool overlap_grad_reduce = true;               // beside the backward pass of the last micro-batch
  bool overlap_param_gather = false;             // beside the forward pass of the first micro-batch
  int64_t bucket_elements = 40'000'000;          // Megatron: at least this many,
  int64_t bucket_elements_per_rank = 1'000'000;  // or this many times dp
  int32_t shard_size = 0;             // FSDP: ranks that parameters are sharded over; 0: all (HSDP)
  bool reshard_after_forward = true;  // FSDP: gather again for backward
  int32_t prefetch = 1;               // FSDP: layers gathered ahead
  bool fsdp_root_has_ends = false;    // FSDP: embedding and head are not separate groups
  bool fp8_param_gather = false;      // parameters travel in 8 bit

  // Once an iteration.
  bool gradient_norm = true;
  bool fused_optimizer = true;  // multi-tensor kernels; else a few per parameter
  bool loss_scaling = false;    // a check for overflow before the step (fp16)

  bool operator==(const TrainingStyle&) const = default;
};

// Whether scale, mask and softmax are one kernel for that many matrices of scores (sequences times
// heads of a rank), where attention is unfused. Megatron's kernels take four matrices at a time,
// and up to 16,384 keys (Megatron-LM, FusedScaleMaskSoftmax.is_kernel_available).
bool FusesSoftmax(const TrainingStyle& style, int64_t matrices, int64_t keys);

}  // namespace prism::graph
