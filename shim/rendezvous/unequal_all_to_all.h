// all_to_all with a row count for each rank, as concurrent sends and receives.
#pragma once

#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "shim/rendezvous/cpu_group.h"

namespace prism::shim {

// One side: the rows that each rank sends or receives, in order of rank; empty: equal counts.
struct SplitTensor {
  at::Tensor tensor;
  std::vector<int64_t> counts;
};

// Absent ranks send zeros. Throws c10::Error for counts that do not match.
c10::intrusive_ptr<c10d::Work> StartUnequalAllToAll(CpuGroup& group,
                                                    const SplitTensor& output,
                                                    const SplitTensor& input);

// The same of a tensor for each rank, of any sizes.
c10::intrusive_ptr<c10d::Work> StartListedAllToAll(CpuGroup& group,
                                                   const std::vector<at::Tensor>& outputs,
                                                   const std::vector<at::Tensor>& inputs);

}  // namespace prism::shim
