// The machines that the processes of a run are on, and which process runs each sandbox rank.
//
// Processes that see each other's memory and the same loopback interface are on one host: it has a
// name, and also the ids of the kernel's boot and of their namespaces, so that two containers of
// one machine are two hosts.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace prism::launch {

struct WorkerHost {
  std::string name;      // for people
  std::string identity;  // equal where memory and loopback are shared
  int gpus = 0;          // that sandbox ranks may run on
};

// Of this process.
WorkerHost ThisHost();

// Hosts are numbered in the order of their first workers, so that process 0 is on host 0.
struct Hosts {
  std::vector<std::string> names;  // by host
  std::vector<int> leaders;        // by host: its first worker
  std::vector<int> of_worker;      // by worker: its host
  std::vector<int> gpus;           // by host; empty: ranks run on the virtual device

  [[nodiscard]] bool several() const { return names.size() > 1; }
};

Hosts GroupWorkers(const std::vector<WorkerHost>& workers, bool on_gpus = false);

// The worker of each sandbox rank of the graph. A host gets one rank a GPU while there are enough
// of them, else its share of the GPUs, or of the workers; ranks that exchange most with those which
// a host has already go there. At most `most` workers of a host take ranks.
std::vector<int> PlaceRanks(const graph::Graph& graph, const Hosts& hosts, size_t most);

// How many workers of a host should take ranks: a rank is a process in any case, and what its
// worker does for it is little, so that workers which share a core with others mostly wait for each
// other's messages, and each that records starts the program once more to fork from. By the cores
// of this host; PRISM_TEST_WORKERS says another number, for tests.
size_t MostWorkersOfHost();

// By host: those workers, the first `most`, ascending.
std::vector<std::vector<int>> WorkersForRanks(const Hosts& hosts, size_t most);

// By sandbox rank: how many ranks before it are on its host.
std::vector<int> PlacesOnHosts(const std::vector<int>& worker_of, const Hosts& hosts);

// More ranks than GPUs on some host: they take turns on one, so their values are right but their
// durations mean nothing; times come from the replay.
bool SharesGpu(const std::vector<int>& worker_of, const Hosts& hosts);

// "ranks 0-3 on h1; ranks 4-7 on h2", with their GPUs "(4 GPUs)" behind the names.
std::string PlacesText(const std::vector<Rank>& ranks,
                       const std::vector<int>& worker_of,
                       const Hosts& hosts);

}  // namespace prism::launch
