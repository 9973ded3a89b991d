#include "experiments/published/row_cluster.h"

#include <algorithm>
#include <string_view>

#include "experiments/published/row_style.h"

namespace prism::launch {
namespace {

bool InRacks(std::string_view gpu) {
  return gpu == "gpus/gb200" || gpu == "gpus/gb300";
}

// Variants that differ in memory.
std::string WithMemory(std::string profile, const PublishedRow& row) {
  const double gigabytes = row.Number("gpu_mem_gb").value_or(0);
  if (profile == "gpus/a100-80" && (gigabytes == 40 || row.Meant("memory") == 40)) {
    return "gpus/a100-40";
  }
  if (row.Is("pcie") && (profile == "gpus/h100-80" || profile == "gpus/a100-80")) {
    return profile == "gpus/h100-80" ? "gpus/h100-pcie" : "gpus/a100-pcie";
  }
  if (profile == "gpus/h100-80" && (gigabytes > 90 || row.Meant("memory") == 96)) {
    return "gpus/h100-96";
  }
  return profile;
}

// The GPU of the software's time if none is named, unless format or memory say otherwise.
std::string UnnamedGpu(const PublishedRow& row) {
  constexpr double kSpread = 0.5;
  constexpr double kInGeneration = 0.2;  // format or memory leave GPUs of one generation
  const double gigabytes = row.Number("gpu_mem_gb").value_or(0);
  if (row.Is("named blackwell") || gigabytes > 150) {
    row.Assume("GPU: not named, taken for a B200", kInGeneration);
    return "gpus/b200";
  }
  if (gigabytes == 40 || FrameworkOfRow(row).last_year <= 2023) {
    row.Assume("GPU: not named, taken for an A100", kSpread);
    return WithMemory("gpus/a100-80", row);
  }
  row.Assume("GPU: taken for an H100", kSpread);
  return "gpus/h100-80";
}

std::string GpuOfRow(const PublishedRow& row) {
  if (row.Text("gpu").empty()) {
    return UnnamedGpu(row);
  }
  const std::string_view named = row.Meaning("gpu");
  if (named.empty()) {
    constexpr double kUnknown = 1;
    row.Assume("GPU: not known, taken for an H100", kUnknown);
    return "gpus/h100-80";
  }
  if (row.Is("links cut")) {
    constexpr double kHalfLinks = 0.15;
    row.Assume("GPU: NVLink as of the part that is not cut", kHalfLinks);
  }
  return WithMemory(std::string(named), row);
}

std::string NetworkOfRow(const PublishedRow& row, const std::string& gpu) {
  if (InRacks(gpu)) {
    return gpu == "gpus/gb300" ? "networks/nvl72-800" : "networks/nvl72";
  }
  const bool ampere = gpu.starts_with("gpus/a100");
  std::string_view named = row.Meaning("network");
  if (named.empty() && !ampere) {
    named = row.Meaning("network of framework");
  }
  if (!named.empty()) {
    return std::string(named);
  }
  row.Assume("network: as in a DGX of the GPU's generation");
  if (ampere) {
    return "networks/dgx-a100";
  }
  if (gpu == "gpus/v100") {
    return "networks/dgx-2";
  }
  if (gpu == "gpus/b300") {
    return "networks/dgx-b300";
  }
  return gpu == "gpus/b200" ? "networks/dgx-b200" : "networks/dgx-h100";
}

// GPUs of a job in one rack. Jobs of several racks take as many nodes of four from each, so that
// groups of expert parallelism do not straddle racks (Slurm: segments).
int32_t GpusOfRack(const PublishedRow& row, int64_t gpus) {
  constexpr int32_t kRack = 72;
  constexpr int32_t kNode = 4;
  if (gpus <= kRack) {
    return kRack;
  }
  row.Assume("racks: equal parts of the job, the largest that fit");
  int32_t part = kRack;
  while (part > kNode && gpus % part != 0) {
    part -= kNode;
  }
  return part;
}

int32_t DomainOfRow(const PublishedRow& row, const std::string& gpu, int64_t gpus) {
  constexpr int32_t kDgx2 = 16;
  constexpr int32_t kUsual = 8;
  if (InRacks(gpu)) {
    return GpusOfRack(row, gpus);
  }
  const int64_t stated = row.Integer("gpus_per_node").value_or(gpu == "gpus/v100" ? kDgx2 : kUsual);
  return static_cast<int32_t>(std::clamp<int64_t>(stated, 1, 1024));
}

// Leaving each Blackwell GPU in turn out of the fit of its generation costs 9 % in the median
// (experiments/fit, --hold-out gpu); those in the fit have their own clock.
void NoteUnfitted(const PublishedRow& row, const std::string& gpu) {
  constexpr double kOfClass = 0.06;
  constexpr double kPrior = 0.12;
  if (InRacks(gpu) || gpu == "gpus/b200" || gpu == "gpus/b300") {
    row.Assume("GPU: efficiencies fitted to its generation", kOfClass);
  } else if (gpu == "gpus/v100" || gpu == "gpus/l40s" || gpu.starts_with("gpus/mi3")) {
    row.Assume("GPU: efficiencies of its generation, not fitted", kPrior);
  }
}

}  // namespace

RowCluster ClusterOfRow(const PublishedRow& row, int64_t gpus) {
  RowCluster cluster;
  cluster.gpu = GpuOfRow(row);
  NoteUnfitted(row, cluster.gpu);
  cluster.network = NetworkOfRow(row, cluster.gpu);
  cluster.gpus_per_node = DomainOfRow(row, cluster.gpu, gpus);
  cluster.profiles = {"nccl/2.30", "spread/published", cluster.gpu,
                      "frameworks/" + std::string(FrameworkOfRow(row).profile_name),
                      cluster.network};
  if (const std::string nccl = NcclOfTime(FrameworkOfRow(row)); !nccl.empty()) {
    cluster.profiles.insert(cluster.profiles.begin() + 1, nccl);
  }
  return cluster;
}

}  // namespace prism::launch
