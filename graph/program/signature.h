// Kernel signatures: everything that the cost of a kernel may depend on, interned once per graph. A
// job of 8,192 ranks has a few hundred of them, however many kernels it launches.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "graph/base/ids.h"
#include "graph/program/op.h"

namespace prism::graph {

struct TensorShape {
  DataType dtype = DataType::kUnknown;
  std::vector<int64_t> dims;

  // Product of dims; 1 for a scalar.
  [[nodiscard]] int64_t ElementCount() const;
  [[nodiscard]] int64_t Bytes() const;

  bool operator==(const TensorShape&) const = default;
};

// Shape of a matrix product D[m,n] = A[m,k] · B[k,n], `batch` times, as cuBLAS was called (in
// column-major terms: m is the fast dimension of D). All zero for other kernels.
struct MatmulShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch = 0;
  DataType input = DataType::kUnknown;   // type of A and B
  DataType output = DataType::kUnknown;  // type of D
  bool transpose_a = false;
  bool transpose_b = false;

  bool operator==(const MatmulShape&) const = default;
};

// One distinct kernel launch.
struct KernelSignature {
  StringId name;          // demangled kernel name, or the library call for cuBLAS and cuDNN
  StringId framework_op;  // innermost framework op, e.g. aten::mm; "" outside of any
  std::array<uint32_t, 3> grid = {0, 0, 0};   // blocks; zero for library calls
  std::array<uint32_t, 3> block = {0, 0, 0};  // threads
  MatmulShape matmul;
  std::vector<TensorShape> inputs;  // tensor arguments of the framework op, in order

  bool operator==(const KernelSignature&) const = default;
};

}  // namespace prism::graph
