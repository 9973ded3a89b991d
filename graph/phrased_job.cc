#include "graph/phrased_job.h"

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
    auto round = phrased.rounds.begin();
    for (uint32_t i = 0; i < phrased.steps.size(); ++i) {
      if (round != phrased.rounds.end() && *round == i) {
        stage.rounds.push_back(static_cast<uint32_t>(stage.calls.size()));
        ++round;
      }
      const std::vector<uint32_t>& phrase = kind.phrases[phrased.steps[i]];
      stage.calls.insert(stage.calls.end(), phrase.begin(), phrase.end());
    }
    program.stages.push_back(std::move(stage));
  }
  return program;
}

}  // namespace prism::graph
