// Timelines of the ranks that a walk through the job visits, a few at a time.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/engine/replay_options.h"
#include "replayer/engine/replay_result.h"

namespace prism::replayer {

class Traces {
 public:
  // Replays once. `graph` must outlive the traces.
  static Result<Traces> Create(const graph::Graph& graph, const ReplayOptions& options);

  // The result of that replay; of RankTimes only iteration_ns is filled.
  [[nodiscard]] const ReplayResult& result() const { return result_; }
  [[nodiscard]] const ReplayOptions& options() const { return options_; }
  [[nodiscard]] int64_t replays() const { return replays_; }

  // The rank that represents all that have the same times as this one.
  [[nodiscard]] Rank StandsFor(Rank rank) const { return result_.alike[rank.value()]; }

  // The timeline of the rank. Replays if it is not kept, which invalidates timelines returned
  // before.
  Result<const Timeline*> Of(Rank rank);

 private:
  Traces(const graph::Graph& graph, ReplayOptions options)
      : graph_(&graph), options_(std::move(options)) {}

  Status TraceAround(Rank rank);
  [[nodiscard]] std::vector<Rank> Neighbours(Rank rank) const;
  [[nodiscard]] int64_t BytesOf(Rank rank) const;

  const graph::Graph* graph_;
  ReplayOptions options_;
  ReplayResult result_;
  int64_t replays_ = 0;
  int64_t bytes_ = 0;                         // of the timelines
  std::map<uint32_t, Timeline> timeline_of_;  // by standing rank
};

}  // namespace prism::replayer
