// The updates of parameters in a program: which kernels, which tensors, and how much state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/program/job_program.h"

namespace prism::slicer {

// One call of an optimizer over a list of tensors: consecutive kernels on one stream.
struct OptimizerCall {
  uint32_t begin = 0;              // the first kernel
  uint32_t end = 0;                // one past the last
  std::vector<uint32_t> launches;  // kernels that may be separated: one, or each of a fused call's
  std::vector<double> shares;      // fraction of the elements, by launch
  std::vector<graph::TensorShape> tensors;  // parameters; one flat one where shapes are unknown
  int64_t moments = 0;                      // states per element, each as large as the element
  std::string name;                         // "adam", "sgd", "sgd_momentum", "adagrad"

  [[nodiscard]] int64_t Elements() const;
  [[nodiscard]] int64_t StateBytes() const;
};

// What the kernels of a program are, by signature: tables of a graph or of a job.
struct KernelTables {
  explicit KernelTables(const graph::Graph& graph)
      : strings(graph.strings), signatures(graph.signatures) {}
  explicit KernelTables(const graph::JobProgram& job)
      : strings(job.strings), signatures(job.signatures) {}

  const std::vector<std::string>& strings;
  const std::vector<graph::KernelSignature>& signatures;
};

// Recognises fused kernels of PyTorch, Apex, Transformer Engine and DeepSpeed, and PyTorch's
// foreach form of Adam and the one that loops over parameters (from lerp to addcdiv; weight decay
// before it is not included), if their tensors or grids are known.
std::vector<OptimizerCall> FindOptimizerCalls(const KernelTables& tables,
                                              const graph::Program& program);

}  // namespace prism::slicer
