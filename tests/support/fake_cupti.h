// A small CUPTI for the simulated GPU (fake_gpu.cc): activity records of drawn durations
// (drawn_times.h, by the seed FAKE_GPU_SEED), of each op that a call with an external
// correlation id starts; every 97th takes four times as long, so that only a median is right.
#pragma once

#include <cstdint>
#include <string>

#include "shim/channel/messages.h"

namespace prism::testing {

// An op runs.
void RunDrawnOp(const std::string& op, channel::RecordKind kind);

// An op is captured.
void MakeGraphNode();

// For fake_gpu.cc, by name: what was captured is this graph's; a graph is instantiated; from here
// on ops are that executable's, nullptr: no one's.
extern "C" {
void cuptiKeepNodes(const void* graph);
void cuptiCloneNodes(const void* graph, const void* launched);
void cuptiLaunch(const void* launched);
// The external id of this thread's call, 0: none; and what this thread runs now is of that call.
uint64_t cuptiOp();
void cuptiRunAs(uint64_t op);
// Whether the last op that this thread issued is the kernel of torch.cuda._sleep.
bool cuptiLaunchedSpin();
}

}  // namespace prism::testing
