// Distributes items of work over the processes that mpirun has started: every process runs the same
// program, evaluates its share, and then has the results of all. Only process 0 prints.
//
//   PRISM_ASSIGN_OR_RETURN(MpiSession session, MpiSession::Start());
//   PRISM_ASSIGN_OR_RETURN(std::vector<std::string> results,
//                          DistributeItems(session, count, threads, evaluate));
//
// The results are the same for any number of processes and threads, as long as an item's result
// depends only on its index. May be called again on the same session, with items that depend on
// earlier results: all processes must then call it with the same items.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/process/mpi_session.h"

namespace prism::launch {

// The result of one item as bytes (launch/process/wire.h). Called from several threads at once.
using EvaluateItem = std::function<Result<std::string>(int64_t index)>;

// evaluate(i) for every i in [0, count), by index. Item i belongs to process i modulo the number of
// processes; each process uses at most `threads` threads. If items fail, all processes get the
// status of the first by index; once one of its items has failed, a process starts no more.
Result<std::vector<std::string>> DistributeItems(MpiSession& session,
                                                 int64_t count,
                                                 int threads,
                                                 const EvaluateItem& evaluate);

// Threads for DistributeItems: one under mpirun, since the user has chosen the number of processes;
// else all processors.
int DefaultThreads(const MpiSession& session);

}  // namespace prism::launch
