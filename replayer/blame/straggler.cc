#include "replayer/blame/straggler.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <span>
#include <sstream>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/engine/role_plan.h"

namespace prism::replayer {
namespace {

// Takes the lower of two in the middle: of two ranks, the slow one counts as slow.
DurationNs Median(std::vector<DurationNs> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// By rank: the time that may be too long, and the time that it is part of.
struct Symptom {
  std::vector<DurationNs> values;
  std::vector<DurationNs> whole;
  double least_excess = 0;  // of the whole
};

// Ranks that do the same.
using Peers = std::vector<uint32_t>;

// What a measured role communicates, in order; empty: some kernel of it is costed by a model.
std::string Communication(const graph::Program& program) {
  std::string text;
  bool kernels = false;
  for (uint32_t op = 0; op < program.size(); ++op) {
    const graph::OpKind kind = program.kind[op];
    if (kind == graph::OpKind::kKernel) {
      kernels = true;
      if ((program.flags[op] & graph::kDurationFixed) == 0) {
        return "";
      }
    } else if (kind == graph::OpKind::kCollective) {
      const graph::CollectiveShape& shape = program.collectives[program.signature[op]];
      text += fmt::format("{} {} {};", program.comm_slot[op], static_cast<int>(shape.kind),
                          shape.bytes);
    } else if (kind == graph::OpKind::kPeerGroup) {
      for (const graph::PeerTransfer& transfer :
           program.peer_groups[program.signature[op]].transfers) {
        text += fmt::format("{} {};", transfer.is_send ? 's' : 'r', transfer.bytes);
      }
    }
  }
  return kernels ? text : "";
}

// By role: the first one that does the same work. Measured roles are the same if all communicate
// the same; stages of a pipeline do not.
std::vector<uint32_t> SameWork(const graph::Graph& graph) {
  std::vector<uint32_t> same(graph.roles.size());
  std::iota(same.begin(), same.end(), 0U);
  const std::string first = graph.roles.empty() ? "" : Communication(graph.roles.front().program);
  const bool all_same = !first.empty() && std::ranges::all_of(graph.roles, [&](const auto& role) {
    return Communication(role.program) == first;
  });
  if (all_same) {
    std::ranges::fill(same, 0U);
  }
  return same;
}

// What counts as compute in each role, according to the graph.
std::vector<DurationNs> ComputeTimes(const graph::Graph& graph) {
  const ComputeCost cost(graph.cluster);
  const OpCosts costs = OpCostsOf(graph, graph.cluster, &cost);
  std::vector<DurationNs> times;
  for (const graph::Role& role : graph.roles) {
    const RolePlan plan = MakeRolePlan(role.program, costs, 1);
    DurationNs& sum = times.emplace_back(0);
    for (const std::vector<Step>& steps : plan.streams) {
      for (const Step& step : steps) {
        sum += step.compute ? step.duration : 0;
      }
    }
  }
  return times;
}

// Ranks whose value is clearly above the median of their peers.
std::vector<Suspect> Outliers(const std::vector<Peers>& peers, const Symptom& symptom) {
  constexpr double kNormalDeviation = 1.4826;  // standard deviation of a normal distribution / its
                                               // median deviation
  std::vector<Suspect> suspects;
  for (const Peers& ranks : peers) {
    std::vector<DurationNs> of_role;
    std::vector<DurationNs> wholes;
    for (uint32_t rank : ranks) {
      of_role.push_back(symptom.values[rank]);
      wholes.push_back(symptom.whole[rank]);
    }
    const DurationNs median = Median(of_role);
    const auto whole = static_cast<double>(std::max<DurationNs>(Median(wholes), 1));
    for (DurationNs& value : of_role) {
      value = std::abs(value - median);
    }
    const double least =
        std::max(symptom.least_excess * whole,
                 kDeviations * kNormalDeviation * static_cast<double>(Median(of_role)));
    for (uint32_t rank : ranks) {
      const auto excess = static_cast<double>(symptom.values[rank] - median);
      if (excess > least) {
        suspects.push_back({Rank(rank), 1 + excess / whole, {}});
      }
    }
  }
  std::ranges::stable_sort(suspects, std::ranges::greater{}, &Suspect::factor);
  return suspects;
}

class Examiner {
 public:
  Examiner(const graph::Graph& graph,
           const std::vector<RankTimes>& ranks,
           const std::vector<DurationNs>& waits_ns)
      : graph_(graph),
        ranks_(ranks),
        waits_ns_(waits_ns),
        same_work_(SameWork(graph)),
        of_member_(graph.communicators.members.size(), 0) {
    const graph::CommunicatorTable& comms = graph.communicators;
    for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
      for (uint32_t slot = graph.ranks.comm_begin[rank]; slot < graph.ranks.comm_begin[rank + 1];
           ++slot) {
        const uint32_t comm = graph.ranks.comm_ids[slot];
        const auto members = comms.members_of(CommId(comm));
        const auto at = std::ranges::lower_bound(members, rank) - members.begin();
        of_member_[comms.begin[comm] + static_cast<uint32_t>(at)] = waits_ns[slot];
      }
    }
  }

  Symptoms Run() {
    Symptoms symptoms;
    Symptom compute;
    Symptom own;
    for (uint32_t rank = 0; rank < graph_.ranks.size(); ++rank) {
      compute.values.push_back(ranks_[rank].compute_ns);
      own.whole.push_back(ranks_[rank].iteration_ns);
      own.values.push_back(ranks_[rank].iteration_ns);
      for (DurationNs wait : WaitsOf(rank)) {
        own.values.back() -= wait;
      }
    }
    compute.whole = compute.values;
    compute.least_excess = kLeastCompute;
    own.least_excess = kLeastOwn;
    std::vector<Peers> by_role(graph_.roles.size());
    for (uint32_t rank = 0; rank < graph_.ranks.size(); ++rank) {
      by_role[WorkOf(rank)].push_back(rank);
    }
    symptoms.suspects = Outliers(by_role, compute);
    for (Suspect& suspect : SuspectsAlone(by_role)) {
      symptoms.suspects.push_back(std::move(suspect));
    }
    const bool computes = !symptoms.suspects.empty();
    if (!computes) {
      symptoms.suspects = SuspectsLate();
    }
    if (symptoms.suspects.empty()) {
      symptoms.suspects = Outliers(by_role, own);
    }
    for (Suspect& suspect : symptoms.suspects) {
      if (suspect.evidence.empty()) {
        AddComparison(computes ? compute : own, computes, &suspect);
      }
      AddWaits(&suspect);
    }
    std::ranges::stable_sort(symptoms.suspects, std::ranges::greater{}, &Suspect::factor);
    AddWaiting(&symptoms);
    return symptoms;
  }

 private:
  // Of the ranks that are the only ones of their roles: those that compute clearly longer than the
  // others, relative to what their work should take.
  [[nodiscard]] std::vector<Suspect> SuspectsAlone(const std::vector<Peers>& by_role) const {
    const std::vector<DurationNs> expected_ns = ComputeTimes(graph_);
    Peers alone;
    Symptom symptom;
    symptom.least_excess = kLeastAlone;
    symptom.values.resize(graph_.ranks.size());
    for (const Peers& ranks : by_role) {
      const double expected =
          ranks.size() == 1 ? static_cast<double>(expected_ns[graph_.ranks.role[ranks.front()]])
                            : 0;
      if (expected > 0) {
        alone.push_back(ranks.front());
        symptom.values[ranks.front()] = std::llround(
            kRatioUnit * static_cast<double>(ranks_[ranks.front()].compute_ns) / expected);
      }
    }
    if (alone.size() < kFewestAlone) {
      return {};
    }
    symptom.whole = symptom.values;
    std::vector<Suspect> suspects = Outliers({alone}, symptom);
    for (Suspect& suspect : suspects) {
      std::vector<DurationNs> others;
      for (uint32_t rank : alone) {
        if (rank != suspect.rank.value()) {
          others.push_back(symptom.values[rank]);
        }
      }
      suspect.evidence.push_back(fmt::format(
          "computes {:.3f} times as long as its work takes by the graph, the {} alone in their "
          "roles {:.3f} times",
          static_cast<double>(symptom.values[suspect.rank.value()]) / kRatioUnit,
          FormatCounted(static_cast<int64_t>(others.size()), "other rank"),
          static_cast<double>(Median(others)) / kRatioUnit));
    }
    return suspects;
  }

  [[nodiscard]] uint32_t WorkOf(uint32_t rank) const { return same_work_[graph_.ranks.role[rank]]; }

  // As the import says; the factor is that of the rank's iteration.
  [[nodiscard]] std::vector<Suspect> SuspectsLate() const {
    std::vector<Suspect> suspects;
    for (const graph::Warning& warning : graph_.warnings) {
      std::istringstream parts(warning.code == kLateRanks ? warning.example : "");
      for (std::string part; std::getline(parts >> std::ws, part, ',');) {
        uint32_t rank = 0;
        double late_ms = 0;
        if (std::sscanf(part.c_str(), "rank %u: %lf ms", &rank, &late_ms) == 2 &&
            rank < graph_.ranks.size()) {
          const auto iteration = static_cast<double>(ranks_[rank].iteration_ns);
          suspects.push_back(
              {Rank(rank),
               1 + late_ms * static_cast<double>(kNsPerMs) / std::max(iteration, 1.0),
               {fmt::format("in the profiles it enters collectives last: it waits there {:g} ms "
                            "less than the median rank",
                            late_ms)}});
        }
      }
    }
    return suspects;
  }

  static constexpr double kRatioUnit = 1e9;  // ratios are compared as whole numbers

  [[nodiscard]] std::span<const DurationNs> WaitsOf(uint32_t rank) const {
    const uint32_t begin = graph_.ranks.comm_begin[rank];
    return {waits_ns_.data() + begin, graph_.ranks.comm_begin[rank + 1] - begin};
  }

  [[nodiscard]] std::span<const DurationNs> WaitsIn(uint32_t comm) const {
    const uint32_t begin = graph_.communicators.begin[comm];
    return {of_member_.data() + begin, graph_.communicators.begin[comm + 1] - begin};
  }

  [[nodiscard]] const std::string& NameOf(uint32_t comm) const {
    return graph_.string(StringId(graph_.communicators.name[comm]));
  }

  void AddComparison(const Symptom& symptom, bool computes, Suspect* suspect) const {
    const uint32_t rank = suspect->rank.value();
    std::vector<DurationNs> others;
    for (uint32_t other = 0; other < graph_.ranks.size(); ++other) {
      if (other != rank && WorkOf(other) == WorkOf(rank)) {
        others.push_back(symptom.values[other]);
      }
    }
    const std::string peers = FormatCounted(static_cast<int64_t>(others.size()), "other rank");
    const DurationNs usual = Median(others);
    suspect->evidence.push_back(
        computes ? fmt::format("computes {} an iteration, the {} that do the same work {}",
                               FormatDuration(symptom.values[rank]), peers, FormatDuration(usual))
                 : fmt::format("waits {} an iteration less than the {} that do the same work, and "
                               "computes no longer",
                               FormatDuration(symptom.values[rank] - usual), peers));
  }

  void AddWaits(Suspect* suspect) const {
    const uint32_t rank = suspect->rank.value();
    const auto held = graph_.ranks.comms(suspect->rank);
    for (uint32_t slot = 0; slot < held.size(); ++slot) {
      const DurationNs own = WaitsOf(rank)[slot];
      std::vector<DurationNs> others_wait(WaitsIn(held[slot]).begin(), WaitsIn(held[slot]).end());
      others_wait.erase(std::ranges::find(others_wait, own));
      const DurationNs median = Median(others_wait);
      if (static_cast<double>(median - own) >
          kLeastCompute * static_cast<double>(ranks_[rank].iteration_ns)) {
        suspect->evidence.push_back(
            fmt::format("waits {} in {}, the {} there {} in the median", FormatDuration(own),
                        NameOf(held[slot]),
                        FormatCounted(static_cast<int64_t>(others_wait.size()), "other rank"),
                        FormatDuration(median)));
      }
    }
  }

  void AddWaiting(Symptoms* symptoms) const {
    for (uint32_t comm = 0; comm < graph_.communicators.size(); ++comm) {
      const auto waits = WaitsIn(comm);
      const auto members = graph_.communicators.members_of(CommId(comm));
      const auto least = std::ranges::min_element(waits);
      Waiting waiting;
      waiting.communicator = CommId(comm);
      waiting.awaited = Rank(members[static_cast<size_t>(least - waits.begin())]);
      for (DurationNs wait : waits) {
        waiting.ranks += wait > *least ? 1 : 0;
        waiting.longest_ns = std::max(waiting.longest_ns, wait - *least);
        waiting.total_ns += wait - *least;
      }
      if (waiting.ranks > 0) {
        symptoms->waiting.push_back(waiting);
      }
    }
    std::ranges::stable_sort(symptoms->waiting, std::ranges::greater{}, &Waiting::total_ns);
  }

  const graph::Graph& graph_;
  const std::vector<RankTimes>& ranks_;
  const std::vector<DurationNs>& waits_ns_;
  std::vector<uint32_t> same_work_;    // by role
  std::vector<DurationNs> of_member_;  // waits by communicator and member
};

}  // namespace

Symptoms FindStraggler(const graph::Graph& graph,
                       const std::vector<RankTimes>& ranks,
                       const std::vector<DurationNs>& waits_ns) {
  return Examiner(graph, ranks, waits_ns).Run();
}

}  // namespace prism::replayer
