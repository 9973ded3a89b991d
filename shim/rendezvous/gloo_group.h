// From an object of the replaced c10d::ProcessGroupGloo to its state.
#pragma once

#include <memory>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "shim/observer/torch_versions.h"
#include "shim/rendezvous/cpu_group.h"

namespace prism::shim {

// The only context of a group is its CpuGroup; by the first operation the options name the members,
// where there is such an option.
inline CpuGroup& GroupOf(c10d::ProcessGroupGloo& process_group,
                         const std::vector<std::shared_ptr<gloo::Context>>& contexts) {
  auto& group = static_cast<CpuGroup&>(*contexts.front());
#if PRISM_TORCH_GLOO_KNOWS_MEMBERS
  group.SetMembers(process_group.getOptions()->global_ranks_in_group);
#endif
  return group;
}

}  // namespace prism::shim
