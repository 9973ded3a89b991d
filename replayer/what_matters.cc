#include "replayer/what_matters.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include <fmt/format.h>

#include "graph/base/intern.h"
#include "graph/base/parallel.h"
#include "graph/describe.h"
#include "replayer/blame/role_index.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/engine/partition.h"
#include "replayer/engine/placement.h"
#include "replayer/engine/replay_result.h"
#include "replayer/engine/speedup.h"
#include "replayer/replay.h"

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

// What a job consists of, for questions about one part of it: families of kernels, layers, stages,
// roles, hosts, communicators, links. Parts overlap: a kernel belongs to its family, its layer, its
// stage and its role.
class JobParts {
 public:
  // `graph` must outlive it.
  static Result<JobParts> Of(const graph::Graph& graph, const ReplayOptions& options) {
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

  // All that take time, longest first; of communicators that cannot differ in time, one.
  [[nodiscard]] std::vector<JobPart> All() const {
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

  [[nodiscard]] Speedup Faster(const JobPart& part, double factor) const {
    Speedup speedup;
    speedup.factor = factor;
    for (uint32_t role = 0; role < graph_.roles.size(); ++role) {
      const graph::Program& program = graph_.roles[role].program;
      const bool of_host = part.kind == PartKind::kHost && stage_of_[role] == part.index;
      std::vector<bool>& ops = speedup.ops.emplace_back();
      speedup.hosts.push_back(of_host);
      for (uint32_t op = 0; op < program.size(); ++op) {
        const OpKind kind = program.kind[op];
        if ((of_host && kind == OpKind::kHostGap) || (IsWorkPart(part.kind) && IsWorkOp(kind) &&
                                                      PartOf(part.kind, role, op) == part.index)) {
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

 private:
  // Names of the parts of one kind, in order of first use.
  struct Names {
    std::vector<std::string> all;
    std::map<std::string, uint32_t> index_of;

    uint32_t Of(const std::string& name) { return InternValue(all, index_of, name); }
  };

  explicit JobParts(const graph::Graph& graph) : graph_(graph) {}
  [[nodiscard]] Names& NamesOf(PartKind kind) { return names_[static_cast<size_t>(kind)]; }

  void NameWork() {
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

  void NameTransfers(const Partition& partition) {
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
  [[nodiscard]] uint32_t PartOf(PartKind kind, uint32_t role, uint32_t op) const {
    const graph::Program& program = graph_.roles[role].program;
    const bool kernel = program.kind[op] == OpKind::kKernel;
    switch (kind) {
      case PartKind::kFamily:
        return !kernel ? copy_
               : (program.flags[op] & graph::kDurationFixed) != 0
                   ? fixed_
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
  void AddClass(const Partition& partition, uint32_t class_index, const TransferCosts& costs) {
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

  const graph::Graph& graph_;
  std::array<Names, kPartKinds> names_;
  std::array<std::vector<DurationNs>, kPartKinds> busy_ns_;  // by kind and part
  std::vector<uint32_t> family_of_;                          // by kernel signature
  std::vector<uint32_t> kernel_of_;                          // by kernel signature
  uint32_t fixed_ = 0;                                       // families that no signature has
  uint32_t copy_ = 0;
  std::vector<uint32_t> stage_of_;               // by role
  std::vector<std::vector<uint32_t>> layer_of_;  // by role and op
  std::vector<uint32_t> axis_of_;                // by communicator: its kCommunicators
  std::vector<CommId> communicators_;            // by kCommunicator
};

constexpr int64_t kCommunicatorsTried = 16;

// Drops the parts that are not tried; returns how many.
int64_t LeaveOut(size_t most, std::vector<JobPart>* parts) {
  const size_t before = parts->size();
  int64_t communicators = 0;
  std::erase_if(*parts, [&](const JobPart& part) {
    return part.kind == PartKind::kCommunicator && ++communicators > kCommunicatorsTried;
  });
  parts->resize(std::min(parts->size(), most));
  return static_cast<int64_t>(before - parts->size());
}

// By speed-up: the first one equal to it. Equal ones take equally long.
std::vector<size_t> FirstAlike(const std::vector<JobPart>& parts,
                               const std::vector<std::shared_ptr<const Speedup>>& speedups) {
  std::vector<size_t> first;
  for (size_t i = 0; i < parts.size(); ++i) {
    size_t alike = 0;
    while (alike < i &&
           (parts[alike].busy_ns != parts[i].busy_ns || !(*speedups[alike] == *speedups[i]))) {
      ++alike;
    }
    first.push_back(alike);
  }
  return first;
}

}  // namespace

const char* PartKindName(PartKind kind) {
  constexpr std::array<const char*, kPartKinds> kNames = {"kernels",       "kernel",       "layer",
                                                          "stage",         "role",         "host",
                                                          "communicators", "communicator", "link"};
  return kNames[static_cast<size_t>(kind)];
}

Result<WhatMatters> FindWhatMatters(const graph::Graph& graph,
                                    const ReplayOptions& given,
                                    size_t most) {
  ReplayOptions options = given;
  options.breakdown = false;
  options.traced.clear();
  options.threads = 1;
  PRISM_ASSIGN_OR_RETURN(const ReplayResult whole, Replay(graph, options));
  PRISM_ASSIGN_OR_RETURN(const JobParts job, JobParts::Of(graph, options));
  std::vector<JobPart> parts = job.All();
  WhatMatters matters;
  matters.iteration_ns = whole.steady_iteration_ns();
  matters.left_out = LeaveOut(most, &parts);
  std::vector<std::shared_ptr<const Speedup>> speedups(parts.size());
  ParallelFor(given.threads, std::ssize(parts), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    speedups[at] = std::make_shared<Speedup>(job.Faster(parts[at], kFasterFactor));
  });
  const std::vector<size_t> alike = FirstAlike(parts, speedups);
  std::vector<DurationNs> iterations(parts.size());
  std::vector<Status> failures(parts.size(), OkStatus());
  ParallelFor(given.threads, std::ssize(parts), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    if (alike[at] == at) {
      ReplayOptions faster = options;
      faster.speedup = speedups[at];
      const Result<ReplayResult> result = Replay(graph, faster);
      failures[at] = result.status();
      iterations[at] = result.ok() ? result->steady_iteration_ns() : 0;
    }
  });
  for (size_t i = 0; i < parts.size(); ++i) {
    PRISM_RETURN_IF_ERROR(failures[i]);
    const DurationNs saved = matters.iteration_ns - iterations[alike[i]];
    const double ideal = (1 - kFasterFactor) * static_cast<double>(parts[i].busy_ns);
    matters.parts.push_back(
        {parts[i], iterations[alike[i]], saved, static_cast<double>(saved) / ideal});
  }
  std::ranges::stable_sort(matters.parts, [](const FasterPart& a, const FasterPart& b) {
    return std::tie(b.saved_ns, a.part.name, a.part.kind) <
           std::tie(a.saved_ns, b.part.name, b.part.kind);
  });
  return matters;
}

}  // namespace prism::replayer
