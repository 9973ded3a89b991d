// Synthesis of many jobs, one after the other, that share what they have in common: units are
// written once per shape of a rank, small blocks once per content, schedules once. All jobs share
// one program, which only grows; earlier jobs change the numbers of blocks and nothing else.
#pragma once

#include <cstdint>
#include <memory>

#include "graph/base/status.h"
#include "graph/program/phrased_job.h"
#include "slicer/synthesize/job_assembly.h"
#include "slicer/synthesize/model_chunks.h"
#include "slicer/synthesize/pass_schedule.h"
#include "slicer/synthesize/synthesize.h"

namespace prism::slicer {

class PhraseSynthesizer {
 public:
  // `launched_as_graph`: all styles are HostCost::kGraph, otherwise none is. `timed_only`: what
  // makes no difference to times is written in less detail: tensors of optimizer steps as sums,
  // ends of reductions as one event if a later one is waited for first.
  explicit PhraseSynthesizer(bool launched_as_graph, bool timed_only = false)
      : launched_as_graph_(launched_as_graph), timed_only_(timed_only) {}

  // As Synthesize. The returned job stays valid while others are synthesised, one after the other.
  Result<graph::PhrasedJob> Run(const graph::JobSpec& job,
                                const graph::TrainingStyle& style,
                                Markers markers);

  [[nodiscard]] const UnitCache& units() const { return units_; }
  [[nodiscard]] int64_t op_count() const { return op_count_; }  // of all blocks

 private:
  bool launched_as_graph_;
  bool timed_only_;
  std::shared_ptr<graph::JobProgram> program_ = std::make_shared<graph::JobProgram>();
  JobAssembly assembly_;
  UnitCache units_;
  ScheduleCache schedules_;
  size_t known_blocks_ = 0;  // after the last job
  int64_t op_count_ = 0;
};

}  // namespace prism::slicer
