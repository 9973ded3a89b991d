// ranks.csv and communicators.csv: a header line, then one line per rank or communicator, in order.
#pragma once

#include <string>

#include "graph/graph.h"

namespace prism::replayer {

struct ReplayResult;

// Columns as in the outside contract. Times in ns, memory in bytes.
std::string RanksCsv(const graph::Graph& graph, const ReplayResult& result);

// communicator,name,size,first_rank,last_rank,calls,bytes,transfer_ns,wait_ns_max: per steady
// iteration; bytes and transfer_ns of one member, wait_ns_max the longest wait for the last arrival
// summed over the calls of a member.
std::string CommunicatorsCsv(const graph::Graph& graph, const ReplayResult& result);

}  // namespace prism::replayer
