#include "slicer/stitch/stitch.h"

#include <algorithm>
#include <iterator>
#include <map>

#include <fmt/format.h>

#include "graph/job/expert_capacity.h"
#include "graph/job/rank_grid.h"
#include "graph/warning_codes.h"
#include "slicer/stitch/early_mismatch.h"
#include "slicer/stitch/odd_groups.h"
#include "slicer/stitch/rank_tables.h"
#include "slicer/stitch/recorded_role.h"
#include "slicer/stitch/table_merger.h"

namespace prism::slicer {
namespace {

// Counters of the shim that are not faults: a recorded rank has no peers, so the data it receives
// is a policy value (shim/nccl/absent_members.h). Listed with the assumptions, not the warnings.
struct PolicyCounter {
  const char* code;
  const char* text;
};

constexpr PolicyCounter kPolicyCounters[] = {
    {"values_replayed", "values of absent ranks were those that the ranks gave when recorded"},
    {"values_of_peer_role",
     "values of absent ranks were those of a recorded rank at the same place of another group"},
    {"absent_root_large",
     "broadcasts of more than 256 KiB (such as weights) by absent roots left buffers unchanged"},
    {"virtual_recv_mirrored",
     "receives from virtual ranks gave what the rank itself had sent in as many bytes"},
    {"virtual_recv",
     "receives from virtual ranks gave seeded normals, zeros where long or of integers, while "
     "recording"},
    {"routing_by_rule", "selections (topk, argmax, max) of unknown values were made by rule"},
    {"distinct_by_rule", "unknown values that were searched for unique ones are all distinct"},
    {"cpu_collectives",
     "calls of CPU groups (gloo) took recorded ranks the time of their messages over the hosts' "
     "network (net.host_message_ns, 30 us unless stated, and net.host_bytes_per_s, 2.5 GB/s or a "
     "NIC's), as gloo's rings and trees send them; no rank waits there for a late one"},
    {"file_bytes_written",
     "bytes that recorded ranks wrote to files after their first op took no time; [storage] of a "
     "cluster file says what they take"},
    {"order_of_weights_fixed",
     "passes of a zero-bubble schedule computed the gradients of weights in the order of the "
     "stage's "
     "parameters, where torch takes any order"},
};

// The built-in workload reads its loss and gradient norm only to print them, and no op depends on
// their values as long as they are finite. That is known only of the built-in workload, so only
// there it is not a fault.
constexpr PolicyCounter kWorkloadReads = {
    "unwritten_device_bytes_read",
    "times the workload read what a kernel would have computed (the loss or the gradient norm) and "
    "got zeros; neither steers it"};

using graph::Fragment;
using graph::Graph;
using graph::RankGrid;
using graph::RankSource;

// Builds one graph; lives for one call of Stitch.
class Stitcher {
 public:
  explicit Stitcher(StitchInput input)
      : input_(std::move(input)), grid_(RankGrid::Of(input_.job)) {}

  Result<Graph> Run() {
    PRISM_RETURN_IF_ERROR(IndexFragments());
    role_of_ = input_.plan.role_of;
    PRISM_RETURN_IF_ERROR(ReplaceOutvoted());
    PRISM_RETURN_IF_ERROR(TakeRepresentatives());
    PRISM_RETURN_IF_ERROR(CompareSpotChecks());
    PRISM_RETURN_IF_ERROR(FillGraph());
    return std::move(graph_);
  }

 private:
  Status IndexFragments() {
    const uint32_t world = grid_.world_size();
    if (input_.plan.role_of.size() != world) {
      return RunFailed(fmt::format("the plan covers {} ranks, the job has {}",
                                   input_.plan.role_of.size(), world));
    }
    for (const Fragment& fragment : input_.fragments) {
      if (fragment.rank.value() >= world) {
        return RunFailed(fmt::format("rank {} was recorded, but the job has {} ranks",
                                     fragment.rank.value(), world));
      }
      if (!fragments_.emplace(fragment.rank, &fragment).second) {
        return RunFailed(fmt::format("rank {} was recorded twice", fragment.rank.value()));
      }
    }
    return OkStatus();
  }

  Result<RecordedRole> Describe(const PlannedRole& planned, const Fragment& fragment) const {
    PRISM_ASSIGN_OR_RETURN(RecordedRole role, DescribeRecorded(grid_, fragment));
    role.name = planned.name;
    role.stage = planned.stage;
    return role;
  }

  // Ranks that were not recorded do what most recorded ranks of their role agree on: what only rank
  // 0 computes or holds (an averaged model, an evaluation) is not theirs.
  Status ReplaceOutvoted() {
    if (input_.plan.approximated_axes.empty()) {
      return OkStatus();
    }
    for (uint32_t planned = 0; planned < input_.plan.roles.size(); ++planned) {
      PRISM_RETURN_IF_ERROR(ReplaceIfOutvoted(planned));
    }
    return OkStatus();
  }

  // The recorded ranks of a planned role, grouped by what they do, each group by lowest rank.
  Result<std::vector<std::vector<RecordedRole>>> KindsOf(uint32_t planned) const {
    std::vector<std::vector<RecordedRole>> kinds;
    for (const auto& [rank, fragment] : fragments_) {
      if (input_.plan.role_of[rank.value()] != planned) {
        continue;
      }
      PRISM_ASSIGN_OR_RETURN(RecordedRole recorded,
                             Describe(input_.plan.roles[planned], *fragment));
      const auto kind = std::ranges::find_if(kinds, [&](const auto& others) {
        return Compare(others.front(), recorded) == Likeness::kSame;
      });
      if (kind == kinds.end()) {
        kinds.emplace_back();
        kinds.back().push_back(std::move(recorded));
      } else {
        kind->push_back(std::move(recorded));
      }
    }
    return kinds;
  }

  static size_t CountOf(const std::vector<std::vector<RecordedRole>>& kinds) {
    size_t count = 0;
    for (const auto& kind : kinds) {
      count += kind.size();
    }
    return count;
  }

  Status ReplaceIfOutvoted(uint32_t planned) {
    PlannedRole& plan = input_.plan.roles[planned];
    PRISM_ASSIGN_OR_RETURN(const auto kinds, KindsOf(planned));
    const auto own = std::ranges::find_if(kinds, [&](const auto& kind) {
      return std::ranges::any_of(kind, [&](const RecordedRole& recorded) {
        return recorded.fragment->rank == plan.representative;
      });
    });
    const auto most = std::ranges::max_element(
        kinds, [](const auto& a, const auto& b) { return a.size() < b.size(); });
    if (own == kinds.end() || most->size() <= own->size() ||
        Compare(own->front(), most->front()) == Likeness::kDifferent) {
      return OkStatus();
    }
    outvoted_.push_back(fmt::format("{} is what {} of {} recorded ranks do, not what rank {} does",
                                    plan.name, most->size(), CountOf(kinds),
                                    plan.representative.value()));
    plan.representative = most->front().fragment->rank;
    // All but one agree: no sharding does that.
    if (own->size() == 1 && kinds.size() == 2) {
      AddWarning({"role_split", 1, DescribeDeparture(most->front(), own->front())});
    }
    return OkStatus();
  }

  Status TakeRepresentatives() {
    for (const PlannedRole& planned : input_.plan.roles) {
      const auto found = fragments_.find(planned.representative);
      if (found == fragments_.end()) {
        return RunFailed(fmt::format("{}: its representative, rank {}, was not recorded",
                                     planned.name, planned.representative.value()));
      }
      PRISM_ASSIGN_OR_RETURN(RecordedRole role, Describe(planned, *found->second));
      roles_.push_back(std::move(role));
    }
    return OkStatus();
  }

  // Fragments beyond the representatives, by rank. One that differs founds a role, which later
  // ones of the same planned role that do the same join.
  Status CompareSpotChecks() {
    const size_t planned_count = roles_.size();
    std::vector<uint32_t> planned_of(planned_count);  // by role: the planned role it comes from
    for (uint32_t role = 0; role < planned_count; ++role) {
      planned_of[role] = role;
    }
    for (const auto& [rank, fragment] : fragments_) {
      const uint32_t planned = input_.plan.role_of[rank.value()];
      const PlannedRole& plan = input_.plan.roles[planned];
      if (plan.representative == rank) {
        continue;
      }
      PRISM_ASSIGN_OR_RETURN(RecordedRole check, Describe(plan, *fragment));
      uint32_t role = 0;
      while (role < roles_.size() &&
             (planned_of[role] != planned || Compare(roles_[role], check) != Likeness::kSame)) {
        ++role;
      }
      ++spot_checks_;
      if (role != planned && !IsMarked(rank, planned)) {
        AddWarning({"role_split", 1, DescribeDeparture(roles_[planned], check)});
      }
      if (role == roles_.size()) {
        // A role of all ranks needs no naming.
        check.name = (input_.plan.roles.size() == 1 ? "" : plan.name + " ") +
                     fmt::format("rank {}", rank.value());
        roles_.push_back(std::move(check));
        planned_of.push_back(planned);
      }
      role_of_[rank.value()] = role;
    }
    return OkStatus();
  }

  // Whether the rank is known to be only similar to the representative of its role.
  [[nodiscard]] bool IsMarked(Rank rank, uint32_t planned) const {
    const Rank representative = input_.plan.roles[planned].representative;
    return std::ranges::any_of(input_.plan.approximated_axes, [&](size_t axis) {
      return grid_.Coordinate(rank, axis) != grid_.Coordinate(representative, axis);
    });
  }

  void AddWarning(const graph::Warning& warning) {
    const bool of_file = warning.code == graph::kStandIn;
    const auto [found, inserted] =
        warnings_.try_emplace(warning.code + (of_file ? warning.example : ""), warning);
    if (!inserted) {
      found->second.count += warning.count;
    }
  }

  Status FillGraph() {
    PRISM_RETURN_IF_ERROR(FillRoles());
    graph_.job = std::move(input_.job);
    TakeProgramFacts();
    graph_.cluster = std::move(input_.cluster);
    CollectWarnings();
    const std::vector<std::string> by_policy = TakePolicies();
    for (const auto& [code, warning] : warnings_) {
      graph_.warnings.push_back(warning);
    }
    graph_.assumptions = std::move(input_.assumptions);
    graph_.assumptions.push_back(
        fmt::format("{} of {} ranks were recorded, {} of them as spot checks; every other rank is "
                    "taken to do what the recorded rank of its role did",
                    fragments_.size(), grid_.world_size(), spot_checks_));
    graph_.assumptions.insert(graph_.assumptions.end(), outvoted_.begin(), outvoted_.end());
    TellOfMarked();
    TellOfExperts();
    graph_.assumptions.insert(graph_.assumptions.end(), by_policy.begin(), by_policy.end());
    return OkStatus();
  }

  // Fills roles and the ranks' references to them.
  Status FillRoles() {
    TableMerger merger;
    std::vector<SlotPatterns> patterns;
    for (const RecordedRole& recorded : roles_) {
      const Fragment& fragment = *recorded.fragment;
      graph::Role role;
      role.name = recorded.name;
      role.stage = recorded.stage;
      role.representative = fragment.rank;
      PRISM_ASSIGN_OR_RETURN(role.program, merger.Merge(fragment));
      role.memory = fragment.memory;
      graph_.roles.push_back(std::move(role));
      patterns.push_back(recorded.patterns);
    }
    graph_.ranks.role = role_of_;
    FillSources();
    PRISM_RETURN_IF_ERROR(FillRankTables(grid_, patterns, merger, graph_));
    merger.MoveInto(graph_);
    return OkStatus();
  }

  // Warnings of the recorded ranks one by one, and of what they do together.
  void CollectWarnings() {
    for (const auto& [rank, fragment] : fragments_) {
      for (const graph::Warning& warning : fragment->warnings) {
        AddWarning(warning);
      }
    }
    if (const auto early = FindEarlyMismatch(fragments_)) {
      AddWarning(*early);
    }
    std::vector<int64_t> ranks_of_role(roles_.size());
    for (const uint32_t role : role_of_) {
      ++ranks_of_role[role];
    }
    for (const graph::Warning& warning : FindOddGroups(roles_, ranks_of_role)) {
      AddWarning(warning);
    }
  }

  // Turns the warnings that are only policy into assumptions.
  std::vector<std::string> TakePolicies() {
    std::vector<std::string> by_policy;
    std::vector<PolicyCounter> policies(std::begin(kPolicyCounters), std::end(kPolicyCounters));
    if (!graph_.job.user_program) {
      policies.push_back(kWorkloadReads);
    }
    for (const PolicyCounter& counter : policies) {
      if (const auto counted = warnings_.extract(counter.code)) {
        by_policy.push_back(fmt::format("{} {} (first on {})", counted.mapped().count, counter.text,
                                        counted.mapped().example));
      }
    }
    std::erase_if(warnings_, [&](const auto& entry) {
      const graph::Warning& warning = entry.second;
      if (warning.code == graph::kStandIn) {
        by_policy.push_back(fmt::format("--stand-in, {}", warning.example));
      }
      return warning.code == graph::kStandIn;
    });
    return by_policy;
  }

  // Reports ranks that are only similar to their role: how many, and how far recorded ones were
  // from theirs.
  void TellOfMarked() {
    const auto like = std::ranges::count(graph_.ranks.source, RankSource::kApproximated);
    if (like == 0) {
      return;
    }
    int64_t above = 0;
    int64_t below = 0;
    for (const auto& [rank, fragment] : fragments_) {
      const uint32_t planned = input_.plan.role_of[rank.value()];
      const int64_t difference =
          fragment->memory.peak_allocated - roles_[planned].fragment->memory.peak_allocated;
      above = std::max(above, difference);
      below = std::min(below, difference);
    }
    std::string axes;
    for (const size_t axis : input_.plan.approximated_axes) {
      axes += fmt::format("{}{}", axes.empty() ? "" : ", ", grid_.axes()[axis].name);
    }
    graph_.assumptions.push_back(
        fmt::format("{} ranks that were not recorded compute or allocate differently from their "
                    "role along {} (source like); recorded ones had peaks from {} bytes above to "
                    "{} bytes below that of their role",
                    like, axes, above, -below));
  }

  // The built-in workload's (launch/trainer/expert_routing.h).
  void TellOfExperts() {
    const graph::JobSpec& job = graph_.job;
    if (job.user_program || job.model.moe.experts == 0) {
      return;
    }
    const int64_t parts = job.sequence_parallel ? job.parallel.tp : 1;
    const int64_t tokens = job.micro_batch_size * job.seq_len / parts;
    graph_.assumptions.push_back(
        fmt::format("every expert takes {} rows of the {} tokens that a rank routes per "
                    "micro-batch: capacity factor 1, more tokens dropped, missing rows padded",
                    graph::ExpertCapacity(job.model.moe, tokens), tokens));
  }

  // A rank that ran one iteration more than it needed to become steady is just as steady.
  void TakeProgramFacts() {
    if (!graph_.job.user_program) {
      return;
    }
    graph::ProgramFacts& facts = graph_.job.facts;
    for (const auto& [rank, fragment] : fragments_) {
      facts.warmup_iterations = std::max(facts.warmup_iterations, fragment->warmup_iterations);
      facts.iteration_begin = fragment->iteration_begin;
      facts.steps_per_iteration = fragment->steps_per_iteration;
    }
  }

  void FillSources() {
    graph_.ranks.source.assign(role_of_.size(), RankSource::kRole);
    for (uint32_t rank = 0; rank < role_of_.size(); ++rank) {
      if (IsMarked(Rank(rank), input_.plan.role_of[rank])) {
        graph_.ranks.source[rank] = RankSource::kApproximated;
      }
    }
    for (const auto& [rank, fragment] : fragments_) {
      graph_.ranks.source[rank.value()] = RankSource::kRecorded;
    }
    graph_.sandbox_ranks = input_.sandbox_ranks;
    std::ranges::sort(graph_.sandbox_ranks);
    for (const Rank rank : graph_.sandbox_ranks) {
      PRISM_CHECK_LT(rank.value(), graph_.ranks.source.size());
      graph_.ranks.source[rank.value()] = RankSource::kSandbox;
    }
  }

  StitchInput input_;
  RankGrid grid_;
  std::map<Rank, const Fragment*> fragments_;  // by rank, so that their order does not matter
  std::vector<RecordedRole> roles_;            // planned ones, then split ones
  std::vector<uint32_t> role_of_;              // by rank
  std::map<std::string, graph::Warning> warnings_;
  std::vector<std::string> outvoted_;  // lines for roles whose first rank is unlike most
  int64_t spot_checks_ = 0;
  Graph graph_;
};

}  // namespace

Result<Graph> Stitch(StitchInput input) {
  return Stitcher(std::move(input)).Run();
}

}  // namespace prism::slicer
