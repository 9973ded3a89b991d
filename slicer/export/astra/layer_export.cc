#include "slicer/export/astra/layer_export.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "slicer/import/astra/workload_file.h"
#include "slicer/tasks/raise.h"

namespace prism::slicer {
namespace {

using graph::CollectiveKind;

// Compute, and then a collective.
using Segment = LayerPass;

const char* NameOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "ALLREDUCE";
    case CollectiveKind::kAllGather:
      return "ALLGATHER";
    case CollectiveKind::kReduceScatter:
      return "REDUCESCATTER";
    case CollectiveKind::kAllToAll:
      return "ALLTOALL";
    default:
      return nullptr;
  }
}

// The distance between neighbours if it is the same throughout the group; else 0.
int64_t StrideOf(std::span<const uint32_t> members) {
  if (members.size() < 2) {
    return 0;
  }
  const uint32_t stride = members[1] - members[0];
  for (size_t i = 2; i < members.size(); ++i) {
    if (members[i] - members[i - 1] != stride) {
      return 0;
    }
  }
  return stride;
}

// Which of SimAI's groups a communicator of rank 0 is.
class GroupRule {
 public:
  explicit GroupRule(const graph::Graph& graph) : graph_(graph) {
    const auto ranks = static_cast<int64_t>(graph.ranks.size());
    for (const uint32_t comm : graph.ranks.comms(Rank(0))) {
      const auto members = graph.communicators.members_of(CommId(comm));
      const auto size = static_cast<int64_t>(members.size());
      if (StrideOf(members) == 1 && (size < ranks || IsNamedModel(comm))) {
        tp_ = std::max(tp_, size);
      }
    }
    const int64_t stages = graph.job.parallel.pp;
    pp_ = ranks % (tp_ * stages) == 0 ? stages : 1;
    for (const uint32_t comm : graph.ranks.comms(Rank(0))) {
      const auto members = graph.communicators.members_of(CommId(comm));
      const auto size = static_cast<int64_t>(members.size());
      if (StrideOf(members) == tp_ && size > 1 && size < ranks / (tp_ * pp_)) {
        ep_ = std::max(ep_, size);
      }
    }
  }

  [[nodiscard]] int64_t tp() const { return tp_; }
  [[nodiscard]] int64_t ep() const { return ep_; }
  [[nodiscard]] int64_t pp() const { return pp_; }

  [[nodiscard]] std::optional<LayerGroup> GroupOf(uint32_t comm) const {
    const auto members = graph_.communicators.members_of(CommId(comm));
    const auto size = static_cast<int64_t>(members.size());
    const auto ranks = static_cast<int64_t>(graph_.ranks.size()) / pp_;  // of a stage
    const int64_t stride = StrideOf(members);
    if (tp_ > 1 && stride == 1 && size == tp_) {
      return LayerGroup::kModel;
    }
    if (stride == tp_ && size == ranks / tp_) {
      return LayerGroup::kData;
    }
    if (ep_ > 1 && stride == tp_ && size == ep_) {
      return LayerGroup::kExpert;
    }
    if (ep_ > 1 && stride == tp_ * ep_ && size == ranks / (tp_ * ep_)) {
      return LayerGroup::kDataExpert;
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool IsNamedModel(uint32_t comm) const {
    const std::string& name = graph_.strings[graph_.communicators.name[comm]];
    return name.find("tp") != std::string::npos || name.find("model") != std::string::npos;
  }

  const graph::Graph& graph_;
  int64_t tp_ = 1;
  int64_t ep_ = 1;
  int64_t pp_ = 1;
};

// The resource that computes longest; others run beside it.
uint16_t BusiestResource(const TaskGraph& tasks) {
  std::map<uint16_t, int64_t> compute;
  for (const Task& task : tasks.tasks) {
    if (task.kind == TaskKind::kCompute) {
      compute[task.resource] += task.value;
    }
  }
  const auto busiest = std::ranges::max_element(
      compute, [](const auto& a, const auto& b) { return a.second < b.second; });
  return busiest == compute.end() ? kNoResource : busiest->first;
}

std::vector<Segment> SegmentsOf(const TaskGraph& tasks, const GroupRule& rule, Notes* notes) {
  std::vector<Segment> segments(1);
  const uint16_t busiest = BusiestResource(tasks);
  for (const Task& task : tasks.tasks) {
    if (task.kind == TaskKind::kCompute) {
      if (task.resource == busiest) {
        segments.back().compute += task.value;
      } else if (task.value > 0) {
        notes->Add("computations beside those of the busiest stream are left out");
      }
      continue;
    }
    if (task.kind != TaskKind::kCollective) {
      notes->Add("messages between two ranks are left out");
      continue;
    }
    const graph::CollectiveShape& shape = tasks.collectives[task.shape];
    const std::optional<LayerGroup> group = rule.GroupOf(task.comm);
    if (!group.has_value() || NameOf(shape.kind) == nullptr) {
      notes->Add("collectives of a kind or group that SimAI does not have are left out");
      continue;
    }
    Segment& segment = segments.back();
    segment.communicates = true;
    segment.kind = shape.kind;
    segment.group = *group;
    segment.bytes = shape.bytes;
    segments.emplace_back();
  }
  if (segments.back().compute == 0 && segments.size() > 1) {
    segments.pop_back();
  }
  return segments;
}

bool IsBlocking(const Segment& segment) {
  return !segment.communicates || segment.group == LayerGroup::kModel ||
         segment.group == LayerGroup::kExpert;
}

// The backward pass of one layer.
struct BackwardPlace {
  Segment input_gradient;
  Segment weight_gradient;
};

// Segments in the places of the backward pass, that of the last layer first: input gradients take
// the collectives that block, the weight gradient after it those that do not.
std::vector<BackwardPlace> DealBackward(std::span<const Segment> segments) {
  std::vector<BackwardPlace> places;
  bool place_left = false;  // the weight gradient of the last place
  for (const Segment& segment : segments) {
    const bool blocking = IsBlocking(segment);
    if (blocking || !place_left) {
      places.emplace_back();
    }
    (blocking ? places.back().input_gradient : places.back().weight_gradient) = segment;
    place_left = blocking;
  }
  return places;
}

// Layers that run `forward` and then `backward`; layers without a forward pass come first.
std::vector<WorkloadLayer> JoinLayers(std::span<const Segment> forward,
                                      const std::vector<BackwardPlace>& backward) {
  std::vector<WorkloadLayer> layers(std::max(forward.size(), backward.size()));
  const size_t first = layers.size() - forward.size();
  for (size_t i = 0; i < forward.size(); ++i) {
    layers[first + i].forward = forward[i];
  }
  for (size_t i = 0; i < backward.size(); ++i) {
    WorkloadLayer& layer = layers[layers.size() - 1 - i];
    layer.input_gradient = backward[i].input_gradient;
    layer.weight_gradient = backward[i].weight_gradient;
  }
  return layers;
}

std::string PassText(const LayerPass& pass) {
  if (!pass.communicates) {
    return fmt::format("{}\tNONE\t0", pass.compute);
  }
  const char* const ending = pass.group == LayerGroup::kExpert       ? "_EP"
                             : pass.group == LayerGroup::kDataExpert ? "_DP_EP"
                                                                     : "";
  return fmt::format("{}\t{}{}\t{}", pass.compute, NameOf(pass.kind), ending, pass.bytes);
}

}  // namespace

Result<std::string> SimAiText(const graph::Graph& graph, ExportResult* result) {
  Notes& notes = result->notes;
  PRISM_ASSIGN_OR_RETURN(const TaskGraph tasks, RaiseRank(graph, Rank(0), &notes));
  notes.Add("ranks do what rank 0 does, though they have another role",
            std::ranges::count_if(graph.ranks.role,
                                  [&](uint32_t role) { return role != graph.ranks.role[0]; }));
  const GroupRule rule(graph);
  notes.Add(
      "ranks of a data-parallel group that other groups divide are written as expert parallel",
      rule.ep() > 1 ? rule.ep() : 0);
  const std::vector<Segment> segments = SegmentsOf(tasks, rule, &notes);
  size_t forward = 0;
  while (forward < segments.size() && IsBlocking(segments[forward])) {
    ++forward;
  }
  const std::span<const Segment> all(segments);
  const std::vector<WorkloadLayer> layers =
      JoinLayers(all.first(forward), DealBackward(all.subspan(forward)));
  notes.Add("streams of a rank become one sequence; only data-parallel collectives run alongside",
            graph.role_of(Rank(0)).program.stream_count - 1);
  notes.Add("kernels are sums of time between collectives", static_cast<int64_t>(segments.size()));
  std::string text = fmt::format(
      "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: {} ep: {} pp: {} vpp: 1 ga: 1 "
      "all_gpus: {} checkpoints: 0 checkpoint_initiates: 0 pp_comm: 0\n{}\n",
      rule.tp(), rule.ep(), rule.pp(), graph.ranks.size(), layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    fmt::format_to(std::back_inserter(text), "layer{}\t-1\t{}\t{}\t{}\t0\n", i,
                   PassText(layers[i].forward), PassText(layers[i].input_gradient),
                   PassText(layers[i].weight_gradient));
  }
  result->tasks = static_cast<int64_t>(layers.size());
  result->bytes = static_cast<int64_t>(text.size());
  return text;
}

Result<ExportResult> ExportSimAi(const graph::Graph& graph, const std::string& path) {
  ExportResult result;
  PRISM_ASSIGN_OR_RETURN(const std::string text, SimAiText(graph, &result));
  PRISM_RETURN_IF_ERROR(WriteFileAtomically(path, text));
  result.files = {path};
  return result;
}

}  // namespace prism::slicer
