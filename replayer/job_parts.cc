#include "replayer/job_parts.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/describe.h"
#include "replayer/blame/role_index.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/engine/placement.h"

namespace prism::replayer {
namespace {

using graph::OpKind;

constexpr PartKind kKindsOfWork[] = {PartKind::kFamily, PartKind::kKernel, PartKind::kLayer,
                                     PartKind::kStage, PartKind::kRole};

bool IsWorkPart(PartKind kind) {
  return std::ranges::find(kKindsOfWork, kind) != std::end(kKindsOfWork);
}

bool IsWorkOp(OpKind kind) {
  return kind == OpKind::kKernel || kind == OpKind::kMemcpy || kind == OpKind::kMemset;
}

}  // namespace

const char* PartKindName(PartKind kind) {
  constexpr std::array<const char*, kPartKinds> kNames = {"kernels",       "kernel",       "layer",
                                                          "stage",         "role",         "host",
                                                          "communicators", "communicator", "link"};
  return kNames[static_cast<size_t>(kind)];
}

uint32_t JobParts::Names::Of(const std::string& name) {
  const auto [found, is_new] = index_of.try_emplace(name, static_cast<uint32_t>(all.size()));
  if (is_new) {
    all.push_back(name);
  }
  return found->second;
}

void JobParts::NameWork() {
  for (const KernelCost& cost : CostSignatures(graph_)) {
    family_of_.push_back(NamesOf(PartKind::kFamily).Of(cost.rule));
  }
  fixed_ = NamesOf(PartKind::kFamily).Of("fixed");
  copy_ = NamesOf(PartKind::kFamily).Of("copy");
  for (const graph::KernelSignature& signature : graph_.signatures) {
    kernel_of_.push_back(
        NamesOf(PartKind::kKernel).Of(graph::WithoutTemplates(graph_.string(signature.name))));
  }
  for (const graph::Role& role : graph_.roles) {
    stage_of_.push_back(NamesOf(PartKind::kStage).Of(std::to_string(role.stage)));
    NamesOf(PartKind::kHost).Of(fmt::format("stage {}", role.stage));
    NamesOf(PartKind::kRole).all.push_back(role.name);
    std::vector<uint32_t>& layers = layer_of_.emplace_back();
    for (const std::string& layer : LayersOf(graph_, role.program)) {
      layers.push_back(layer.empty() ? kNone : NamesOf(PartKind::kLayer).Of(layer));
    }
  }
}

void JobParts::NameTransfers(const Partition& partition) {
  for (uint32_t name : graph_.communicators.name) {
    axis_of_.push_back(NamesOf(PartKind::kCommunicators).Of(graph_.string(StringId(name))));
  }
  for (const CommClass& comm_class : partition.comm_classes) {
    const CommId id = comm_class.representative;
    const std::string& axis = graph_.string(StringId(graph_.communicators.name[id.value()]));
    communicators_.push_back(id);
    NamesOf(PartKind::kCommunicator)
        .all.push_back(fmt::format("{} of ranks {}", axis,
                                   graph::MembersText(graph_.communicators.members_of(id))));
  }
  NamesOf(PartKind::kLink).all = {"", "inside nodes", "between nodes"};  // by Reach
}

// The part of that kind to which the work of an op belongs; kNone: none.
uint32_t JobParts::PartOf(PartKind kind, uint32_t role, uint32_t op) const {
  const graph::Program& program = graph_.roles[role].program;
  const bool kernel = program.kind[op] == OpKind::kKernel;
  switch (kind) {
    case PartKind::kFamily:
      return !kernel                                            ? copy_
             : (program.flags[op] & graph::kDurationFixed) != 0 ? fixed_
                                                                : family_of_[program.signature[op]];
    case PartKind::kKernel:
      return kernel ? kernel_of_[program.signature[op]] : kNone;
    case PartKind::kLayer:
      return layer_of_[role][op];
    case PartKind::kStage:
      return stage_of_[role];
    default:
      return role;
  }
}

// The rank of the class that computes longest counts: the one of its last group of lanes.
void JobParts::AddClass(const Partition& partition,
                        uint32_t class_index,
                        const TransferCosts& costs) {
  const RankClass& rank_class = partition.classes[class_index];
  const RolePlan& plan = partition.plans[rank_class.groups.back().plan];
  std::array<std::vector<DurationNs>, kPartKinds> busy;
  for (size_t kind = 0; kind < kPartKinds; ++kind) {
    busy[kind].resize(names_[kind].all.size());
  }
  const auto add = [&](PartKind kind, uint32_t part, DurationNs duration) {
    busy[static_cast<size_t>(kind)][part] += duration;
  };
  for (const std::vector<Step>& steps : plan.streams) {
    for (const Step& step : steps) {
      for (const PartKind kind : kKindsOfWork) {
        const uint32_t part =
            step.kind == StepKind::kWork ? PartOf(kind, rank_class.role, step.op) : kNone;
        if (part != kNone) {
          add(kind, part, step.duration);
        }
      }
    }
  }
  add(PartKind::kHost, stage_of_[rank_class.role], plan.iteration_host_ns());
  const auto add_transfer = [&](uint16_t slot, PeerLoad::Reach reach, DurationNs duration) {
    const uint32_t comm_class = rank_class.comms[slot].comm_class;
    const CommId comm = partition.comm_classes[comm_class].representative;
    add(PartKind::kCommunicators, axis_of_[comm.value()], duration);
    add(PartKind::kCommunicator, comm_class, duration);
    if (reach != PeerLoad::Reach::kSelf) {
      add(PartKind::kLink, static_cast<uint32_t>(reach), duration);
    }
  };
  for (const CollectiveCall& call : plan.calls) {
    const CommEntry& entry = rank_class.comms[call.comm_slot];
    add_transfer(call.comm_slot, ReachOf(partition.comm_classes[entry.comm_class].topology),
                 costs.transfer_ns[call.transfer]);
  }
  for (size_t p = 0; p < plan.posts.size(); ++p) {
    const uint32_t endpoint = plan.posts[p].endpoint;
    add_transfer(plan.endpoints[endpoint].comm_slot, rank_class.channels[endpoint].reach,
                 costs.post_ns[p]);
  }
  for (size_t kind = 0; kind < kPartKinds; ++kind) {
    busy_ns_[kind].resize(busy[kind].size());
    std::ranges::transform(busy[kind], busy_ns_[kind], busy_ns_[kind].begin(),
                           [](DurationNs a, DurationNs b) { return std::max(a, b); });
  }
}

Result<JobParts> JobParts::Of(const graph::Graph& graph, const ReplayOptions& options) {
  const ComputeCost compute(graph.cluster);
  PRISM_ASSIGN_OR_RETURN(
      const Partition partition,
      MakePartition(graph, options, {}, OpCostsOf(graph, graph.cluster, &compute)));
  const CollectiveCost cost(graph.cluster);
  JobParts parts(graph);
  parts.NameWork();
  parts.NameTransfers(partition);
  for (uint32_t c = 0; c < partition.classes.size(); ++c) {
    const RolePlan& plan = partition.plans[partition.classes[c].groups.front().plan];
    parts.AddClass(partition, c,
                   CostTransfers(plan, WiringOf(partition, c), cost, options.comm_scale));
  }
  return parts;
}

std::vector<JobPart> JobParts::All() const {
  std::vector<JobPart> parts;
  for (size_t kind = 0; kind < kPartKinds; ++kind) {
    for (uint32_t index = 0; index < busy_ns_[kind].size(); ++index) {
      if (busy_ns_[kind][index] > 0) {
        parts.push_back(
            {static_cast<PartKind>(kind), names_[kind].all[index], index, busy_ns_[kind][index]});
      }
    }
  }
  std::ranges::stable_sort(
      parts, [](const JobPart& a, const JobPart& b) { return a.busy_ns > b.busy_ns; });
  return parts;
}

Speedup JobParts::Faster(const JobPart& part, double factor) const {
  Speedup speedup;
  speedup.factor = factor;
  for (uint32_t role = 0; role < graph_.roles.size(); ++role) {
    const graph::Program& program = graph_.roles[role].program;
    const bool of_host = part.kind == PartKind::kHost && stage_of_[role] == part.index;
    std::vector<bool>& ops = speedup.ops.emplace_back();
    speedup.hosts.push_back(of_host);
    for (uint32_t op = 0; op < program.size(); ++op) {
      const OpKind kind = program.kind[op];
      if ((of_host && kind == OpKind::kHostGap) ||
          (IsWorkPart(part.kind) && IsWorkOp(kind) && PartOf(part.kind, role, op) == part.index)) {
        ops.resize(program.size());
        ops[op] = true;
      }
    }
  }
  for (uint32_t comm = 0; comm < graph_.communicators.size(); ++comm) {
    speedup.communicators.push_back(
        (part.kind == PartKind::kCommunicators && axis_of_[comm] == part.index) ||
        (part.kind == PartKind::kCommunicator && communicators_[part.index].value() == comm));
  }
  if (part.kind == PartKind::kLink) {
    speedup.links = static_cast<PeerLoad::Reach>(part.index);
  }
  return speedup;
}

}  // namespace prism::replayer
