// Engine's state; included by the files that implement Engine and by nobody else.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "replayer/engine/engine.h"
#include "replayer/engine/meeting.h"
#include "replayer/engine/partition.h"
#include "replayer/engine/rank_timeline.h"
#include "replayer/engine/work_queue.h"

namespace prism::replayer {

class Engine::Impl {
 public:
  Impl(const graph::Graph& graph, const ReplayOptions& options, Partition partition);

  // Makes the timelines; `gated` as given to Engine::Create.
  void Start(const std::vector<Rank>& gated);

  void Advance();
  [[nodiscard]] bool finished() const;
  [[nodiscard]] Meetings& meetings() { return meetings_; }
  [[nodiscard]] const graph::Graph& graph() const { return graph_; }
  [[nodiscard]] const ReplayOptions& options() const { return options_; }
  [[nodiscard]] const CollectiveCost& collective_cost() const { return collective_cost_; }
  [[nodiscard]] RankTimeline& TimelineOf(Rank rank);
  void Wake(Rank rank);
  void Complete(TransferId transfer, TimeNs end);
  [[nodiscard]] std::vector<std::string> DescribeStall() const;
  [[nodiscard]] int64_t stream_looks() const;
  [[nodiscard]] ReplayResult Summarise();

 private:
  void WakeSettled(std::vector<HoldId>* settled);
  [[nodiscard]] int UsefulThreads() const;
  [[nodiscard]] std::vector<CommunicatorTimes> SummariseCommunicators() const;
  [[nodiscard]] std::vector<DurationNs> SummariseWaits() const;

  // A line of text, and the class that class `c` waits for (kNone if it waits for none).
  struct StallLine {
    std::string text;
    uint32_t waits_for = kNone;
  };
  [[nodiscard]] StallLine DescribeClass(uint32_t c) const;
  [[nodiscard]] StallLine DescribeCollective(uint32_t c, OpPosition position) const;
  [[nodiscard]] StallLine DescribePeers(uint32_t c, OpPosition position) const;
  [[nodiscard]] std::string NameOf(uint32_t c) const;

  const graph::Graph& graph_;
  ReplayOptions options_;
  Partition partition_;
  CollectiveCost collective_cost_;
  Meetings meetings_;
  std::vector<std::unique_ptr<RankTimeline>> timelines_;  // by class
  WorkQueue queue_;                                       // classes that may be able to advance
  std::shared_ptr<TransferTimes> transfers_;              // under kFlow, if none are frozen
};

}  // namespace prism::replayer
