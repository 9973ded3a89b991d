#include "replayer/blame/blame.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/base/ids.h"
#include "graph/describe.h"
#include "replayer/blame/role_index.h"
#include "replayer/engine/breakdown.h"
#include "replayer/engine/placement.h"
#include "replayer/replay.h"

namespace prism::replayer {
namespace {

using graph::OpKind;

// When a rank has something to do: its kernels, copies and transfers, not what it waits for.
class BusyTime {
 public:
  // Replays once, with the rank traced.
  static Result<BusyTime> Of(const graph::Graph& graph, const ReplayOptions& given, Rank rank) {
    ReplayOptions options = given;
    options.breakdown = false;
    options.traced = {rank};
    PRISM_ASSIGN_OR_RETURN(const ReplayResult result, Replay(graph, options));
    const Timeline& timeline = result.timelines.front();
    const graph::Program& program = graph.role_of(rank).program;
    std::vector<TimeRange> ranges;
    for (size_t i = 0; i < timeline.whole; ++i) {
      switch (program.kind[i % program.size()]) {
        case OpKind::kKernel:
        case OpKind::kMemcpy:
        case OpKind::kMemset:
          ranges.push_back({timeline.start[i], timeline.end[i]});
          break;
        case OpKind::kCollective:
        case OpKind::kPeerGroup:
          ranges.push_back({timeline.transfer_start[i], timeline.end[i]});
          break;
        default:
          break;
      }
    }
    return BusyTime(std::move(ranges));
  }

  explicit BusyTime(std::vector<TimeRange> ranges) {
    std::ranges::sort(ranges, {}, &TimeRange::begin);
    for (const TimeRange& range : ranges) {
      if (!ranges_.empty() && range.begin <= ranges_.back().end) {
        ranges_.back().end = std::max(ranges_.back().end, range.end);
      } else {
        ranges_.push_back(range);
      }
    }
    DurationNs sum = 0;
    for (const TimeRange& range : ranges_) {
      before_.push_back(sum);
      sum += range.end - range.begin;
    }
  }

  // How much of the range it is busy.
  [[nodiscard]] DurationNs Within(TimeRange range) const {
    return Before(range.end) - Before(range.begin);
  }

 private:
  [[nodiscard]] DurationNs Before(TimeNs time) const {
    const auto after = std::partition_point(ranges_.begin(), ranges_.end(),
                                            [time](const TimeRange& r) { return r.begin < time; });
    if (after == ranges_.begin()) {
      return 0;
    }
    const auto last = static_cast<size_t>(after - ranges_.begin()) - 1;
    return before_[last] + std::min(time, ranges_[last].end) - ranges_[last].begin;
  }

  std::vector<TimeRange> ranges_;   // disjoint, ascending
  std::vector<DurationNs> before_;  // by range: sum of those before it
};

// Adds up by name.
class Tally {
 public:
  void Add(const std::string& what, DurationNs ns) {
    BlameItem& item = items_[what];
    item.ns += ns;
    ++item.steps;
  }

  [[nodiscard]] std::vector<BlameItem> Take() && {
    std::vector<BlameItem> items;
    for (auto& [what, item] : items_) {
      item.what = what;
      items.push_back(std::move(item));
    }
    std::ranges::stable_sort(items, std::ranges::greater{}, &BlameItem::ns);
    return items;
  }

 private:
  std::map<std::string, BlameItem> items_;
};

class PathReader {
 public:
  PathReader(const graph::Graph& graph, const ReplayOptions& options)
      : graph_(graph), placement_(graph, options), layers_(graph.roles.size()) {}

  [[nodiscard]] std::string CategoryOf(const PathStep& step) const {
    switch (step.kind) {
      case PathKind::kCompute:
      case PathKind::kOverlap:
        return "compute";
      case PathKind::kCopy:
        return "copies";
      case PathKind::kTransfer:
        return "communication: " + CommunicatorName(step);
      case PathKind::kHost:
        return "host";
      case PathKind::kLate:
        return "late start";
    }
    return "";
  }

  [[nodiscard]] std::string OpName(const PathStep& step) const {
    const graph::Program& program = graph_.role_of(step.rank).program;
    const OpKind kind = program.kind[step.op];
    const std::string kind_name = graph::OpKindName(kind);
    if (step.kind == PathKind::kHost) {
      return "host: " + kind_name;
    }
    if (step.kind == PathKind::kOverlap) {
      return "compute slowed beside collectives";
    }
    if (kind == OpKind::kKernel) {
      return KernelName(graph_.signatures[program.signature[step.op]]);
    }
    if (kind == OpKind::kCollective) {
      const graph::CollectiveShape& shape = program.collectives[program.signature[step.op]];
      return fmt::format("{} on {}", graph::CollectiveKindName(shape.kind), CommunicatorName(step));
    }
    return kind == OpKind::kPeerGroup ? "transfer on " + CommunicatorName(step) : kind_name;
  }

  // The innermost layer marker around the op; "" if there is none.
  const std::string& LayerOf(const PathStep& step) {
    std::vector<std::string>& layers = layers_[graph_.ranks.role[step.rank.value()]];
    if (layers.empty()) {
      layers = LayersOf(graph_, graph_.role_of(step.rank).program);
    }
    return layers[step.op];
  }

  [[nodiscard]] std::string LinkOf(const PathStep& step) const {
    const graph::Program& program = graph_.role_of(step.rank).program;
    std::set<uint32_t> nodes;
    if (program.kind[step.op] == OpKind::kCollective) {
      for (uint32_t member : graph_.communicators.members_of(CommId(CommunicatorOf(step)))) {
        nodes.insert(placement_.NodeOf(member));
      }
    } else {
      nodes = {placement_.NodeOf(step.rank.value()), placement_.NodeOf(step.partner.value())};
    }
    if (nodes.size() == 1) {
      return fmt::format("inside node {}", *nodes.begin());
    }
    return nodes.size() == 2 ? fmt::format("node {} - node {}", *nodes.begin(), *nodes.rbegin())
                             : fmt::format("{} nodes of {}, {} to {}", nodes.size(),
                                           CommunicatorName(step), *nodes.begin(), *nodes.rbegin());
  }

 private:
  [[nodiscard]] std::string KernelName(const graph::KernelSignature& signature) const {
    const std::string& framework_op = graph_.string(signature.framework_op);
    std::string_view name = framework_op.empty() ? graph_.string(signature.name) : framework_op;
    constexpr std::string_view kReturnType = "void ";
    name.remove_prefix(name.starts_with(kReturnType) ? kReturnType.size() : 0);
    return std::string(name.substr(0, name.find_first_of("<(")));
  }

  [[nodiscard]] uint32_t CommunicatorOf(const PathStep& step) const {
    const graph::Program& program = graph_.role_of(step.rank).program;
    uint16_t slot = program.comm_slot[step.op];
    if (program.kind[step.op] == OpKind::kPeerGroup) {
      for (const graph::PeerTransfer& transfer :
           program.peer_groups[program.signature[step.op]].transfers) {
        const bool decides =
            graph_.ranks.peers(step.rank)[transfer.peer_slot] == step.partner.value();
        slot = decides || slot == graph::kNoSlot ? transfer.comm_slot : slot;
      }
    }
    return graph_.ranks.comms(step.rank)[slot];
  }

  [[nodiscard]] const std::string& CommunicatorName(const PathStep& step) const {
    return graph_.string(StringId(graph_.communicators.name[CommunicatorOf(step)]));
  }

  const graph::Graph& graph_;
  Placement placement_;
  std::vector<std::vector<std::string>> layers_;  // by role and op
};

// The key with the largest value; ties to the lowest.
template <typename Key>
Key Longest(const std::map<Key, DurationNs>& time) {
  return std::ranges::max_element(time,
                                  [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

// Where the path is longest.
void FindHome(const graph::Graph& graph, const CriticalPath& path, Blame* blame) {
  std::map<int32_t, DurationNs> stages;
  for (const PathStep& step : path.steps) {
    stages[graph.role_of(step.rank).stage] += step.duration();
  }
  blame->home_stage = Longest(stages);
  std::map<Rank, DurationNs> ranks;
  for (const PathStep& step : path.steps) {
    if (graph.role_of(step.rank).stage == blame->home_stage) {
      ranks[step.rank] += step.duration();
    }
  }
  blame->home_rank = Longest(ranks);
}

}  // namespace

Result<Blame> BlamePath(const graph::Graph& graph,
                        const ReplayOptions& options,
                        const CriticalPath& path) {
  Blame blame;
  blame.rank = path.rank;
  blame.iteration_ns = path.end - path.begin;
  if (path.steps.empty()) {
    return blame;
  }
  FindHome(graph, path, &blame);
  PRISM_ASSIGN_OR_RETURN(const BusyTime home, BusyTime::Of(graph, options, blame.home_rank));
  blame.steps = static_cast<int64_t>(path.steps.size());
  PathReader reader(graph, options);
  Tally shares;
  Tally bubble;
  Tally ops;
  Tally layers;
  Tally stages;
  Tally links;
  std::set<Rank> ranks;
  for (const PathStep& step : path.steps) {
    const DurationNs ns = step.duration();
    const int32_t stage = graph.role_of(step.rank).stage;
    ranks.insert(step.rank);
    const std::string category = reader.CategoryOf(step);
    const bool away = stage != blame.home_stage && step.kind != PathKind::kTransfer;
    const DurationNs waited = away ? ns - home.Within({step.begin, step.end}) : 0;
    if (waited > 0) {
      shares.Add("bubble", waited);
      bubble.Add(category, waited);
    }
    if (waited < ns) {
      shares.Add(category, ns - waited);
    }
    ops.Add(reader.OpName(step), ns);
    stages.Add(fmt::format("stage {}", stage), ns);
    if (const std::string& layer = reader.LayerOf(step); !layer.empty()) {
      layers.Add(layer, ns);
    }
    if (step.kind == PathKind::kTransfer) {
      links.Add(reader.LinkOf(step), ns);
    }
  }
  blame.ranks = static_cast<int64_t>(ranks.size());
  blame.shares = std::move(shares).Take();
  blame.bubble = std::move(bubble).Take();
  blame.ops = std::move(ops).Take();
  blame.layers = std::move(layers).Take();
  blame.stages = std::move(stages).Take();
  blame.links = std::move(links).Take();
  return blame;
}

}  // namespace prism::replayer
