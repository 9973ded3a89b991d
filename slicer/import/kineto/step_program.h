// One profiled step of a rank → its program: what the host issued, when, and what it waited for.
//
// Host time is the time between its calls, so that phases which wait for the host stay as long as
// they were. A call that waited for the GPU (a synchronisation, a copy to pageable memory) waits in
// the program too, and its own time is dropped. Kernels and copies have their measured times.
//
// What waits for what is inferred (slicer/import/kineto/step_streams.h).
//
// Durations of collectives are dropped, because they include waiting: the cluster determines what
// they cost. Where neither the profile nor the range that issued one says how many bytes it moves,
// it becomes a kernel with the shortest time that it took in any step.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/status.h"
#include "graph/program/op.h"
#include "slicer/import/kineto/process_axis.h"
#include "slicer/import/kineto/trace_file.h"
#include "slicer/tasks/assembly.h"
#include "slicer/tasks/notes.h"

namespace prism::slicer {

struct StepProgram {
  graph::Program program;
  std::vector<ProcessAxis> groups;  // by communicator slot
  Notes notes;
  int64_t tasks = 0;  // of the GPU
};

// The step of median duration, the earlier one of two; all of a profile that marks no steps.
KinetoRange TypicalStep(const KinetoTrace& trace);

// `world`: number of ranks of the profiled job. Names go to `assembly`. kBadFile: "<file>: ...".
Result<StepProgram> ProgramOfStep(const KinetoTrace& trace,
                                  const KinetoRange& step,
                                  uint32_t world,
                                  const std::string& file,
                                  GraphAssembly* assembly);

}  // namespace prism::slicer
