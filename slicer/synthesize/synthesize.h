// A job description → what every stage of it does in an iteration, without a recording:
//
//   Result<graph::JobProgram> program = slicer::Synthesize(job, style);
//
// TrainingStyle{} gives the built-in workload (launch/trainer/), op by op as prism-emulate records
// it; other styles give the frameworks used in published runs. slicer/synthesize/blocks/ writes the
// kernels of a unit, pass_schedule.h orders passes and messages, data_parallel.h adds reductions
// and gathers.
#pragma once

#include <cstdint>

#include "graph/base/status.h"
#include "graph/program/job_program.h"

namespace prism::slicer {

// Whether a program says which part of an iteration its ops belong to. Times do not depend on it.
enum class Markers : uint8_t { kAll, kNone };

// Fails on a layout that does not divide evenly or that the schedule does not support.
Result<graph::JobProgram> Synthesize(const graph::JobSpec& job,
                                     const graph::TrainingStyle& style,
                                     Markers markers = Markers::kAll);

}  // namespace prism::slicer
