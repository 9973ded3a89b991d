// Runs a program as one rank of a job on the virtual device and prints what it took:
//
//   record_rank WORLD RANK CAPABILITY MEMORY_MIB ORDER PROGRAM ARGS...
//
// CAPABILITY is the device's compute capability times ten, ORDER ascending or descending: how the
// device hands out addresses. Without timing, stitching or other sandbox ranks; the store answers
// for the absent ones.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "launch/rendezvous/store_server.h"
#include "tests/support/recorded_program.h"

namespace prism::test {
namespace {

constexpr int kFixedArguments = 6;

int Main(int argc, char** argv) {
  if (argc <= kFixedArguments) {
    std::fprintf(stderr, "record_rank WORLD RANK CAPABILITY MEMORY_MIB ORDER PROGRAM ARGS...\n");
    return 2;
  }
  const int world = std::atoi(argv[1]);
  const int rank = std::atoi(argv[2]);
  const int capability = std::atoi(argv[3]);
  ProgramSpec spec;
  spec.config = H100Config();
  spec.config.rank = rank;
  spec.config.world_size = world;
  spec.config.sandbox_ranks[0] = rank;
  spec.config.device.compute_major = capability / 10;
  spec.config.device.compute_minor = capability % 10;
  spec.config.device.memory_bytes = std::atoll(argv[4]) << 20U;
  spec.config.device.segments_ascending = std::string_view(argv[5]) == "ascending" ? 1 : 0;
  auto server = launch::StoreServer::Start(
      {.ranks = {.world_size = world, .ranks_per_node = spec.config.device.device_count}});
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().message().c_str());
    return 5;
  }
  spec.arguments.assign(argv + kFixedArguments, argv + argc);
  spec.environment = {{"PRISM_STORE", std::to_string((*server)->port())},
                      {"RANK", std::to_string(rank)},
                      {"WORLD_SIZE", std::to_string(world)},
                      {"LOCAL_RANK", std::to_string(rank % spec.config.device.device_count)},
                      {"LOCAL_WORLD_SIZE", std::to_string(spec.config.device.device_count)},
                      {"MASTER_ADDR", "127.0.0.1"},
                      {"MASTER_PORT", "29500"}};
  spec.library_dir = PRISM_LIBRARY_DIR;
  spec.keeps_ops = false;
  spec.shows_output = true;
  const ProgramRun run = RunRecorded(spec);
  for (const std::string& line : (*server)->TakeReports()) {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  for (const auto& [name, count] : run.counters) {
    std::printf("counter %s %lld\n", name.c_str(), static_cast<long long>(count));
  }
  return run.exit_code < 0 ? 1 : run.exit_code;
}

}  // namespace
}  // namespace prism::test

int main(int argc, char** argv) {
  return prism::test::Main(argc, argv);
}
