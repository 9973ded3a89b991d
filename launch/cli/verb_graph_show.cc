// prism graph show: what a graph holds, its roles, one rank, its first ops.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/json_writer.h"
#include "graph/base/units.h"
#include "graph/describe.h"
#include "graph/graph.h"
#include "graph/job/rank_grid.h"
#include "graph/validate/valid_graph.h"
#include "launch/cli/verb.h"

namespace prism::launch {
namespace {

// What a role communicates in an iteration, by communicator and kind.
struct TrafficRow {
  std::string communicator;
  int64_t size = 0;  // ranks
  std::string kind;  // "all_reduce", ..., "send", "recv"
  int64_t calls = 0;
  int64_t bytes = 0;  // of all calls, as graph::CollectiveShape::bytes counts them
};

// The traffic of the role's representative; ordered by communicator slot, then kind.
std::vector<TrafficRow> TrafficOf(const graph::Graph& graph, const graph::Role& role) {
  struct Sum {
    int64_t calls = 0;
    int64_t bytes = 0;
  };
  std::map<std::pair<uint16_t, std::string>, Sum> sums;
  const auto add = [&sums](uint16_t slot, const std::string& kind, int64_t bytes) {
    Sum& sum = sums[{slot, kind}];
    ++sum.calls;
    sum.bytes += bytes;
  };
  const graph::Program& program = role.program;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == graph::OpKind::kCollective) {
      const graph::CollectiveShape& shape = program.collectives[program.signature[op]];
      add(program.comm_slot[op], graph::CollectiveKindName(shape.kind), shape.bytes);
    } else if (program.kind[op] == graph::OpKind::kPeerGroup) {
      for (const auto& transfer : program.peer_groups[program.signature[op]].transfers) {
        add(transfer.comm_slot, transfer.is_send ? "send" : "recv", transfer.bytes);
      }
    }
  }
  std::vector<TrafficRow> rows;
  const auto comms = graph.ranks.comms(role.representative);
  for (const auto& [key, sum] : sums) {
    const CommId comm(comms[key.first]);
    rows.push_back({graph.strings[graph.communicators.name[comm.value()]],
                    static_cast<int64_t>(graph.communicators.members_of(comm).size()), key.second,
                    sum.calls, sum.bytes});
  }
  return rows;
}

struct ShowOptions {
  bool roles = false;
  int64_t rank = -1;  // -1: none
  int64_t ops = 0;    // of that rank
};

// How many ranks a role has, and how many ops of each kind.
struct RoleNumbers {
  int64_t ranks = 0;
  std::array<int64_t, graph::kOpKindCount> ops = {};

  [[nodiscard]] int64_t Of(graph::OpKind kind) const { return ops.at(static_cast<size_t>(kind)); }
};

std::vector<RoleNumbers> CountRoles(const graph::Graph& graph) {
  std::vector<RoleNumbers> roles(graph.roles.size());
  for (size_t role = 0; role < roles.size(); ++role) {
    for (const graph::OpKind kind : graph.roles[role].program.kind) {
      ++roles[role].ops.at(static_cast<size_t>(kind));
    }
  }
  for (const uint32_t role : graph.ranks.role) {
    ++roles[role].ranks;
  }
  return roles;
}

// Communicators of one name and size.
using CommunicatorFamilies = std::map<std::pair<std::string, size_t>, int64_t>;

CommunicatorFamilies CountCommunicators(const graph::Graph& graph) {
  CommunicatorFamilies families;
  for (uint32_t comm = 0; comm < graph.communicators.size(); ++comm) {
    const std::string& name = graph.strings[graph.communicators.name[comm]];
    ++families[{name, graph.communicators.members_of(CommId(comm)).size()}];
  }
  return families;
}

std::vector<uint32_t> Numbers(const std::vector<Rank>& ranks) {
  std::vector<uint32_t> numbers;
  for (const Rank rank : ranks) {
    numbers.push_back(rank.value());
  }
  return numbers;
}

std::string CommunicatorsText(const graph::Graph& graph) {
  constexpr size_t kShown = 12;  // an imported file may have thousands
  std::vector<std::string> families;
  for (const auto& [family, count] : CountCommunicators(graph)) {
    families.push_back(fmt::format("{} × {} of {} ranks", FormatCount(count),
                                   family.first.empty() ? "unnamed" : family.first,
                                   FormatCount(static_cast<int64_t>(family.second))));
  }
  if (families.empty()) {
    return "none";
  }
  const size_t hidden = families.size() - std::min(kShown, families.size());
  families.resize(families.size() - hidden);
  return fmt::format("{}{}", fmt::join(families, ", "),
                     hidden == 0 ? ""
                                 : fmt::format(" and {} more kinds: --format json lists them",
                                               FormatCount(static_cast<int64_t>(hidden))));
}

std::string HeadText(const graph::Graph& graph) {
  const graph::JobSpec& job = graph.job;
  const graph::ParallelSizes& sizes = job.parallel;
  std::string text = fmt::format("{} on {} × {} ({})\n", job.name, FormatCount(sizes.world_size()),
                                 graph.cluster.gpu.name, graph.cluster.name);
  text += fmt::format("  layout            {}\n", graph::LayoutText(job));
  if (!job.facts.axes.empty()) {
    text += fmt::format(
        "  program           ranks form {}; {} to warm up; iterations begin with {}\n",
        graph::RankGrid::Of(job).ToText(), FormatCounted(job.facts.warmup_iterations, "iteration"),
        job.facts.iteration_begin);
  }
  text += fmt::format("  ranks             {} in {}; sandbox ranks {}\n",
                      FormatCount(graph.ranks.size()),
                      FormatCounted(static_cast<int64_t>(graph.roles.size()), "role"),
                      graph.sandbox_ranks.empty()
                          ? std::string("none")
                          : fmt::format("{}", fmt::join(Numbers(graph.sandbox_ranks), ", ")));
  text += fmt::format("  ops               {} an iteration over all ranks\n",
                      FormatCount(graph.OpsPerIteration()));
  text += fmt::format("  kernels           {} distinct\n",
                      FormatCount(static_cast<int64_t>(graph.signatures.size())));
  text += fmt::format("  communicators     {}\n", CommunicatorsText(graph));
  text += fmt::format("  warnings          {}; {} while building\n",
                      FormatCounted(static_cast<int64_t>(graph.warnings.size()), "kind"),
                      FormatCounted(static_cast<int64_t>(graph.assumptions.size()), "assumption"));
  return text;
}

std::string RolesText(const graph::Graph& graph) {
  const std::vector<RoleNumbers> numbers = CountRoles(graph);
  std::string text =
      fmt::format("\n{:<20}{:>6}{:>8}{:>10}{:>10}{:>10}{:>12}{:>12}{:>14}\n", "role", "stage",
                  "ranks", "recorded", "ops", "kernels", "collectives", "peer groups", "device");
  for (size_t i = 0; i < graph.roles.size(); ++i) {
    const graph::Role& role = graph.roles[i];
    text += fmt::format("{:<20}{:>6}{:>8}{:>10}{:>10}{:>10}{:>12}{:>12}{:>14}\n", role.name,
                        role.stage, FormatCount(numbers[i].ranks),
                        graph.WasRecorded(role) ? std::to_string(role.representative.value()) : "-",
                        FormatCount(role.program.size()),
                        FormatCount(numbers[i].Of(graph::OpKind::kKernel)),
                        FormatCount(numbers[i].Of(graph::OpKind::kCollective)),
                        FormatCount(numbers[i].Of(graph::OpKind::kPeerGroup)),
                        FormatBytes(role.memory.device_bytes()));
  }
  text += fmt::format("\n{:<20}{:<36}{:>8}  {:<16}{:>8}{:>16}\n", "role", "communicator", "ranks",
                      "transfer", "calls", "bytes");
  for (const graph::Role& role : graph.roles) {
    for (const TrafficRow& row : TrafficOf(graph, role)) {
      text += fmt::format("{:<20}{:<36}{:>8}  {:<16}{:>8}{:>16}\n", role.name, row.communicator,
                          FormatCount(row.size), row.kind, FormatCount(row.calls), row.bytes);
    }
  }
  return text;
}

std::string RankText(const graph::Graph& graph, Rank rank) {
  const graph::ParallelRank at = graph::RankGrid::Of(graph.job).ParallelRankOf(rank);
  const graph::Role& role = graph.role_of(rank);
  std::string text = fmt::format("\nrank {}: {}, tp {} cp {} dp {} pp {}, source {}\n",
                                 rank.value(), role.name, at.tp, at.cp, at.dp, at.pp,
                                 graph::RankSourceName(graph.ranks.source[rank.value()]));
  size_t slot = 0;
  for (const uint32_t comm : graph.ranks.comms(rank)) {
    const auto members = graph.communicators.members_of(CommId(comm));
    text += fmt::format("  communicator slot {:<3} {} (number {}), {}: {}\n", slot++,
                        graph.strings[graph.communicators.name[comm]], comm,
                        FormatCounted(static_cast<int64_t>(members.size()), "rank"),
                        graph::MembersText(members));
  }
  slot = 0;
  for (const uint32_t peer : graph.ranks.peers(rank)) {
    text += fmt::format("  peer slot {:<11} rank {}\n", slot++, peer);
  }
  return text;
}

uint32_t ShownOps(const graph::Program& program, const ShowOptions& options) {
  return static_cast<uint32_t>(std::min<int64_t>(options.ops, program.size()));
}

std::string OpsText(const graph::Graph& graph, Rank rank, const ShowOptions& options) {
  const graph::Program& program = graph.role_of(rank).program;
  std::string text = fmt::format("\n{:>8}  what rank {} does\n", "op", rank.value());
  for (uint32_t op = 0; op < ShownOps(program, options); ++op) {
    text += fmt::format("{:>8}  {}\n", op, graph::DescribeOp(graph, rank, op));
  }
  return text;
}

void WriteTraffic(const std::vector<TrafficRow>& rows, JsonWriter* json) {
  json->ObjectsField("transfers", rows, [&](const TrafficRow& row) {
    json->Field("communicator", row.communicator).Field("size", row.size);
    json->Field("kind", row.kind).Field("calls", row.calls).Field("bytes", row.bytes);
  });
}

void WriteRoles(const graph::Graph& graph, JsonWriter* json) {
  const std::vector<RoleNumbers> numbers = CountRoles(graph);
  json->Key("roles").BeginArray();
  for (size_t i = 0; i < graph.roles.size(); ++i) {
    const graph::Role& role = graph.roles[i];
    json->BeginObject();
    json->Field("name", role.name).Field("stage", role.stage).Field("ranks", numbers[i].ranks);
    graph.WasRecorded(role) ? json->Field("recorded_rank", role.representative.value())
                            : json->NullField("recorded_rank");
    json->Field("ops", role.program.size());
    json->Key("ops_by_kind").BeginObject();
    for (uint8_t kind = 0; kind < graph::kOpKindCount; ++kind) {
      json->Field(graph::OpKindName(static_cast<graph::OpKind>(kind)), numbers[i].ops.at(kind));
    }
    json->EndObject();
    json->Field("device_bytes", role.memory.device_bytes());
    WriteTraffic(TrafficOf(graph, role), json);
    json->EndObject();
  }
  json->EndArray();
}

void WriteRank(const graph::Graph& graph, const ShowOptions& options, JsonWriter* json) {
  const Rank rank(static_cast<uint32_t>(options.rank));
  json->Key("rank").BeginObject();
  json->Field("rank", rank.value()).Field("role", graph.role_of(rank).name);
  json->Field("source", graph::RankSourceName(graph.ranks.source[rank.value()]));
  json->ObjectsField("communicators", graph.ranks.comms(rank), [&](const uint32_t comm) {
    const auto members = graph.communicators.members_of(CommId(comm));
    json->Field("communicator", comm);
    json->Field("name", graph.strings[graph.communicators.name[comm]]);
    json->ArrayField("ranks", members);
  });
  json->ArrayField("peers", graph.ranks.peers(rank));
  const graph::Program& program = graph.role_of(rank).program;
  json->Key("ops").BeginArray();
  for (uint32_t op = 0; op < ShownOps(program, options); ++op) {
    json->BeginObject();
    json->Field("op", op).Field("kind", graph::OpKindName(program.kind[op]));
    json->Field("stream", program.stream[op]);
    json->Field("text", graph::DescribeOp(graph, rank, op));
    if (program.kind[op] == graph::OpKind::kKernel) {
      const graph::KernelSignature& signature = graph.signatures[program.signature[op]];
      json->Field("name", graph.strings[signature.name.value()]);
      json->ArrayField("grid", signature.grid);
    }
    json->EndObject();
  }
  json->EndArray().EndObject();
}

std::string ShowJson(const graph::Graph& graph, const ShowOptions& options) {
  const graph::ParallelSizes& sizes = graph.job.parallel;
  return JsonText([&](JsonWriter& json) {
    json.Field("job", graph.job.name).Field("cluster", graph.cluster.name);
    json.Field("target_gpus", sizes.world_size()).Field("tp", sizes.tp).Field("pp", sizes.pp);
    json.Field("dp", sizes.dp).Field("cp", sizes.cp).Field("ep", sizes.ep);
    graph::KnowsChunks(graph.job) ? json.Field("vpp", sizes.vpp) : json.NullField("vpp");
    json.ArrayField("sandbox_ranks", graph.sandbox_ranks, &Rank::value);
    json.Field("ops", graph.OpsPerIteration()).Field("kernels", graph.signatures.size());
    json.ObjectsField("communicators", CountCommunicators(graph), [&](const auto& counted) {
      const auto& [family, count] = counted;
      json.Field("name", family.first).Field("ranks", family.second).Field("count", count);
    });
    if (options.roles) {
      WriteRoles(graph, &json);
    }
    if (options.rank >= 0) {
      WriteRank(graph, options, &json);
    }
  });
}

Result<VerbOutput> RunGraphShow(const VerbArguments& arguments, const ShowOptions& asked) {
  PRISM_ASSIGN_OR_RETURN(const graph::LoadedGraph loaded,
                         graph::LoadValidGraph(arguments.operands().front()));
  const graph::Graph& graph = loaded.graph;
  ShowOptions options = asked;
  PRISM_RETURN_IF_ERROR(CheckRank(options.rank, graph));
  if (options.ops > 0 && options.rank < 0) {
    options.rank = 0;
  }
  VerbOutput output;
  if (arguments.as_json()) {
    output.text = ShowJson(graph, options);
    return output;
  }
  output.text = HeadText(graph);
  if (options.roles) {
    output.text += RolesText(graph);
  }
  const Rank rank(static_cast<uint32_t>(options.rank));
  if (options.rank >= 0) {
    output.text += RankText(graph, rank);
  }
  if (options.ops > 0) {
    output.text += OpsText(graph, rank, options);
  }
  return output;
}

}  // namespace

Verb GraphShowVerb() {
  using S = ShowOptions;
  return MakeVerb<S>(
      {"graph show", "GRAPH", "what a graph contains", "", 1, 1},
      {{"roles", &S::roles, Switch(), "list all roles: ranks, ops, device memory"},
       {"rank", &S::rank, AnyRank(), "show one rank: its role, communicators and peers", "none"},
       {"ops", &S::ops, WholeNumber(1, int64_t{1} << 32),
        "list the first N ops of that rank (rank 0 without --rank)", "none"}},
      RunGraphShow);
}

}  // namespace prism::launch
