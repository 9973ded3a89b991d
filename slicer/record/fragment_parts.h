// A recorded iteration as parts of a fragment: its program and its communicators.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/status.h"
#include "graph/fragment.h"
#include "slicer/record/op_tables.h"
#include "slicer/record/recorded_iteration.h"

namespace prism::slicer {

graph::Program MakeProgram(const Iteration& iteration);

// By slot. `world`: number of ranks of the job; 0: any. Fails if the members of one are unknown,
// and if the program has created a world other than the job's.
Result<std::vector<graph::FragmentCommunicator>> MakeCommunicators(const OpTables& tables,
                                                                   int32_t world);

}  // namespace prism::slicer
