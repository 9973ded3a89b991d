// Replays after an edit: evaluates only what changes; the result equals that of a full replay, byte
// for byte.
//
//   Result<std::unique_ptr<DeltaReplay>> recorded = DeltaReplay::Record(graph, options);
//   Result<DeltaResult> edited = (*recorded)->Evaluate(edit);
//
// The equivalent full replay is Replay of what ApplyEdit returns, with the options of the
// recording. Edits that change who does what in which order are replayed in full, and reported as
// such: a program with different ops, a different eager limit, different noise, kills (the job then
// stalls, and a full replay says who waits for whom), slow hosts, and devices that are taken away
// at regular times. In a full replay by classes an edit of one rank splits its class; here only the
// ranks whose times change leave their lane.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/delta/edit.h"
#include "replayer/delta/sweep.h"
#include "replayer/replay.h"

namespace prism::replayer {

struct DeltaResult {
  // `ranks`, `communicators` and `iteration_ns` are those of a full replay; the rest is that of the
  // recording, unless `full`. Valid until the next call of Evaluate.
  const ReplayResult* replay = nullptr;
  // A full replay was done: the order of the job may have changed, or so much differs that a full
  // replay is faster. `why_full` says which, for people.
  bool full = false;
  std::string_view why_full;
  int64_t executed = 0;       // actions (runs of ops, meetings) that were evaluated again
  int64_t changed_ranks = 0;  // whose results differ in the end
  int64_t reached = 0;        // as in Sweep: if 0, slack absorbs the edit
};

struct DeltaSettings {
  // Collectives and peer groups of a class between two checkpoints: fewer cost memory, more make an
  // edit slower.
  uint32_t holds_per_checkpoint = 32;
  // The fraction of a full replay's work that is spent on a delta before falling back to a full
  // replay.
  double most_work = 0.5;
};

class DeltaReplay {
 public:
  // Replays, and keeps what later replays need, including a reference to the graph. Fails as Replay
  // does, and on options with traced ranks or a network of flows.
  static Result<std::unique_ptr<DeltaReplay>> Record(const graph::Graph& graph,
                                                     const ReplayOptions& options,
                                                     const DeltaSettings& settings = {});
  DeltaReplay(const DeltaReplay&) = delete;
  DeltaReplay& operator=(const DeltaReplay&) = delete;

  [[nodiscard]] const ReplayResult& baseline() const { return result_; }

  // The edit always applies to the recording; edits do not accumulate.
  Result<DeltaResult> Evaluate(const Edit& edit);

 private:
  DeltaReplay(const graph::Graph& graph, ReplayOptions options, Partition partition);

  [[nodiscard]] std::string_view WhyOtherOrder(const Edit& edit) const;
  [[nodiscard]] Result<DeltaResult> ReplayInFull(const Edit& edit, std::string_view why);
  [[nodiscard]] std::span<const uint32_t> RanksOf(const RankTotals& totals) const;
  [[nodiscard]] const LaneTimes& Before(uint32_t rank) const;
  void TakeBack();
  int64_t SumRanks(const std::vector<RankTotals>& totals);
  void SumIterations(const std::vector<RankTotals>& totals);
  void SumCommunicators(const std::vector<RankTotals>& totals);
  [[nodiscard]] CommunicatorTimes TimesOfMembers(const std::vector<RankTotals>& totals,
                                                 uint32_t comm) const;

  const graph::Graph& graph_;
  ReplayOptions options_;
  Partition partition_;
  CollectiveCost cost_;
  RecordedOrder schedule_;
  std::vector<std::vector<std::vector<uint32_t>>> ranks_of_;  // by class and lane
  std::unique_ptr<Baseline> baseline_;
  std::unique_ptr<Sweep> sweep_;
  ReplayResult result_;
  ReplayResult edited_;  // as result_, except for the edited ranks
  std::vector<uint32_t> changed_ranks_;
  std::vector<uint32_t> changed_comms_;
  ReplayResult full_;                // of the last edit that was replayed in full
  std::vector<uint32_t> totals_of_;  // by rank; between calls all kNone
};

}  // namespace prism::replayer
