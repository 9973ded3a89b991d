#include "graph/diff/diff.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "graph/describe.h"
#include "graph/diff/field_differences.h"
#include "graph/diff/program_diff.h"
#include "graph/job/fields.h"
#include "graph/job/names.h"

namespace prism::graph {
namespace {

#define PRISM_COMPARE(member, name) field(#name, left.member, right.member);

ModelSpec WithHeadDim(ModelSpec model) {
  model.head_dim = model.HeadDim();
  return model;
}

void CompareModels(const ModelSpec& left, const ModelSpec& right, FieldDifferences field) {
  field("model", left.name, right.name);
  field.Named("block", kBlockKindNames, left.block, right.block);
  PRISM_MODEL_FIELDS(PRISM_COMPARE)
}

std::string AxesText(const std::vector<GridAxis>& axes) {
  std::string text;
  for (const GridAxis& axis : axes) {
    text += fmt::format("{}{} {}", text.empty() ? "" : " x ", axis.name, axis.size);
  }
  return text;
}

void CompareFacts(const ProgramFacts& left, const ProgramFacts& right, FieldDifferences field) {
  PRISM_FACT_FIELDS(PRISM_COMPARE)
  field("axes", AxesText(left.axes), AxesText(right.axes));
}

void CompareJobs(const JobSpec& left, const JobSpec& right, std::vector<Difference>& out) {
  FieldDifferences field(DifferenceKind::kJob, "job.", &out);
  field("name", left.name, right.name);
  field("user_program", left.user_program, right.user_program);
  CompareModels(WithHeadDim(left.model), WithHeadDim(right.model), field);
  PRISM_LAYOUT_FIELDS(PRISM_COMPARE)
  field.Named("recompute", kRecomputeNames, left.recompute, right.recompute);
  field("zero", left.zero_stage, right.zero_stage);
  field("dtype", std::string(DataTypeName(left.compute_dtype)),
        std::string(DataTypeName(right.compute_dtype)));
  field("seed", left.seed, right.seed);
  CompareFacts(left.facts, right.facts, field);
}

#undef PRISM_COMPARE

std::string DescribeDifference(const ProgramDifference& difference, bool left) {
  const std::string& op = left ? difference.left : difference.right;
  return op.empty() ? "no further op" : op;
}

void CompareMemory(const Role& left, const Role& right, std::vector<Difference>& out) {
  const auto field = [&](const char* name, int64_t a, int64_t b) {
    if (a != b) {
      out.push_back({DifferenceKind::kMemory, fmt::format("role {} {}", left.name, name),
                     fmt::format("{} bytes", a), fmt::format("{} bytes", b)});
    }
  };
  field("peak_allocated", left.memory.peak_allocated, right.memory.peak_allocated);
  field("peak_reserved", left.memory.peak_reserved, right.memory.peak_reserved);
  field("steady_allocated", left.memory.steady_allocated, right.memory.steady_allocated);
  field("outside", left.memory.outside_bytes(), right.memory.outside_bytes());
}

std::map<std::string, uint32_t> RolesByName(const Graph& graph) {
  std::map<std::string, uint32_t> roles;
  for (uint32_t role = 0; role < graph.roles.size(); ++role) {
    roles.emplace(graph.roles[role].name, role);
  }
  return roles;
}

std::vector<int64_t> RanksPerRole(const Graph& graph) {
  std::vector<int64_t> count(graph.roles.size(), 0);
  for (const uint32_t role : graph.ranks.role) {
    ++count[role];
  }
  return count;
}

void CompareRole(const Graph& left,
                 const Graph& right,
                 const Role& a,
                 const Role& b,
                 std::vector<Difference>& out) {
  const ProgramDifference ops = CompareOps({&a.program, &left.strings, &left.signatures},
                                           {&b.program, &right.strings, &right.signatures});
  if (!ops.equal()) {
    out.push_back({DifferenceKind::kProgram,
                   fmt::format("role {}: {} ops changed, {} added, {} removed, first at op {}",
                               a.name, ops.changed, ops.added, ops.removed, ops.first),
                   DescribeDifference(ops, true), DescribeDifference(ops, false),
                   ops.added + ops.removed + ops.changed});
  }
  CompareMemory(a, b, out);
}

void CompareRoles(const Graph& left, const Graph& right, std::vector<Difference>& out) {
  const std::map<std::string, uint32_t> of_left = RolesByName(left);
  const std::map<std::string, uint32_t> of_right = RolesByName(right);
  const std::vector<int64_t> left_ranks = RanksPerRole(left);
  const std::vector<int64_t> right_ranks = RanksPerRole(right);
  for (const auto& [name, a] : of_left) {
    const auto found = of_right.find(name);
    const std::string where = fmt::format("role {}", name);
    if (found == of_right.end()) {
      out.push_back({DifferenceKind::kRole, where, fmt::format("{} ranks", left_ranks[a]), "",
                     left_ranks[a]});
      continue;
    }
    const uint32_t b = found->second;
    if (left_ranks[a] != right_ranks[b]) {
      out.push_back({DifferenceKind::kRole, where, fmt::format("{} ranks", left_ranks[a]),
                     fmt::format("{} ranks", right_ranks[b])});
    }
    CompareRole(left, right, left.roles[a], right.roles[b], out);
  }
  for (const auto& [name, b] : of_right) {
    if (!of_left.contains(name)) {
      out.push_back({DifferenceKind::kRole, fmt::format("role {}", name), "",
                     fmt::format("{} ranks", right_ranks[b]), right_ranks[b]});
    }
  }
}

// "name {members}" → how many there are.
std::map<std::string, int64_t> CommunicatorsByContent(const Graph& graph) {
  std::map<std::string, int64_t> contents;
  const CommunicatorTable& table = graph.communicators;
  for (uint32_t comm = 0; comm < table.size(); ++comm) {
    std::string key = graph.strings[table.name[comm]] + " {";
    for (const uint32_t member : table.members_of(CommId(comm))) {
      key += fmt::format("{} ", member);
    }
    key.back() = '}';
    ++contents[key];
  }
  return contents;
}

std::map<std::string, int64_t> SignaturesByContent(const Graph& graph) {
  std::map<std::string, int64_t> contents;
  for (const KernelSignature& signature : graph.signatures) {
    ++contents[SignatureKey(signature, graph.strings)];
  }
  return contents;
}

// One difference for all entries that only one side has.
void CompareContents(DifferenceKind kind,
                     const char* what,
                     const std::map<std::string, int64_t>& left,
                     const std::map<std::string, int64_t>& right,
                     std::vector<Difference>& out) {
  const auto missing = [](const auto& from, const auto& in) {
    std::pair<int64_t, std::string> result;
    for (const auto& [content, count] : from) {
      const auto found = in.find(content);
      const int64_t others = found == in.end() ? 0 : found->second;
      if (count > others) {
        result.first += count - others;
        result.second = result.second.empty() ? content : result.second;
      }
    }
    return result;
  };
  const auto [only_left, left_example] = missing(left, right);
  const auto [only_right, right_example] = missing(right, left);
  if (only_left + only_right > 0) {
    out.push_back({kind, fmt::format("{} only on one side", what),
                   only_left == 0 ? "" : fmt::format("{}, such as {}", only_left, left_example),
                   only_right == 0 ? "" : fmt::format("{}, such as {}", only_right, right_example),
                   only_left + only_right});
  }
}

// What the slots of a rank refer to, without ids.
std::string RankContent(const Graph& graph, Rank rank) {
  std::string text = graph.role_of(rank).name;
  for (const uint32_t comm : graph.ranks.comms(rank)) {
    const auto members = graph.communicators.members_of(CommId(comm));
    text += fmt::format(", {} {}..{} ({})", graph.strings[graph.communicators.name[comm]],
                        members.front(), members.back(), members.size());
  }
  for (const uint32_t peer : graph.ranks.peers(rank)) {
    text += fmt::format(", peer {}", peer);
  }
  return text;
}

void CompareRanks(const Graph& left, const Graph& right, std::vector<Difference>& out) {
  const uint32_t common = std::min(left.ranks.size(), right.ranks.size());
  Difference difference{DifferenceKind::kRankTable, "", "", "", 0};
  for (uint32_t rank = 0; rank < common; ++rank) {
    std::string a = RankContent(left, Rank(rank));
    std::string b = RankContent(right, Rank(rank));
    if (a != b && difference.count++ == 0) {
      difference.where = fmt::format("rank {}", rank);
      difference.left = std::move(a);
      difference.right = std::move(b);
    }
  }
  if (difference.count > 0) {
    out.push_back(std::move(difference));
  }
}

}  // namespace

const char* DifferenceKindName(DifferenceKind kind) {
  constexpr const char* kNames[] = {"job",          "cluster",   "role",   "program",
                                    "communicator", "signature", "memory", "ranks"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<Difference> DiffGraphs(const Graph& left, const Graph& right) {
  std::vector<Difference> differences;
  CompareJobs(left.job, right.job, differences);
  const std::vector<Difference> clusters = DiffClusters(left.cluster, right.cluster);
  differences.insert(differences.end(), clusters.begin(), clusters.end());
  CompareRoles(left, right, differences);
  CompareContents(DifferenceKind::kCommunicator, "communicators", CommunicatorsByContent(left),
                  CommunicatorsByContent(right), differences);
  CompareContents(DifferenceKind::kSignature, "kernel signatures", SignaturesByContent(left),
                  SignaturesByContent(right), differences);
  CompareRanks(left, right, differences);
  std::ranges::stable_sort(differences, [](const Difference& a, const Difference& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.count > b.count;
  });
  return differences;
}

}  // namespace prism::graph
