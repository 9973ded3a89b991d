// How many kernels libtorch 2.11 launches for one op if that depends on sizes. Device numbers are
// those of an H100 (132 SMs of 2,048 threads), on which the built-in workload is recorded; other
// devices differ for small sizes only.
#pragma once

#include <cstdint>

#include "slicer/synthesize/blocks/block_writer.h"

namespace prism::slicer {

// The sum over all but the last `columns` elements of `input`, by reduce_kernel. Long sums of few
// columns are divided over thread blocks, which synchronise on semaphores that are zeroed before
// (setReduceConfig in ATen/native/cuda/Reduce.cuh).
void ColumnSum(const graph::TensorShape& input, int64_t columns, BlockWriter* writer);

// The reduction of `op` over the last dimension, in the same way.
void RowReduction(std::string_view op, const graph::TensorShape& input, BlockWriter* writer);

// Whether FlashAttention divides the keys of a query over thread blocks, whose results a second
// kernel combines: num_splits_heuristic in flash_attn/flash_api.cpp.
struct FlashShape {
  int64_t batch_heads = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t head_size = 0;
};

bool FlashSplitsKeys(const FlashShape& shape);

// The gradient [rows, width] of an embedding table that was read at `indices` (a tensor): one
// kernel up to 3,072 indices; above, they are sorted first
// (ATen/native/cuda/Embedding.cu, EmbeddingBackwardKernel.cu).
void EmbeddingGradient(const graph::TensorShape& table,
                       const graph::TensorShape& gradient,
                       BlockWriter* writer);

}  // namespace prism::slicer
