// A JobProgram whose stages are not written out. What a stage calls at one step of its schedule (a
// pass with the messages around it, the begin or the end of an iteration) is a phrase. Stages that
// are made of the same layers share their phrases and differ only in the order, so that a job with
// thousands of passes is a few dozen phrases and, for every stage, a list of their indices.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/program/job_program.h"

namespace prism::graph {

// Stages that take their steps from the same phrases.
struct PhrasedKind {
  std::vector<std::vector<uint32_t>> phrases;  // calls: indices into JobProgram::blocks
  uint16_t event_slot_count = 0;
};

struct PhrasedStage {
  uint32_t kind = 0;
  std::vector<uint32_t> steps;  // phrases of its kind, in host issue order
  // Steps at which the rounds of the steady part begin, in which a stage repeats itself: a job with
  // more micro-batches has more rounds and is otherwise the same. Round r of a stage receives
  // messages from rounds r and r - 1 of its neighbours. Empty where the schedule has no rounds, or
  // where markers make its steps differ.
  std::vector<uint32_t> rounds;
};

struct PhrasedJob {
  JobSpec job;
  TrainingStyle style;
  // Only blocks, strings and signatures. Other jobs may share it and add to it.
  std::shared_ptr<JobProgram> program;
  std::vector<PhrasedKind> kinds;
  std::vector<PhrasedStage> stages;  // by pipeline stage
};

// The same job with every call of every stage written out.
JobProgram WriteOut(const PhrasedJob& job);

}  // namespace prism::graph
