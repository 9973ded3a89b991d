#include "launch/cli/role_traffic.h"

#include <map>
#include <utility>

#include "graph/describe.h"

namespace prism::launch {

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

}  // namespace prism::launch
