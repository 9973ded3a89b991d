// Factorisations of cuSOLVER and triangular solutions of cuBLAS: products, far from the rate of a
// plain one, and columns that wait for each other, which decide up to some thousand rows.
#pragma once

#include <optional>

#include "replayer/cost/kernel_rules.h"

namespace prism::replayer {

struct Factorisation {
  double flops = 0;
  double columns_s = 0;  // of all columns, one after the other
  DataType type = DataType::kUnknown;
};

// For a kernel that is named like such a call, of the last two dimensions of its op's first input;
// a call without "Batched" has one of the matrices. Null for others.
std::optional<Factorisation> FindFactorisation(const KernelView& view);

}  // namespace prism::replayer
