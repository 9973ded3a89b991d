// One profiled step of a rank → its program: what the host issued, when, and what it waited for.
//
// Host time is the time between its calls, so that phases which wait for the host stay as long as
// they were. A call that waited for the GPU (a synchronisation, a copy to pageable memory, a launch
// into a full queue) waits in the program too, and its own time is dropped; a wait for a task of an
// earlier step is over by then. Kernels and copies have their measured times.
//
// What waits for what is inferred (slicer/import/kineto/step_streams.h).
//
// Durations of collectives include waiting: one takes the shortest time that any of its kind and
// size took in the profile, and the rest is waiting again (measured_transfers.h compares ranks).
// Where neither the profile nor the range that issued one says how many bytes it moves, it becomes
// a kernel with the shortest time that it took in any step.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/status.h"
#include "graph/program/op.h"
#include "slicer/import/kineto/process_axis.h"
#include "slicer/import/kineto/step_calls.h"
#include "slicer/import/kineto/trace_file.h"
#include "slicer/tasks/assembly.h"
#include "slicer/tasks/notes.h"

namespace prism::slicer {

// A send or receive that is a kernel of measured time until its other end is known.
struct StepMessage {
  uint32_t op = 0;
  bool is_send = false;
  uint32_t peer = 0;  // rank
  int64_t bytes = 0;
  DurationNs shortest_ns = 0;  // of its direction, peer and size, in the profile
  TimeNs end_ns = 0;           // in the profile
  ProcessAxis axis;
};

struct StepProgram {
  graph::Program program;
  std::vector<ProcessAxis> groups;  // by communicator slot
  std::vector<uint32_t> peers;      // ranks, by peer slot
  std::vector<StepMessage> messages;
  std::vector<TimeNs> collective_ends_ns;       // in the profile, by place
  std::vector<DurationNs> collective_times_ns;  // likewise, with waiting
  Notes notes;
  int64_t tasks = 0;  // of the GPU
};

// The slot of the axis, which is added if it is new. kNoSlot: a rank cannot have more.
uint16_t SlotOf(ProcessAxis axis, std::vector<ProcessAxis>* groups);

// The step of median duration among those that launched something, the earlier one of two; all of a
// profile that marks no steps. Of a profile that was cut off, steps that lack no kernel go first.
KinetoRange TypicalStep(const KinetoTrace& trace, const HostCalls& calls);

// The profile of one rank, and the step of it that counts.
struct ProfiledStep {
  const KinetoTrace& trace;
  const HostCalls& calls;  // of the trace
  KinetoRange step;
  uint32_t rank = 0;
  uint32_t world = 0;  // ranks of the profiled job
};

// Names go to `assembly`. kBadFile: "<file>: ...".
Result<StepProgram> ProgramOfStep(const ProfiledStep& profiled,
                                  const std::string& file,
                                  GraphAssembly* assembly);

}  // namespace prism::slicer
