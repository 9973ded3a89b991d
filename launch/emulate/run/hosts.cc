#include "launch/emulate/run/hosts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <system_error>

#include <fmt/format.h>

#include "graph/base/parallel.h"
#include "graph/base/units.h"
#include "graph/describe.h"

namespace prism::launch {
namespace {

// Bytes of an iteration between pairs of sandbox ranks, by their places in the list.
using Traffic = std::vector<std::vector<int64_t>>;

class TrafficCounter {
 public:
  explicit TrafficCounter(const graph::Graph& graph)
      : graph_(graph),
        traffic_(graph.sandbox_ranks.size(), std::vector<int64_t>(graph.sandbox_ranks.size())) {}

  Traffic Count() {
    for (size_t i = 0; i < graph_.sandbox_ranks.size(); ++i) {
      CountRank(i);
    }
    return std::move(traffic_);
  }

 private:
  void CountRank(size_t place) {
    const Rank rank = graph_.sandbox_ranks[place];
    const graph::Program& program = graph_.role_of(rank).program;
    const auto peers = graph_.ranks.peers(rank);
    std::map<uint16_t, int64_t> collectives;  // bytes by communicator slot
    for (uint32_t op = 0; op < program.size(); ++op) {
      if (program.kind[op] == graph::OpKind::kCollective) {
        collectives[program.comm_slot[op]] += program.collectives[program.signature[op]].bytes;
      } else if (program.kind[op] == graph::OpKind::kPeerGroup) {
        for (const auto& transfer : program.peer_groups[program.signature[op]].transfers) {
          Add(place, Rank(peers[transfer.peer_slot]), transfer.bytes);
        }
      }
    }
    for (const auto& [slot, bytes] : collectives) {
      for (const uint32_t member :
           graph_.communicators.members_of(CommId(graph_.ranks.comms(rank)[slot]))) {
        Add(place, Rank(member), bytes);
      }
    }
  }

  void Add(size_t place, Rank other, int64_t bytes) {
    const auto& ranks = graph_.sandbox_ranks;
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), other);
    if (found != ranks.end() && *found == other) {
      const auto at = static_cast<size_t>(found - ranks.begin());
      traffic_[place][at] += bytes;
      traffic_[at][place] += bytes;
    }
  }

  const graph::Graph& graph_;
  Traffic traffic_;
};

// The unplaced rank that exchanges most with those of the host; the lowest of equal ones.
size_t NextForHost(const Traffic& traffic, const std::vector<int>& host_of, int host) {
  size_t best = host_of.size();
  int64_t most = -1;
  for (size_t i = 0; i < host_of.size(); ++i) {
    int64_t bytes = 0;
    for (size_t other = 0; other < host_of.size(); ++other) {
      bytes += host_of[other] == host ? traffic[i][other] : 0;
    }
    if (host_of[i] < 0 && bytes > most) {
      most = bytes;
      best = i;
    }
  }
  return best;
}

// By host: how many ranks it and those before it have.
std::vector<size_t> RanksUpTo(size_t ranks, const Hosts& hosts) {
  std::vector<int> units = hosts.gpus;
  if (units.empty()) {
    units.resize(hosts.names.size());
    for (const int host : hosts.of_worker) {
      ++units[static_cast<size_t>(host)];
    }
  }
  const auto all = static_cast<size_t>(std::reduce(units.begin(), units.end()));
  std::vector<size_t> up_to;
  size_t before = 0;
  for (const int of_host : units) {
    before += static_cast<size_t>(of_host);
    const size_t share = (ranks * before + all - 1) / all;
    up_to.push_back(hosts.gpus.empty() || ranks > all ? share : std::min(ranks, before));
  }
  return up_to;
}

}  // namespace

WorkerHost ThisHost() {
  std::array<char, 256> name = {};
  gethostname(name.data(), name.size() - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  WorkerHost host = {name.data(), fmt::format("{} {}", name.data(), boot)};
  for (const char* space : {"pid", "net"}) {
    std::error_code unknown;
    host.identity +=
        ' ' +
        std::filesystem::read_symlink(fmt::format("/proc/self/ns/{}", space), unknown).string();
  }
  return host;
}

Hosts GroupWorkers(const std::vector<WorkerHost>& workers, bool on_gpus) {
  Hosts hosts;
  std::map<std::string, int> numbers;
  for (size_t worker = 0; worker < workers.size(); ++worker) {
    const auto [found, is_new] =
        numbers.try_emplace(workers[worker].identity, static_cast<int>(hosts.names.size()));
    if (is_new) {
      hosts.names.push_back(workers[worker].name);
      hosts.leaders.push_back(static_cast<int>(worker));
      if (on_gpus) {
        hosts.gpus.push_back(workers[worker].gpus);
      }
    }
    hosts.of_worker.push_back(found->second);
  }
  return hosts;
}

size_t MostWorkersOfHost() {
  constexpr int kCoresOfWorker = 2;
  const char* const test = std::getenv("PRISM_TEST_WORKERS");
  const int most = test != nullptr ? std::atoi(test) : AvailableThreads() / kCoresOfWorker;
  return static_cast<size_t>(std::max(1, most));
}

std::vector<std::vector<int>> WorkersForRanks(const Hosts& hosts, size_t most) {
  std::vector<std::vector<int>> by_host(hosts.names.size());
  for (size_t worker = 0; worker < hosts.of_worker.size(); ++worker) {
    std::vector<int>& workers = by_host[static_cast<size_t>(hosts.of_worker[worker])];
    if (workers.size() < most) {
      workers.push_back(static_cast<int>(worker));
    }
  }
  return by_host;
}

std::vector<int> PlaceRanks(const graph::Graph& graph, const Hosts& hosts, size_t most) {
  const size_t ranks = graph.sandbox_ranks.size();
  const std::vector<std::vector<int>> workers = WorkersForRanks(hosts, most);
  std::vector<int> host_of(ranks, hosts.several() ? -1 : 0);
  const Traffic traffic = hosts.several() ? TrafficCounter(graph).Count() : Traffic();
  const std::vector<size_t> up_to = RanksUpTo(ranks, hosts);
  std::vector<int> worker_of(ranks);
  size_t placed = 0;
  for (int host = 0; host < static_cast<int>(hosts.names.size()); ++host) {
    const std::vector<int>& of_host = workers[static_cast<size_t>(host)];
    for (; hosts.several() && placed < up_to[static_cast<size_t>(host)]; ++placed) {
      host_of[NextForHost(traffic, host_of, host)] = host;
    }
    size_t next = 0;
    for (size_t i = 0; i < ranks; ++i) {
      if (host_of[i] == host) {
        worker_of[i] = of_host[next++ % of_host.size()];
      }
    }
  }
  return worker_of;
}

std::vector<int> PlacesOnHosts(const std::vector<int>& worker_of, const Hosts& hosts) {
  std::vector<int> taken(hosts.names.size());
  std::vector<int> places;
  for (const int worker : worker_of) {
    places.push_back(taken[static_cast<size_t>(hosts.of_worker[static_cast<size_t>(worker)])]++);
  }
  return places;
}

bool SharesGpu(const std::vector<int>& worker_of, const Hosts& hosts) {
  const std::vector<int> places = PlacesOnHosts(worker_of, hosts);
  for (size_t i = 0; i < places.size() && !hosts.gpus.empty(); ++i) {
    const int host = hosts.of_worker[static_cast<size_t>(worker_of[i])];
    if (places[i] >= hosts.gpus[static_cast<size_t>(host)]) {
      return true;
    }
  }
  return false;
}

std::string PlacesText(const std::vector<Rank>& ranks,
                       const std::vector<int>& worker_of,
                       const Hosts& hosts) {
  std::string text;
  for (size_t host = 0; host < hosts.names.size(); ++host) {
    std::vector<Rank> here;
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (hosts.of_worker[static_cast<size_t>(worker_of[i])] == static_cast<int>(host)) {
        here.push_back(ranks[i]);
      }
    }
    if (!here.empty()) {
      text += fmt::format("{}{} on {}", text.empty() ? "" : "; ", graph::RanksText(here),
                          hosts.names[host]);
      if (!hosts.gpus.empty()) {
        text += fmt::format(" ({})", FormatCounted(hosts.gpus[host], "GPU"));
      }
    }
  }
  return text;
}

}  // namespace prism::launch
