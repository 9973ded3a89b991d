#include "slicer/synthesize/blocks/launch_rules.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "graph/base/divide.h"

namespace prism::slicer {
namespace {

constexpr int64_t kSms = 132;
constexpr int64_t kThreadsOfSm = 2048;
constexpr int64_t kWarp = 32;

int64_t FloorPowerOfTwo(int64_t value) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(value)));
}

// A reduction of `inputs` values to each of `outputs`; `rows`: the values of one output are
// contiguous.
struct ReductionShape {
  int64_t inputs = 1;
  int64_t outputs = 1;
  bool rows = false;
};

// ReduceConfig of one launch: how threads of a block share the work on an output.
class ReduceConfig {
 public:
  explicit ReduceConfig(const ReductionShape& shape) : inputs_(shape.inputs) {
    constexpr int64_t kMaxThreads = 512;
    int64_t vector = 1;
    if (!shape.rows) {
      vector = shape.outputs % 4 == 0 ? 4 : (shape.outputs % 2 == 0 ? 2 : 1);
    }
    outputs_ = shape.outputs / vector;
    const int64_t threads = kMaxThreads / vector;
    const int64_t first = shape.rows ? inputs_ : outputs_;
    const int64_t second = shape.rows ? outputs_ : inputs_;
    const int64_t wide = std::min(FloorPowerOfTwo(first), threads);
    width_ = std::min(wide, kWarp);
    height_ = std::min(std::min(FloorPowerOfTwo(second), threads), threads / width_);
    width_ = std::min(wide, threads / height_);
    Split(shape.rows);
  }

  // Bytes of the semaphores; 0 if every output belongs to one block.
  [[nodiscard]] int64_t SemaphoreBytes() const {
    constexpr int64_t kMinValues = 16;
    constexpr int64_t kMaxValues = 256;
    const int64_t grid = DivideUp(outputs_, output_step_);
    const int64_t target = kSms * (kThreadsOfSm / (width_ * height_));
    if (!across_warps_ || Values() < kMaxValues || grid > target) {
      return 0;
    }
    const int64_t blocks =
        std::max(std::min(DivideUp(target, grid), DivideUp(Values(), kMinValues)),
                 DivideUp(Values(), kMaxValues));
    return blocks > 1 ? grid * DataTypeBytes(DataType::kInt32) : 0;
  }

 private:
  void Split(bool rows) {
    (rows ? input_step_ : output_step_) *= width_;
    across_warps_ = Values() >= std::min<int64_t>(height_ * 16, 256);
    (across_warps_ ? input_step_ : output_step_) *= height_;
  }

  [[nodiscard]] int64_t Values() const { return DivideUp(inputs_, input_step_); }

  int64_t inputs_ = 1;
  int64_t outputs_ = 1;  // vectors of outputs
  int64_t width_ = 1;
  int64_t height_ = 1;
  int64_t input_step_ = 1;
  int64_t output_step_ = 1;
  bool across_warps_ = false;
};

void Reduce(std::string_view op,
            const graph::TensorShape& input,
            const ReductionShape& shape,
            BlockWriter* writer) {
  const int64_t semaphores = ReduceConfig(shape).SemaphoreBytes();
  if (semaphores > 0) {
    writer->Memset(semaphores);
  }
  writer->Reduction(op, {input});
}

// Sorts `count` pairs of 64-bit numbers by cub's one-sweep radix sort: eight digits of eight bits,
// in tiles.
void SortPairs(std::string_view op, const Tensors& inputs, int64_t count, BlockWriter* writer) {
  constexpr int64_t kDigits = 8;
  constexpr int64_t kBins = 256;
  constexpr int64_t kTile = 384 * 12;  // threads per block, pairs per thread
  writer->Memset(kDigits * 4);
  writer->Memset(kDigits * kBins * 8);
  writer->Kernel(op, "DeviceRadixSortHistogramKernel", inputs);
  writer->Kernel(op, "DeviceRadixSortExclusiveSumKernel", inputs);
  for (int64_t digit = 0; digit < kDigits; ++digit) {
    writer->Memset(DivideUp(count, kTile) * kBins * 4);
    writer->Kernel(op, "DeviceRadixSortOnesweepKernel", inputs);
  }
}

}  // namespace

void ColumnSum(const graph::TensorShape& input, int64_t columns, BlockWriter* writer) {
  Reduce("aten::sum", input,
         {.inputs = input.ElementCount() / columns, .outputs = columns, .rows = false}, writer);
}

void RowReduction(std::string_view op, const graph::TensorShape& input, BlockWriter* writer) {
  const int64_t inputs = input.dims.back();
  Reduce(op, input, {.inputs = inputs, .outputs = input.ElementCount() / inputs, .rows = true},
         writer);
}

bool FlashSplitsKeys(const FlashShape& shape) {
  constexpr int64_t kQueryBlock = 64;
  constexpr int64_t kMaxSplits = 128;
  const int64_t key_block = shape.head_size <= 64 ? 256 : (shape.head_size <= 128 ? 128 : 64);
  const auto tiles = static_cast<double>(shape.batch_heads * DivideUp(shape.queries, kQueryBlock));
  const int64_t key_blocks = DivideUp(shape.keys, key_block);
  constexpr auto kSlots = static_cast<double>(2 * kSms);
  if (tiles >= 0.8 * kSlots) {
    return false;
  }
  const auto efficiency = [&](int64_t splits) {
    const double waves = tiles * static_cast<double>(splits) / kSlots;
    return waves / std::ceil(waves);
  };
  double best = 0;
  for (int64_t splits = 1; splits <= std::min(kMaxSplits, key_blocks); ++splits) {
    const bool other =
        splits == 1 || DivideUp(key_blocks, splits) != DivideUp(key_blocks, splits - 1);
    best = other ? std::max(best, efficiency(splits)) : best;
  }
  return efficiency(1) < 0.85 * best;
}

void EmbeddingGradient(const graph::TensorShape& table,
                       const graph::TensorShape& gradient,
                       BlockWriter* writer) {
  constexpr const char* kOp = "aten::embedding_dense_backward";
  constexpr int64_t kUnsortedIndices = 3072;
  graph::TensorShape indices = {DataType::kInt64, gradient.dims};
  indices.dims.pop_back();
  const Tensors inputs = {gradient, indices};
  const int64_t count = indices.ElementCount();
  if (count <= kUnsortedIndices) {
    writer->Pointwise("aten::fill_", {table});
    writer->Kernel(kOp, "embedding_backward_feature_kernel", inputs);
    return;
  }
  writer->Pointwise("aten::arange", {Tensor(DataType::kInt64, {0})});
  SortPairs(kOp, inputs, count, writer);
  writer->Pointwise("aten::fill_", {table});
  for (const char* kernel :
       {"DeviceCompactInitKernel", "DeviceUniqueByKeySweepKernel", "krn_partials_per_segment",
        "DeviceScanInitKernel", "DeviceScanKernel", "compute_num_of_partial_segments",
        "krn_partial_segment_offset", "compute_grad_weight", "sum_and_scatter"}) {
    writer->Kernel(kOp, kernel, inputs);
  }
}

}  // namespace prism::slicer
