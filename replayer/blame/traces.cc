#include "replayer/blame/traces.h"

#include <set>
#include <utility>

#include "replayer/replay.h"

namespace prism::replayer {
namespace {

// Timelines kept at a time. All ranks of a job without noise fit; of 8,192 ranks with noise, one
// model-parallel replica fits.
constexpr int64_t kMaxBytes = int64_t{1} << 30U;

// Larger communicators do not make their members neighbours: they hold all replicas of a model.
constexpr size_t kSmallCommunicator = 16;

}  // namespace

Result<Traces> Traces::Create(const graph::Graph& graph, const ReplayOptions& options) {
  Traces traces(graph, options);
  traces.options_.breakdown = false;
  traces.options_.traced.clear();
  PRISM_ASSIGN_OR_RETURN(traces.result_, Replay(graph, traces.options_));
  traces.replays_ = 1;
  return traces;
}

int64_t Traces::BytesOf(Rank rank) const {
  constexpr int64_t kBytesOfOp = 4 * sizeof(TimeNs) + 2 * sizeof(uint32_t);
  return kBytesOfOp * graph_->role_of(rank).program.size() * options_.iterations;
}

// Representatives of the ranks that are connected with the rank, nearest first, as many as fit; all
// others after them.
std::vector<Rank> Traces::Neighbours(Rank rank) const {
  std::vector<Rank> found = {rank};
  std::set<uint32_t> standing = {StandsFor(rank).value()};
  int64_t bytes = BytesOf(rank);
  const auto visit = [&](uint32_t other) {
    const Rank stands = StandsFor(Rank(other));
    if (bytes < kMaxBytes && standing.insert(stands.value()).second) {
      bytes += BytesOf(stands);
      found.emplace_back(other);
    }
  };
  for (size_t next = 0; next < found.size(); ++next) {
    const Rank at = found[next];
    for (uint32_t peer : graph_->ranks.peers(at)) {
      visit(peer);
    }
    for (uint32_t comm : graph_->ranks.comms(at)) {
      const auto members = graph_->communicators.members_of(CommId(comm));
      for (size_t i = 0; members.size() <= kSmallCommunicator && i < members.size(); ++i) {
        visit(members[i]);
      }
    }
  }
  for (uint32_t other = 0; other < graph_->ranks.size() && bytes < kMaxBytes; ++other) {
    visit(other);
  }
  std::vector<Rank> ranks;
  for (uint32_t stands : standing) {
    ranks.emplace_back(stands);
  }
  return ranks;
}

Status Traces::TraceAround(Rank rank) {
  ReplayOptions options = options_;
  int64_t bytes = 0;
  for (Rank stands : Neighbours(rank)) {
    if (!timeline_of_.contains(stands.value())) {
      options.traced.push_back(stands);
      bytes += BytesOf(stands);
    }
  }
  if (bytes_ + bytes > 2 * kMaxBytes) {
    timeline_of_.clear();
    bytes_ = 0;
    return TraceAround(rank);
  }
  PRISM_ASSIGN_OR_RETURN(ReplayResult result, Replay(*graph_, options));
  ++replays_;
  bytes_ += bytes;
  for (Timeline& timeline : result.timelines) {
    timeline_of_[timeline.rank.value()] = std::move(timeline);
  }
  return OkStatus();
}

Result<const Timeline*> Traces::Of(Rank rank) {
  const uint32_t stands = StandsFor(rank).value();
  auto found = timeline_of_.find(stands);
  if (found == timeline_of_.end()) {
    PRISM_RETURN_IF_ERROR(TraceAround(rank));
    found = timeline_of_.find(stands);
  }
  return &found->second;
}

}  // namespace prism::replayer
