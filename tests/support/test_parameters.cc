#include "tests/support/test_parameters.h"

#include <map>
#include <string>
#include <vector>

#include "replayer/cost/parameters.h"

namespace prism::testing {
namespace {

double DefaultFor(const replayer::ParameterKey& key) {
  static const std::map<std::string_view, double> kByUnit = {
      {"ratio", 0.5}, {"byte/s", 1e11}, {"flop/s", 1e14}, {"ns", 700},
      {"byte", 4096}, {"element", 128}, {"1", 2},         {"flag", 0}};
  if (key.key == "overlap.compute_slowdown") {
    return 1.25;
  }
  if (key.key == "gpu.sustained_clock") {
    return 1;
  }
  if (key.key == "nccl.release") {
    return 212;
  }
  return kByUnit.at(key.unit);
}

}  // namespace

graph::ClusterSpec TestCluster() {
  graph::ClusterSpec cluster;
  cluster.name = "test";
  cluster.gpus_per_node = 2;
  cluster.gpu.sm_count = 100;
  std::vector<graph::Parameter> parameters;
  for (const replayer::ParameterKey& key : replayer::ParameterKeys()) {
    parameters.push_back({std::string(key.key), DefaultFor(key), std::string(key.unit), "test",
                          graph::Mark::kAssumed});
  }
  cluster.parameters = graph::ParameterTable(std::move(parameters));
  return cluster;
}

void MakeFree(graph::ClusterSpec* cluster) {
  for (const replayer::ParameterKey& key : replayer::ParameterKeys()) {
    if (key.key.starts_with("host.") && key.unit == "ns") {
      cluster->parameters.SetValue(key.key, 0);
    }
  }
  cluster->parameters.SetValue("overlap.compute_slowdown", 1);
}

}  // namespace prism::testing
