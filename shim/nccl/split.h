// Children of a communicator.
//
// A rank passes only its own colour to ncclCommSplit. Which other ranks have the same colour is
// learned from these if all members of the parent are present, and from the framework
// (GroupProvider) otherwise; if neither knows, the call is refused.
#pragma once

#include <vector>

#include "shim/nccl/communicator.h"
#include "shim/nccl/nccl_api.h"

namespace prism::shim {

struct SplitResult {
  ncclResult_t code = ncclSuccess;
  bool is_member = false;  // of a child; false for NCCL_SPLIT_NOCOLOR
  CommunicatorSpec child;
};

SplitResult Split(Communicator* parent, int color, int key);

// The parent without some of its ranks, in the same order.
SplitResult Shrink(Communicator* parent, const std::vector<int>& excluded);

}  // namespace prism::shim
