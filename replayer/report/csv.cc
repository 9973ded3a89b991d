#include "replayer/report/csv.h"

#include <iterator>

#include <fmt/format.h>

#include "graph/base/csv_field.h"
#include "graph/describe.h"
#include "graph/job/rank_grid.h"
#include "replayer/engine/replay_result.h"

namespace prism::replayer {

std::string RanksCsv(const graph::Graph& graph, const ReplayResult& result) {
  std::string text =
      "rank,role,stage,tp_rank,dp_rank,cp_rank,ep_rank,iteration_ns,compute_ns,exposed_comm_ns,"
      "bubble_ns,idle_ns,peak_allocated_bytes,peak_reserved_bytes,device_bytes,source\n";
  const graph::RankGrid grid = graph::RankGrid::Of(graph.job);
  for (uint32_t i = 0; i < graph.ranks.size(); ++i) {
    const Rank rank(i);
    const graph::Role& role = graph.role_of(rank);
    const graph::ParallelRank at = grid.ParallelRankOf(rank);
    const RankTimes& times = result.ranks[i];
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", i,
                   CsvField(role.name), role.stage, at.tp, at.dp, at.cp, at.ep, times.iteration_ns,
                   times.compute_ns, times.exposed_comm_ns, times.bubble_ns, times.idle_ns,
                   role.memory.peak_allocated, role.memory.peak_reserved,
                   role.memory.device_bytes(), graph::RankSourceName(graph.ranks.source[i]));
  }
  return text;
}

std::string CommunicatorsCsv(const graph::Graph& graph, const ReplayResult& result) {
  std::string text =
      "communicator,name,size,first_rank,last_rank,calls,bytes,transfer_ns,wait_ns_max\n";
  for (uint32_t i = 0; i < graph.communicators.size(); ++i) {
    const auto members = graph.communicators.members_of(CommId(i));
    const CommunicatorTimes& times = result.communicators[i];
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{},{},{}\n", i,
                   CsvField(graph.strings[graph.communicators.name[i]]), members.size(),
                   members.front(), members.back(), times.calls, times.bytes, times.transfer_ns,
                   times.wait_ns_max);
  }
  return text;
}

}  // namespace prism::replayer
