#include "tests/fuzz/config_input.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graph/base/check.h"
#include "launch/inputs/config_file.h"
#include "launch/inputs/nccl_topology.h"
#include "launch/inputs/perturbation.h"
#include "launch/inputs/presets.h"
#include "launch/inputs/sandbox_list.h"
#include "replayer/cost/collective_cost.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/cost/parameters.h"

namespace prism::testing {
namespace {

void CheckCode(const Status& status, StatusCode expected) {
  PRISM_CHECK_MSG(status.code() == expected, status.message());
  PRISM_CHECK(!status.message().empty());
}

graph::JobSpec Job() {
  graph::JobSpec job;
  job.parallel = {.tp = 8, .cp = 1, .dp = 4, .pp = 2, .ep = 1, .vpp = 1};
  return job;
}

slicer::SlicePlan Plan() {
  slicer::SlicePlan plan;
  plan.roles = {{"stage 0", 0, Rank(0)}, {"stage 1", 1, Rank(32)}};
  return plan;
}

void CheckRanks(const std::vector<Rank>& ranks) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    PRISM_CHECK_LT(int64_t{ranks[i].value()}, Job().parallel.world_size());
    PRISM_CHECK(i == 0 || ranks[i - 1] < ranks[i]);
  }
}

void TryModel(std::string_view text) {
  const Result<launch::ModelPreset> preset = launch::ParseModel(text, "fuzz input");
  if (!preset.ok()) {
    CheckCode(preset.status(), StatusCode::kBadFile);
    return;
  }
  PRISM_CHECK_GE(graph::ModelParameters(preset->model), 1);
  graph::JobSpec job = Job();
  job.model = preset->model;
  job.seq_len = preset->model.seq_len;
  job.global_batch_size = preset->layout.global_batch_size;
  PRISM_CHECK(std::isfinite(graph::HardwareFlops(job)));
}

void TryCluster(std::string_view text) {
  const Result<graph::ClusterSpec> cluster = launch::ParseCluster(text, "fuzz input");
  if (!cluster.ok()) {
    CheckCode(cluster.status(), StatusCode::kBadFile);
    return;
  }
  const replayer::ComputeCost compute(*cluster);
  const replayer::CollectiveCost collective(*cluster);
  constexpr int64_t kGibibyte = int64_t{1} << 30;
  PRISM_CHECK_GE(compute.Copy(kGibibyte, graph::kHostToDevice), 0);
  PRISM_CHECK_GE(collective.PeerTransfer(kGibibyte, false), 0);
  graph::CollectiveShape shape;
  shape.bytes = kGibibyte;
  PRISM_CHECK_GE(collective.Collective(shape, {64, 8, 8, 1}), 0);
  for (const DurationNs cost : replayer::HostCosts(cluster->parameters)) {
    PRISM_CHECK_GE(cost, 0);
  }
}

void TryNcclTopology(std::string_view text) {
  const Result<launch::NcclTopology> topology = launch::ParseNcclTopology(text, "fuzz input");
  if (!topology.ok()) {
    CheckCode(topology.status(), StatusCode::kBadFile);
    return;
  }
  graph::ClusterSpec cluster;
  std::vector<std::string> notes;
  launch::UseNcclTopology(*topology, "fuzz input", &cluster, &notes);
  PRISM_CHECK_GE(cluster.gpus_per_node, 1);
}

// Config files are read by name only.
void TryConfigFile(std::string_view text) {
  const int descriptor = memfd_create("fuzz input", 0);
  PRISM_CHECK_GE(descriptor, 0);
  PRISM_CHECK(write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  const Result<launch::GivenOptions> values =
      launch::ReadConfigFile(fmt::format("/proc/self/fd/{}", descriptor));
  close(descriptor);
  if (!values.ok()) {
    CheckCode(values.status(), StatusCode::kBadFile);
    return;
  }
  for (const auto& [key, value] : *values) {
    PRISM_CHECK_MSG(!value.texts.empty() && !value.file.empty(), key);
  }
}

void TryRankList(std::string_view text) {
  const Result<std::vector<Rank>> ranks =
      launch::ResolveRankList("--sandbox-ranks", std::string(text), Job(), Plan());
  if (!ranks.ok()) {
    CheckCode(ranks.status(), StatusCode::kInvalidArgument);
    return;
  }
  PRISM_CHECK(!ranks->empty());
  CheckRanks(*ranks);
}

void TryPerturbation(std::string_view text) {
  const Result<replayer::Perturbation> perturbation =
      launch::ParsePerturbation({std::string(text), ""}, Job(), graph::ClusterSpec{}, {});
  if (!perturbation.ok()) {
    CheckCode(perturbation.status(), StatusCode::kInvalidArgument);
    return;
  }
  CheckRanks(perturbation->ranks);
  PRISM_CHECK(perturbation->factor >= 0 && perturbation->factor <= 1e6);
  PRISM_CHECK_GE(perturbation->delay_ns, 0);
}

}  // namespace

void TryConfig(std::string_view input) {
  const size_t line = input.find('\n');
  if (line == input.npos) {
    return;
  }
  const std::string_view reader = input.substr(0, line);
  const std::string_view text = input.substr(line + 1);
  if (reader == "model") {
    TryModel(text);
  } else if (reader == "cluster") {
    TryCluster(text);
  } else if (reader == "nccl topology") {
    TryNcclTopology(text);
  } else if (reader == "config") {
    TryConfigFile(text);
  } else if (reader == "ranks") {
    TryRankList(text);
  } else if (reader == "perturb") {
    TryPerturbation(text);
  }
}

}  // namespace prism::testing
