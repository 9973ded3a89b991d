// Which global ranks a communicator is made for: c10d knows, NCCL's calls do not say. Part of
// libprism_observer.so.
#pragma once

#include "shim/observer/observer_calls.h"

namespace prism::shim {

// A GroupProvider. Members come from the ProcessGroupNCCL at work (group_hook.cc), which knows all
// of them in any order; else from what c10d passes along with its calls, which is a progression.
bool ProvideGroup(GroupInfo* info);

}  // namespace prism::shim
