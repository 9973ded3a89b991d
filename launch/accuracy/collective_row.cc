#include "launch/accuracy/collective_row.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/base/divide.h"

namespace prism::launch {
namespace {

using graph::CollectiveKind;
using replayer::NcclAlgorithm;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// First that matches; "" matches everything.
struct NetworkRule {
  std::string_view source;
  std::string_view gpu;
  std::string_view interconnect;
  std::string_view network;
};
constexpr auto kNetworkRules = std::to_array<NetworkRule>({
    {"vTrain trace/a100", "", "", "networks/vtrain-node"},
    {"vTrain trace/v100", "", "", "networks/dgx-1v"},
    {"", "p4de", "", "networks/aws-p4de"},
    {"", "p5.48", "", "networks/aws-p5"},
    {"", "p5en", "", "networks/aws-p5en"},
    {"P6-B200", "", "", "networks/aws-p6-b200"},
    {"", "", "TCPXO", "networks/gcp-a3-mega"},
    {"S62129 plot", "", "", "networks/dgx-h100-superpod"},
    {"2411.13055", "", "", "networks/h100-scaling-study"},
    {"Ultra-Scale", "", "", "networks/ultrascale-chart"},
    {"benchmarks/README.md example", "", "", "networks/ml-engineering-a100"},
    {"ml-engineering network/README.md", "A100", "", "networks/ml-engineering-a100"},
    {"ml-engineering network/README.md", "H200", "", "networks/aws-p5en"},
    {"", "", "PCIe 6", "networks/pcie-6"},
    {"", "V100", "", "networks/dgx-1v"},
    {"", "A100", "", "networks/dgx-a100"},
    {"", "B200", "", "networks/dgx-b200"},
    {"dgxc-benchmarking", "H100", "", "networks/dgx-h100-node"},
    {"", "", "", "networks/dgx-h100-superpod"},
});

struct GpuRule {
  std::string_view gpu;
  std::string_view profile;
};
constexpr auto kGpuRules = std::to_array<GpuRule>({
    {"A100", "gpus/a100-80"},
    {"V100", "gpus/v100"},
    {"GB300", "gpus/gb300"},
    {"GB200", "gpus/gb200"},
    {"B300", "gpus/b300"},
    {"B200", "gpus/b200"},
    {"GH200", "gpus/gh200"},
    {"H200", "gpus/h200"},
    {"PCIe", "gpus/h100-pcie"},
    {"H100", "gpus/h100-80"},
});

struct KindName {
  std::string_view name;
  CollectiveKind kind;
};
constexpr auto kKinds = std::to_array<KindName>({
    {"all_reduce", CollectiveKind::kAllReduce},
    {"all_gather", CollectiveKind::kAllGather},
    {"reduce_scatter", CollectiveKind::kReduceScatter},
    {"broadcast", CollectiveKind::kBroadcast},
    {"reduce", CollectiveKind::kReduce},
    {"alltoall", CollectiveKind::kAllToAll},
    {"all_to_all", CollectiveKind::kAllToAll},
    {"gather", CollectiveKind::kGather},
    {"scatter", CollectiveKind::kScatter},
});

double Number(const std::string& text) {
  return text.empty() ? 0 : std::strtod(text.c_str(), nullptr);
}

// "8 x 400 Gb/s", "400 Gb/s per NIC"; nothing where the text states no NICs.
void ReadNics(const std::string& interconnect, CollectivePlatform* platform) {
  const size_t unit = interconnect.find(" Gb/s");
  if (unit == std::string::npos) {
    return;
  }
  size_t begin = interconnect.find_last_not_of("0123456789", unit - 1);
  begin = begin == std::string::npos ? 0 : begin + 1;
  const double gigabits = Number(interconnect.substr(begin, unit - begin));
  double nics = 1;
  if (begin >= 3 && interconnect.substr(begin - 3, 3) == " x ") {
    const size_t digit = interconnect.find_last_not_of("0123456789", begin - 4);
    nics = Number(interconnect.substr(digit == std::string::npos ? 0 : digit + 1));
  }
  platform->nics_per_node = std::max(1.0, nics);
  platform->nic_bytes_per_s = gigabits * 1e9 / 8;
}

std::optional<NcclAlgorithm> ForcedAlgorithm(const std::string& text, bool one_node) {
  if (Contains(text, "auto")) {
    return std::nullopt;
  }
  if (Contains(text, "NVLSTree")) {
    return NcclAlgorithm::kNvlsTree;
  }
  if (Contains(text, "Ring")) {
    return NcclAlgorithm::kRing;
  }
  if (Contains(text, "Tree")) {
    return NcclAlgorithm::kTree;
  }
  if (Contains(text, "SHARP")) {
    return one_node ? NcclAlgorithm::kNvls : NcclAlgorithm::kCollNet;
  }
  if (Contains(text, "NVLS")) {
    return NcclAlgorithm::kNvls;
  }
  return std::nullopt;
}

// Reads one row of the table by column.
class RowReader {
 public:
  RowReader(const CsvTable& table, size_t row) : table_(table), row_(row) {}

  CollectiveRow Read() {
    CollectiveRow row;
    row.id = Text("id");
    row.collective = Text("collective");
    ReadTopology(&row);
    ReadPlatform(&row);
    row.algorithm = ForcedAlgorithm(Text("algo"), row.topology.nodes == 1);
    // A vendor's slide that lists the reduction in the switch apart means the ring where it does
    // not name it.
    if (!row.algorithm.has_value() && row.collective == "all_reduce" &&
        Contains(Text("source_ref"), " slide")) {
      row.algorithm = NcclAlgorithm::kRing;
    }
    row.platform.in_network_reduction = row.algorithm == NcclAlgorithm::kCollNet;
    ReadShape(&row);
    ReadMeasured(&row);
    row.curve = fmt::format(
        "{} {} {} x {}{}", Text("source_ref").substr(0, 48), row.collective, row.topology.size,
        Text("gpu").substr(0, 12),
        row.algorithm.has_value() ? fmt::format(" {}", NcclAlgorithmName(*row.algorithm)) : "");
    return row;
  }

 private:
  [[nodiscard]] const std::string& Text(std::string_view column) const {
    return table_.Field(row_, column);
  }

  // What a row does not state is taken to be eight GPUs a node, four nodes where it names a
  // network; a rack-wide NVLink domain is one node.
  void ReadTopology(CollectiveRow* row) const {
    const std::string& interconnect = Text("interconnect");
    const bool rack = Contains(Text("gpu"), "NVL72");
    auto a_node = static_cast<int32_t>(Number(Text("gpus_per_node")));
    auto nodes = static_cast<int32_t>(Number(Text("nodes")));
    auto size = static_cast<int32_t>(Number(Text("num_gpus")));
    a_node = a_node > 0 ? a_node : (rack ? 72 : 8);
    if (nodes <= 0 && size <= 0) {
      nodes = Contains(interconnect, "RDMA") || Contains(interconnect, "Gb/s") ? 4 : 1;
    }
    if (nodes <= 0) {
      nodes = DivideUp(size, a_node);
    }
    size = size > 0 ? size : nodes * a_node;
    row->platform.gpus_per_node = a_node;
    row->topology = {size, nodes, DivideUp(size, nodes), 1};
  }

  void ReadPlatform(CollectiveRow* row) const {
    CollectivePlatform& platform = row->platform;
    platform.gpu = "gpus/h100-80";
    for (const GpuRule& rule : kGpuRules) {
      if (Contains(Text("gpu"), rule.gpu)) {
        platform.gpu = rule.profile;
        break;
      }
    }
    for (const NetworkRule& rule : kNetworkRules) {
      if (Contains(Text("source_ref"), rule.source) && Contains(Text("gpu"), rule.gpu) &&
          Contains(Text("interconnect"), rule.interconnect)) {
        platform.network = rule.network;
        break;
      }
    }
    const bool generic = platform.network.starts_with("networks/dgx-");
    if (generic && row->topology.nodes > 1) {
      ReadNics(Text("interconnect"), &platform);
    }
    if (platform.network == "networks/ml-engineering-a100") {
      platform.gpu = "gpus/a100-80";
    }
  }

  void ReadShape(CollectiveRow* row) const {
    row->shape.dtype = graph::DataType::kFloat32;
    row->shape.bytes = static_cast<int64_t>(Number(Text("size_bytes")));
    row->saturated = row->shape.bytes == 0;
    if (row->saturated) {
      row->shape.bytes = kSaturatedBytes;
    }
    if (const Status known = SetCollective(row->collective, row); !known.ok()) {
      row->reason_skipped = known.message();
    }
  }

  void ReadMeasured(CollectiveRow* row) const {
    const double traffic = static_cast<double>(row->shape.bytes) *
                           BusFactor(row->collective, row->topology.size) * 1e-9;
    const auto seconds = [&](const char* time, const char* bandwidth) {
      const double microseconds = Number(Text(time));
      const double rate = Number(Text(bandwidth));
      if (microseconds > 0) {
        return microseconds * 1e-6;
      }
      return rate > 0 ? traffic / rate : 0.0;
    };
    row->measured_s = seconds("time_us", "busbw_gb_s");
    row->measured_in_place_s = seconds("time_inplace_us", "busbw_inplace_gb_s");
    if (row->measured_s == 0) {
      row->measured_s = row->measured_in_place_s;
    }
    const double algbw = Number(Text("algbw_gb_s"));
    if (row->measured_s == 0 && algbw > 0) {
      row->measured_s = static_cast<double>(row->shape.bytes) / algbw * 1e-9;
    }
    if (row->measured_s == 0 && row->reason_skipped.empty()) {
      row->reason_skipped = "neither time nor bandwidth printed";
    }
  }

  const CsvTable& table_;
  size_t row_;
};

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
  row->send_receive = name == "sendrecv";
  const auto* kind = std::find_if(kKinds.begin(), kKinds.end(),
                                  [&](const KindName& known) { return known.name == name; });
  if (kind != kKinds.end()) {
    row->shape.kind = kind->kind;
  } else if (!row->send_receive) {
    std::string known = "sendrecv";
    for (const KindName& entry : kKinds) {
      known += fmt::format(", {}", entry.name);
    }
    return InvalidArgument(fmt::format("collective '{}' is unknown; known: {}", name, known));
  }
  return OkStatus();
}

Result<std::vector<CollectiveRow>> ReadCollectiveRows(const CsvTable& table) {
  for (const char* column : {"collective", "num_gpus", "size_bytes", "busbw_gb_s"}) {
    if (!table.HasColumn(column)) {
      return BadFile(fmt::format("no table of collectives: it has no column {}", column));
    }
  }
  std::vector<CollectiveRow> rows;
  for (size_t row = 0; row < table.row_count(); ++row) {
    rows.push_back(RowReader(table, row).Read());
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
  }
  if (platform.nic_bytes_per_s > 0) {
    cluster.parameters.SetValue("net.nic_bytes_per_s", platform.nic_bytes_per_s);
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
