// all_to_all with a count of rows for each rank: as many sends and receives at once.
#pragma once

#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "shim/rendezvous/cpu_group.h"

namespace prism::shim {

// One side: the rows that each rank gives or gets, in order of rank; empty: equal counts.
struct SplitTensor {
  at::Tensor tensor;
  std::vector<int64_t> counts;
};

// What an absent rank would send is zeros. Throws c10::Error for counts that do not fit.
c10::intrusive_ptr<c10d::Work> StartUnequalAllToAll(CpuGroup& group,
                                                    const SplitTensor& output,
                                                    const SplitTensor& input);

}  // namespace prism::shim
