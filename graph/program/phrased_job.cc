#include "graph/program/phrased_job.h"

#include <utility>

namespace prism::graph {

JobProgram WriteOut(const PhrasedJob& job) {
  JobProgram program = *job.program;
  program.job = job.job;
  program.style = job.style;
  for (const PhrasedStage& phrased : job.stages) {
    const PhrasedKind& kind = job.kinds[phrased.kind];
    StageProgram stage;
    stage.event_slot_count = kind.event_slot_count;
    for (const uint32_t step : phrased.steps) {
      const std::vector<uint32_t>& phrase = kind.phrases[step];
      stage.calls.insert(stage.calls.end(), phrase.begin(), phrase.end());
    }
    program.stages.push_back(std::move(stage));
  }
  return program;
}

}  // namespace prism::graph
