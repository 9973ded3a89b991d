// Writes the program of one block op by op, in the terms of the framework that issues it.
//
// Kernels run on the compute stream. A collective either runs there too (the caller has nothing to
// do meanwhile) or is started on the stream of its communicator and waited for later. The event
// records and waits around it are those of torch.distributed: one record that others wait for and
// one that the process group's watchdog polls.
//
// Kernel names are the bare names of the functions that libtorch 2.11, Apex and Transformer Engine
// launch, without template arguments.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/program/job_program.h"
#include "graph/program/signature.h"
#include "slicer/synthesize/block.h"

namespace prism::slicer {

using Tensors = std::vector<graph::TensorShape>;

graph::TensorShape Tensor(DataType dtype, std::vector<int64_t> dims);

// D[rows, columns] = op(A) · op(B), `batch` times, in row-major terms: a matrix product as
// frameworks call it. cuBLAS sees it transposed.
struct Product {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;
  int64_t batch = 1;
  bool transposed_left = false;   // A is stored [depth, rows]
  bool transposed_right = false;  // B is stored [columns, depth]
  DataType input = DataType::kBfloat16;
  DataType output = DataType::kBfloat16;
};

// A collective that runs concurrently with the compute stream.
struct PendingCollective {
  uint32_t event = graph::kNoDep;  // op that records its end
};

class BlockWriter {
 public:
  // `tables` outlives the writer.
  explicit BlockWriter(BlockTables* tables) : tables_(tables) {}

  // One kernel of framework op `op`. `blocks`: grid size, given if the cost depends on it.
  void Kernel(std::string_view op, std::string_view kernel, Tensors inputs, uint32_t blocks = 0);

  // Repeats the kernel that is op `op`, at least once.
  void KernelAgain(uint32_t op, uint32_t times = 1);

  // Number of ops written.
  [[nodiscard]] uint32_t size() const { return block_.program.size(); }

  // Repeats all ops from `first` on, `times` times. They must not wait for any before `first`.
  void Repeat(uint32_t first, int64_t times);

  // An elementwise kernel of libtorch, or a reduction: kernels that index with 32 bits, so an op
  // over a tensor of more than 2 GiB becomes several (TensorIterator::with_32bit_indexing).
  void Pointwise(std::string_view op, Tensors inputs) {
    Iterate(op, "elementwise_kernel", std::move(inputs));
  }
  void Reduction(std::string_view op, Tensors inputs) {
    Iterate(op, "reduce_kernel", std::move(inputs));
  }
  void Iterate(std::string_view op, std::string_view kernel, Tensors inputs);

  // One kernel in place of several ops (a compiler's, or a handwritten one). `accesses`: every
  // tensor, once for each time it is read or written (replayer/cost/kernel_rules.h).
  void Fused(std::string_view name, Tensors accesses);

  // A matrix product. `library` is the cuBLAS call.
  void Matmul(std::string_view op,
              std::string_view library,
              const Product& product,
              Tensors inputs);

  // A copy by the copy engine; `flags` as in graph::OpFlag.
  void Copy(int64_t bytes, uint8_t flags);
  void Memset(int64_t bytes);
  void StreamSync();

  // On the compute stream.
  void Collective(graph::GroupAxis axis, const graph::CollectiveShape& shape);

  // On the stream of the communicator, after what is on the compute stream now.
  PendingCollective Start(graph::GroupAxis axis, const graph::CollectiveShape& shape);

  // The compute stream waits for the collective. Does nothing for a default-constructed one.
  void Wait(PendingCollective pending);

  // The host spends this long outside of any op. Does nothing for 0.
  void HostGap(DurationNs duration_ns);

  // What follows, up to EndGraph, is launched as one CUDA graph; does nothing if not `captured`.
  void BeginGraph(bool captured) { graph_ = captured ? Launch::kFirst : Launch::kSingle; }
  void EndGraph() { graph_ = Launch::kSingle; }

  // A contribution to the gradient of a parameter of the block is complete.
  void Ready(uint32_t parameter);

  // The writer is empty afterwards.
  Block Finish();

 private:
  // How the next op is issued: separately, as the first of a graph, or with the previous op.
  enum class Launch : uint8_t { kSingle, kFirst, kWithPrevious };

  uint32_t Append(graph::OpRow row);
  void AppendKernel(graph::KernelSignature signature);
  void AppendCollective(graph::GroupAxis axis,
                        uint16_t stream,
                        const graph::CollectiveShape& shape);
  uint32_t AppendEvent(graph::OpKind kind, uint16_t stream, uint32_t dep = graph::kNoDep);

  BlockTables* tables_;
  Block block_;
  Launch graph_ = Launch::kSingle;
};

// Shapes of collectives over `count` elements, as graph::CollectiveShape counts them.
graph::CollectiveShape AllReduceOf(DataType dtype, int64_t count);
graph::CollectiveShape AllGatherOf(DataType dtype, int64_t gathered_count);
graph::CollectiveShape ReduceScatterOf(DataType dtype, int64_t whole_count);
graph::CollectiveShape AllToAllOf(DataType dtype, int64_t sent_count);

}  // namespace prism::slicer
