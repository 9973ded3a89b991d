// Which global ranks a communicator is made for: c10d knows, NCCL's calls do not say. Part of
// libprism_observer.so.
#pragma once

#include "shim/observer/observer_calls.h"

namespace prism::shim {

// A GroupProvider. Members come from the ProcessGroupNCCL at work (group_hook.cc), which knows
// every one whatever their order; else from what c10d keeps beside its calls, which is a
// progression.
bool ProvideGroup(GroupInfo* info);

}  // namespace prism::shim
