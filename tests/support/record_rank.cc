// Runs a program as some ranks of a job on the virtual device, one after the other, and prints what
// it took:
//
//   record_rank CLUSTER WORLD RANKS ORDER PROGRAM ARGS...
//
// CLUSTER is a cluster preset. RANKS are comma-separated: a rank is given what those before it sent
// to absent ones, and only the last one's output is shown. ORDER says how the device hands out
// addresses: ascending, descending or profile. Without timing or stitching; the store answers for
// the absent ranks.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "launch/emulate/sandbox/device_config.h"
#include "launch/emulate/sandbox/shared_memory.h"
#include "launch/emulate/store/store_server.h"
#include "launch/inputs/presets.h"
#include "tests/support/recorded_program.h"

namespace prism::testing {
namespace {

constexpr int kFixedArguments = 5;

std::vector<int> RankList(const std::string& text) {
  std::vector<int> ranks;
  for (size_t begin = 0; begin < text.size();) {
    ranks.push_back(std::atoi(text.c_str() + begin));
    const size_t comma = text.find(',', begin);
    begin = comma == std::string::npos ? text.size() : comma + 1;
  }
  return ranks;
}

Result<ProgramRun> RunRank(const graph::ClusterSpec& cluster,
                           const graph::JobSpec& job,
                           int rank,
                           const std::string& values,
                           ProgramSpec spec) {
  spec.config = launch::MakeDeviceConfig(cluster, job, Rank(rank), {Rank(rank)});
  const int world = spec.config.world_size;
  const int local_world = spec.config.device.device_count;
  PRISM_ASSIGN_OR_RETURN(
      const auto server,
      launch::StoreServer::Start({.ranks = {.world_size = world, .ranks_per_node = local_world}}));
  const launch::SharedMemory book("prism-values", values);
  spec.environment = {{"PRISM_STORE", std::to_string(server->port())},
                      {"RANK", std::to_string(rank)},
                      {"WORLD_SIZE", std::to_string(world)},
                      {"LOCAL_RANK", std::to_string(rank % local_world)},
                      {"LOCAL_WORLD_SIZE", std::to_string(local_world)},
                      {"MASTER_ADDR", "127.0.0.1"},
                      {"MASTER_PORT", "29500"}};
  if (!values.empty()) {
    spec.environment.emplace_back("PRISM_VALUES", book.Path());
    spec.environment.emplace_back("PRISM_VALUES_BYTES", std::to_string(values.size()));
  }
  ProgramRun run = RunRecorded(spec);
  for (const std::string& line : server->TakeReports()) {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  return run;
}

int Main(int argc, char** argv) {
  const std::vector<int> ranks = RankList(argc > 3 ? argv[3] : "");
  if (argc <= kFixedArguments || ranks.empty()) {
    std::fprintf(stderr, "record_rank CLUSTER WORLD RANKS ORDER PROGRAM ARGS...\n");
    return 2;
  }
  auto cluster = launch::LoadCluster(argv[1]);
  if (!cluster.ok()) {
    std::fprintf(stderr, "%s\n", cluster.status().message().c_str());
    return 3;
  }
  const std::string_view order = argv[4];
  cluster->gpu.segments_ascending =
      order == "profile" ? cluster->gpu.segments_ascending : order == "ascending";
  graph::JobSpec job;
  job.parallel.dp = std::atoi(argv[2]);
  ProgramSpec spec;
  spec.arguments.assign(argv + kFixedArguments, argv + argc);
  spec.library_dir = PRISM_LIBRARY_DIR;
  spec.keeps_ops = false;
  std::string values;
  for (const int rank : ranks) {
    spec.shows_output = rank == ranks.back();
    const auto run = RunRank(*cluster, job, rank, values, spec);
    if (!run.ok()) {
      std::fprintf(stderr, "%s\n", run.status().message().c_str());
      return 5;
    }
    if (run->exit_code != 0) {
      std::fprintf(stderr, "%srank %d: exit code %d\n", run->output.c_str(), rank, run->exit_code);
      return run->exit_code < 0 ? 1 : run->exit_code;
    }
    values += run->values;
    for (const auto& [name, count] : run->counters) {
      std::printf("counter %d %s %lld\n", rank, name.c_str(), static_cast<long long>(count));
    }
  }
  return 0;
}

}  // namespace
}  // namespace prism::testing

int main(int argc, char** argv) {
  return prism::testing::Main(argc, argv);
}
