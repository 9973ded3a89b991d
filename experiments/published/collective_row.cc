#include "experiments/published/collective_row.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <regex>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/divide.h"
#include "graph/base/enum_names.h"
#include "graph/base/lower_case.h"

#include "experiments/published/published_row.h"

namespace prism::launch {
namespace {

using graph::CollectiveKind;
using replayer::NcclAlgorithm;

constexpr EnumNames<CollectiveKind, 8> kKinds = {
    {{CollectiveKind::kAllReduce, "all_reduce"},
     {CollectiveKind::kAllGather, "all_gather"},
     {CollectiveKind::kReduceScatter, "reduce_scatter"},
     {CollectiveKind::kBroadcast, "broadcast"},
     {CollectiveKind::kReduce, "reduce"},
     {CollectiveKind::kAllToAll, "alltoall"},
     {CollectiveKind::kGather, "gather"},
     {CollectiveKind::kScatter, "scatter"}}};

// Without separators, in lower case.
std::string LettersOf(const std::string& name) {
  return LowerCase(std::regex_replace(name, std::regex("[-_ /]"), ""));
}

// nccl-tests' name for a collective written with other case or separators, or as its program
// ("AllReduce", "all-reduce", "all_reduce_perf"); the text itself if there is none.
std::string CollectiveNamed(const std::string& text) {
  std::string plain = LettersOf(text);
  if (constexpr std::string_view kProgram = "perf"; plain.ends_with(kProgram)) {
    plain.resize(plain.size() - kProgram.size());
  }
  std::vector<std::string> names = AllNames(kKinds);
  names.emplace_back("sendrecv");
  const auto named = std::ranges::find(names, plain, LettersOf);
  return named == names.end() ? text : *named;
}

double Number(const std::string& text) {
  return text.empty() ? 0 : std::strtod(text.c_str(), nullptr);
}

// 227 of "2.27.7", "v2.27.7-1" or "NCCL 2.27"; 0 if none is stated.
int32_t ReleaseNamed(const std::string& text) {
  const size_t major = text.find("2.");
  const double minor = major == std::string::npos ? 0 : Number(text.substr(major + 2));
  return minor >= 1 && minor < 100 ? 200 + static_cast<int32_t>(minor) : 0;
}

// A rate in any spelling of its unit, and what multiplies it: "8 x 400 Gb/s", "HDR 200Gbps".
const std::regex& Nics() {
  static const std::regex nics(
      "(?:([0-9]+) *(?:x|\xC3\x97) *)?(?:([0-9]+) ?| )(?:gb/s|gbit/s|gbps)");
  return nics;
}

// One NIC if the text says so or gives a rate for the whole node; as many as the profile has if it
// gives only the rate.
void ReadNics(const PublishedRow& row, CollectivePlatform* platform) {
  const std::string text = row.Lower("interconnect");
  std::smatch found;
  if (!std::regex_search(text, found, Nics())) {
    return;
  }
  platform->nic_bytes_per_s = Number(found[2]) * 1e9 / 8;
  platform->nics_per_node =
      found[1].matched ? std::max(1.0, Number(found[1])) : (row.Is("one nic") ? 1 : 0);
}

// "SHARP disabled", "no NVLS", "NVLS off".
bool Denies(const std::string& text, const std::string& name) {
  return Matches("*" + name + " disabled*", text) || Matches("*" + name + " off*", text) ||
         Matches("*no " + name + "*", text) || Matches("*without " + name + "*", text);
}

// The first that is named and not denied.
constexpr EnumNames<NcclAlgorithm, 7> kForced = {{{NcclAlgorithm::kNvlsTree, "nvlstree"},
                                                  {NcclAlgorithm::kNvlsTree, "nvls_tree"},
                                                  {NcclAlgorithm::kRing, "ring"},
                                                  {NcclAlgorithm::kTree, "tree"},
                                                  {NcclAlgorithm::kCollNet, "collnet"},
                                                  {NcclAlgorithm::kCollNet, "sharp"},
                                                  {NcclAlgorithm::kNvls, "nvls"}}};

std::optional<NcclAlgorithm> ForcedAlgorithm(const std::string& text, bool one_node) {
  if (Matches("*auto*", text)) {
    return std::nullopt;
  }
  for (const auto& [algorithm, name] : kForced) {
    if (Matches(std::string("*") + name + "*", text) && !Denies(text, name)) {
      return one_node && algorithm == NcclAlgorithm::kCollNet ? NcclAlgorithm::kNvls : algorithm;
    }
  }
  return Denies(text, "nvls") || (one_node && Denies(text, "sharp"))
             ? std::optional(NcclAlgorithm::kRing)
             : std::nullopt;
}

// If a row does not state them, eight GPUs per node are assumed, and four nodes if it names a
// network; a rack-wide NVLink domain is one node.
void ReadTopology(const PublishedRow& said, CollectiveRow* row) {
  constexpr int32_t kRack = 72;
  const bool rack = said.Is("racks");
  auto a_node = static_cast<int32_t>(Number(said.Text("gpus_per_node")));
  auto nodes = static_cast<int32_t>(Number(said.Text("nodes")));
  auto size = static_cast<int32_t>(Number(said.Text("num_gpus")));
  a_node = a_node > 0 ? a_node : (rack ? kRack : 8);
  if (nodes <= 0 && size <= 0) {
    const bool named = said.Is("rdma") || std::regex_search(said.Lower("interconnect"), Nics());
    nodes = named ? 4 : 1;
  }
  if (nodes <= 0) {
    nodes = DivideUp(size, a_node);
  }
  size = size > 0 ? size : nodes * a_node;
  if (rack) {  // trays of four GPUs are not nodes to NCCL
    a_node = kRack;
    nodes = DivideUp(size, a_node);
  }
  row->platform.gpus_per_node = a_node;
  row->topology = {size, nodes, DivideUp(size, nodes), 1};
}

void ReadPlatform(const PublishedRow& said, CollectiveRow* row) {
  CollectivePlatform& platform = row->platform;
  platform.gpu = said.Meaning("collective gpu");
  if (platform.gpu.empty()) {
    platform.gpu = "gpus/h100-80";
    if (!said.Text("gpu").empty()) {
      row->reason_skipped = fmt::format("GPU '{}' has no profile", said.Text("gpu"));
    }
  }
  platform.network = said.Meaning("collective network");
  if (platform.network.starts_with("networks/dgx-") && row->topology.nodes > 1) {
    ReadNics(said, &platform);
  }
  platform.nccl_release = ReleaseNamed(said.Text("nccl_version"));
  if (platform.network == "networks/ml-engineering-a100") {
    platform.gpu = "gpus/a100-80";
  }
}

void ReadShape(const PublishedRow& said, CollectiveRow* row) {
  row->shape.dtype = DataType::kFloat32;
  row->shape.bytes = static_cast<int64_t>(Number(said.Text("size_bytes")));
  row->saturated = row->shape.bytes == 0;
  if (row->saturated) {
    row->shape.bytes = kSaturatedBytes;
  }
  if (const Status known = SetCollective(row->collective, row); !known.ok()) {
    row->reason_skipped = known.message();
  }
}

void ReadMeasured(const PublishedRow& said, CollectiveRow* row) {
  const double traffic =
      static_cast<double>(row->shape.bytes) * BusFactor(row->collective, row->topology.size) * 1e-9;
  const auto seconds = [&](const char* time, const char* bandwidth) {
    const double microseconds = Number(said.Text(time));
    const double rate = Number(said.Text(bandwidth));
    return microseconds > 0 ? microseconds * 1e-6 : (rate > 0 ? traffic / rate : 0.0);
  };
  row->measured_s = seconds("time_us", "busbw_gb_s");
  row->measured_in_place_s = seconds("time_inplace_us", "busbw_inplace_gb_s");
  if (row->measured_s == 0) {
    row->measured_s = row->measured_in_place_s;
  }
  const double algbw = Number(said.Text("algbw_gb_s"));
  if (row->measured_s == 0 && algbw > 0) {
    row->measured_s = static_cast<double>(row->shape.bytes) / algbw * 1e-9;
  }
  if (row->measured_s == 0 && row->reason_skipped.empty()) {
    row->reason_skipped = "neither time nor bandwidth printed";
  }
}

CollectiveRow ReadRow(const PublishedRow& said) {
  CollectiveRow row;
  row.id = said.Text("id");
  row.collective = CollectiveNamed(said.Text("collective"));
  ReadTopology(said, &row);
  ReadPlatform(said, &row);
  row.algorithm = ForcedAlgorithm(said.Lower("algo"), row.topology.nodes == 1);
  // A vendor's slide that lists the reduction in the switch separately means the ring if it does
  // not name it.
  if (!row.algorithm.has_value() && row.collective == "all_reduce" && said.Is("slide")) {
    row.algorithm = NcclAlgorithm::kRing;
  }
  row.platform.in_network_reduction = row.algorithm == NcclAlgorithm::kCollNet;
  ReadShape(said, &row);
  ReadMeasured(said, &row);
  row.curve = fmt::format(
      "{} {} {} x {}{}", said.Text("source_ref").substr(0, 48), row.collective, row.topology.size,
      said.Text("gpu").substr(0, 12),
      row.algorithm.has_value() ? fmt::format(" {}", NcclAlgorithmName(*row.algorithm)) : "");
  return row;
}

}  // namespace

double BusFactor(const std::string& collective, int32_t ranks) {
  const double share = (ranks - 1.0) / ranks;
  if (collective == "all_reduce") {
    return 2 * share;
  }
  const bool rooted =
      collective == "broadcast" || collective == "reduce" || collective == "sendrecv";
  return rooted ? 1 : share;
}

Status SetCollective(const std::string& name, CollectiveRow* row) {
  const std::string plain = CollectiveNamed(name);
  row->send_receive = plain == "sendrecv";
  const std::optional<CollectiveKind> kind = ValueNamed(kKinds, plain);
  if (!kind.has_value() && !row->send_receive) {
    return InvalidArgument(fmt::format("unknown collective '{}'; choose one of sendrecv, {}", name,
                                       fmt::join(AllNames(kKinds), ", ")));
  }
  row->shape.kind = kind.value_or(row->shape.kind);
  return OkStatus();
}

Result<std::vector<CollectiveRow>> ReadCollectiveRows(const CsvTable& table) {
  for (const char* column : {"collective", "num_gpus", "size_bytes", "busbw_gb_s"}) {
    if (!table.HasColumn(column)) {
      return BadFile(fmt::format("not a table of collectives: it has no column {}", column));
    }
  }
  std::vector<CollectiveRow> rows;
  for (const PublishedRow& row : PublishedRow(table, 0).RowsOfTable()) {
    rows.push_back(ReadRow(row));
  }
  return rows;
}

std::string LinksOf(const graph::ClusterSpec& cluster) {
  if (cluster.parameters.Value("net.nvlink_bytes_per_s") == 0) {
    return {};
  }
  constexpr std::array<const char*, 4> kNames = {"links/volta", "links/ampere", "links/hopper",
                                                 "links/blackwell"};
  return kNames[static_cast<size_t>(replayer::ArchitectureOf(cluster.gpu.compute_major))];
}

Result<graph::ClusterSpec> ClusterOf(const CollectivePlatform& platform,
                                     const ProfileOverrides& overrides) {
  std::vector<std::string> profiles = {"nccl/2.30", "frameworks/eager", "spread/published",
                                       platform.gpu, platform.network};
  PRISM_ASSIGN_OR_RETURN(graph::ClusterSpec cluster, ComposeCluster(profiles, overrides));
  if (const std::string links = LinksOf(cluster); !links.empty()) {
    profiles.insert(profiles.end() - 1, links);
    PRISM_ASSIGN_OR_RETURN(cluster, ComposeCluster(profiles, overrides));
  }
  cluster.gpus_per_node = platform.gpus_per_node;
  if (platform.nics_per_node > 0) {
    cluster.parameters.SetValue("net.nics_per_node", platform.nics_per_node);
  } else {
    cluster.parameters.SetValue(
        "net.nics_per_node",
        std::min<double>(cluster.parameters.Value("net.nics_per_node"), platform.gpus_per_node));
  }
  if (platform.nic_bytes_per_s > 0) {
    cluster.parameters.SetValue("net.nic_bytes_per_s", platform.nic_bytes_per_s);
  }
  if (platform.nccl_release > 0) {
    cluster.parameters.SetValue("nccl.release", platform.nccl_release);
  }
  if (platform.in_network_reduction) {
    cluster.parameters.SetValue("net.in_network_reduction", 1);
  }
  return cluster;
}

CollectivePrediction Predict(const CollectiveRow& row, const replayer::CollectiveCost& cost) {
  if (row.send_receive) {
    const bool same_node = row.topology.nodes == 1;
    return {SecondsFromNs(cost.PeerTransfer(row.shape.bytes, same_node)), std::nullopt};
  }
  const auto choice = cost.Choose(row.shape, row.topology, row.algorithm);
  if (!choice.has_value()) {
    return {SecondsFromNs(cost.Collective(row.shape, row.topology)), std::nullopt};
  }
  return {cost.Seconds(row.shape, row.topology, *choice), choice};
}

}  // namespace prism::launch
