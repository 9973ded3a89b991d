#include "slicer/stitch/stitch.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "graph/diff.h"
#include "graph/parallel_layout.h"
#include "slicer/stitch/rank_tables.h"
#include "slicer/stitch/table_merger.h"

namespace prism::slicer {
namespace {

// A counter of the shim that is no fault: a recorded rank has no peers, so what it receives is a
// value by policy (shim/nccl/value_policy.h). Listed with the assumptions, not the warnings.
constexpr const char* kVirtualReceive = "virtual_recv";

using graph::Fragment;
using graph::Graph;
using graph::ParallelLayout;
using graph::RankSource;

// A role with what its spot checks are compared against.
struct RecordedRole {
  std::string name;
  int32_t stage = 0;
  const Fragment* fragment = nullptr;
  SlotPatterns patterns;
  uint64_t structural_hash = 0;
};

bool SameMemory(const graph::MemoryProfile& a, const graph::MemoryProfile& b) {
  return a.peak_allocated == b.peak_allocated && a.peak_reserved == b.peak_reserved &&
         a.layout_hash == b.layout_hash;
}

bool SameRole(const RecordedRole& a, const RecordedRole& b) {
  return a.structural_hash == b.structural_hash && a.patterns == b.patterns &&
         SameMemory(a.fragment->memory, b.fragment->memory);
}

// Where a spot check departs from its role, both sides.
std::string DescribeDeparture(const RecordedRole& role, const RecordedRole& check) {
  const Fragment& a = *role.fragment;
  const Fragment& b = *check.fragment;
  std::string text =
      fmt::format("rank {} departs from {} (rank {})", b.rank.value(), role.name, a.rank.value());
  const graph::ProgramDifference ops = graph::CompareOps({&a.program, &a.strings, &a.signatures},
                                                         {&b.program, &b.strings, &b.signatures});
  if (!ops.equal()) {
    const auto side = [](const std::string& op) { return op.empty() ? "no further op" : op; };
    return fmt::format("{} at op {}: {}; the role: {}", text, ops.first, side(ops.right),
                       side(ops.left));
  }
  if (role.patterns != check.patterns) {
    return text + " in the members of a communicator or in a peer";
  }
  if (!SameMemory(a.memory, b.memory)) {
    return fmt::format(
        "{} in memory: peak allocated {} bytes, reserved {} bytes, block layout {:016x}; the role: "
        "{}, {}, {:016x}",
        text, b.memory.peak_allocated, b.memory.peak_reserved, b.memory.layout_hash,
        a.memory.peak_allocated, a.memory.peak_reserved, a.memory.layout_hash);
  }
  return text + " in its kernel signatures or names";
}

// Builds one graph; lives for one call of Stitch.
class Stitcher {
 public:
  explicit Stitcher(StitchInput input) : input_(std::move(input)), layout_(input_.job.parallel) {}

  Result<Graph> Run() {
    PRISM_RETURN_IF_ERROR(IndexFragments());
    role_of_ = input_.plan.role_of;
    PRISM_RETURN_IF_ERROR(TakeRepresentatives());
    PRISM_RETURN_IF_ERROR(CompareSpotChecks());
    PRISM_RETURN_IF_ERROR(FillGraph());
    return std::move(graph_);
  }

 private:
  Status IndexFragments() {
    const auto world = static_cast<uint32_t>(layout_.world_size());
    if (input_.plan.role_of.size() != world) {
      return RunFailed(fmt::format("the plan covers {} ranks, the job has {}",
                                   input_.plan.role_of.size(), world));
    }
    for (const Fragment& fragment : input_.fragments) {
      if (fragment.rank.value() >= world) {
        return RunFailed(fmt::format("a fragment of rank {} came in, but the job has {} ranks",
                                     fragment.rank.value(), world));
      }
      if (!fragments_.emplace(fragment.rank, &fragment).second) {
        return RunFailed(fmt::format("rank {} was recorded twice", fragment.rank.value()));
      }
    }
    return OkStatus();
  }

  Result<RecordedRole> Describe(const PlannedRole& planned, const Fragment& fragment) const {
    RecordedRole role;
    role.name = planned.name;
    role.stage = planned.stage;
    role.fragment = &fragment;
    PRISM_ASSIGN_OR_RETURN(role.patterns, PatternsOf(layout_, fragment));
    role.structural_hash = graph::StructuralHash(fragment);
    return role;
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
             (planned_of[role] != planned || !SameRole(roles_[role], check))) {
        ++role;
      }
      ++spot_checks_;
      if (role != planned) {
        AddWarning({"role_split", 1, DescribeDeparture(roles_[planned], check)});
      }
      if (role == roles_.size()) {
        check.name = fmt::format("{} rank {}", plan.name, rank.value());
        roles_.push_back(std::move(check));
        planned_of.push_back(planned);
      }
      role_of_[rank.value()] = role;
    }
    return OkStatus();
  }

  void AddWarning(const graph::Warning& warning) {
    const auto [found, inserted] = warnings_.try_emplace(warning.code, warning);
    if (!inserted) {
      found->second.count += warning.count;
    }
  }

  Status FillGraph() {
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
    PRISM_RETURN_IF_ERROR(FillRankTables(layout_, patterns, merger, graph_));
    merger.MoveInto(graph_);
    graph_.job = std::move(input_.job);
    TakeProgramFacts();
    graph_.cluster = std::move(input_.cluster);
    for (const auto& [rank, fragment] : fragments_) {
      for (const graph::Warning& warning : fragment->warnings) {
        AddWarning(warning);
      }
    }
    const auto virtual_receives = warnings_.extract(kVirtualReceive);
    for (const auto& [code, warning] : warnings_) {
      graph_.warnings.push_back(warning);
    }
    graph_.assumptions.push_back(
        fmt::format("{} of {} ranks were recorded, {} of them as spot checks; every other rank is "
                    "taken to do what the recorded rank of its role did",
                    fragments_.size(), layout_.world_size(), spot_checks_));
    if (virtual_receives) {
      graph_.assumptions.push_back(
          fmt::format("{} receives from virtual ranks gave zeros while recording (first on {})",
                      virtual_receives.mapped().count, virtual_receives.mapped().example));
    }
    return OkStatus();
  }

  // A rank that has run one iteration more than it needs to settle is as steady as before.
  void TakeProgramFacts() {
    if (!graph_.job.user_program) {
      return;
    }
    graph::ProgramFacts& facts = graph_.job.facts;
    for (const auto& [rank, fragment] : fragments_) {
      facts.warmup_iterations = std::max(facts.warmup_iterations, fragment->warmup_iterations);
      facts.iteration_begin = fragment->iteration_begin;
    }
  }

  void FillSources() {
    graph_.ranks.source.assign(role_of_.size(), RankSource::kRole);
    for (const auto& [rank, fragment] : fragments_) {
      graph_.ranks.source[rank.value()] = RankSource::kRecorded;
    }
    graph_.sandbox_ranks = input_.sandbox_ranks;
    std::sort(graph_.sandbox_ranks.begin(), graph_.sandbox_ranks.end());
    for (const Rank rank : graph_.sandbox_ranks) {
      PRISM_CHECK_LT(rank.value(), graph_.ranks.source.size());
      graph_.ranks.source[rank.value()] = RankSource::kSandbox;
    }
  }

  StitchInput input_;
  ParallelLayout layout_;
  std::map<Rank, const Fragment*> fragments_;  // by rank, so that their order does not matter
  std::vector<RecordedRole> roles_;            // planned ones, then split ones
  std::vector<uint32_t> role_of_;              // by rank
  std::map<std::string, graph::Warning> warnings_;
  int64_t spot_checks_ = 0;
  Graph graph_;
};

}  // namespace

Result<Graph> Stitch(StitchInput input) {
  return Stitcher(std::move(input)).Run();
}

}  // namespace prism::slicer
