#include "experiments/published/collective_row.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/base/divide.h"
#include "graph/base/lower_case.h"

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
    {"", "GB300", "", "networks/nvl72-800"},
    {"", "GB200", "", "networks/nvl72"},
    {"", "B300", "", "networks/dgx-b300"},
    {"", "B200", "", "networks/dgx-b200"},
    {"dgxc-benchmarking", "H100", "", "networks/dgx-h100-node"},
    {"", "", "", "networks/dgx-h100-superpod"},
});

struct GpuRule {
  std::string_view gpu;
  std::string_view profile;
};
constexpr auto kGpuRules = std::to_array<GpuRule>({
    {"A100 PCIe", "gpus/a100-pcie"},
    {"A100-PCIe", "gpus/a100-pcie"},
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
    {"gather", CollectiveKind::kGather},
    {"scatter", CollectiveKind::kScatter},
});

// nccl-tests' name for a collective written with other case or separators, or as its program
// ("AllReduce", "all-reduce", "all_reduce_perf"); the text itself if there is none.
std::string CollectiveNamed(const std::string& text) {
  const auto letters = [](std::string_view name) {
    std::string kept;
    for (const char c : name) {
      kept +=
          c == '_' || c == '-' || c == ' ' || c == '/' ? "" : LowerCase(std::string_view(&c, 1));
    }
    return kept;
  };
  std::string plain = letters(text);
  if (constexpr std::string_view kProgram = "perf"; plain.ends_with(kProgram)) {
    plain.resize(plain.size() - kProgram.size());
  }
  if (plain == "sendrecv") {
    return plain;
  }
  for (const KindName& entry : kKinds) {
    if (letters(entry.name) == plain) {
      return std::string(entry.name);
    }
  }
  return text;
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

// "8 x 400 Gb/s", "8x400 Gb/s"; one NIC if it says so or gives a rate for the whole node, and as
// many as the profile has if it gives only the rate; null if the text states no rate. In lower
// case, with " gb/s" for any spelling of the unit: "HDR 200Gb/s", "400 Gbps".
std::string WithOneUnit(const std::string& interconnect) {
  std::string text = LowerCase(interconnect);
  for (const std::string_view unit : {"gbit/s", "gbps"}) {
    for (size_t at = text.find(unit); at != std::string::npos; at = text.find(unit)) {
      text.replace(at, unit.size(), "gb/s");
    }
  }
  for (size_t at = text.find("gb/s"); at != std::string::npos; at = text.find("gb/s", at + 2)) {
    if (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9') {
      text.insert(at, 1, ' ');
    }
  }
  return text;
}

void ReadNics(const std::string& interconnect, CollectivePlatform* platform) {
  const std::string text = WithOneUnit(interconnect);
  const size_t unit = text.find(" gb/s");
  if (unit == std::string::npos || unit == 0) {
    return;
  }
  constexpr const char* kDigits = "0123456789";
  const size_t before = text.find_last_not_of(kDigits, unit - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  platform->nic_bytes_per_s = Number(text.substr(begin, unit - begin)) * 1e9 / 8;
  const bool one = Contains(text, "single nic") || Contains(text, "per node");
  platform->nics_per_node = one ? 1 : 0;
  const size_t times = begin == 0 ? std::string::npos : text.find_last_not_of(' ', begin - 1);
  constexpr std::string_view kTimesSign = "\xC3\x97";
  const bool signed_times = times != std::string::npos && times > 0 &&
                            std::string_view(text).substr(times - 1, 2) == kTimesSign;
  if (times == std::string::npos || (text[times] != 'x' && !signed_times)) {
    return;
  }
  const size_t after = times - (signed_times ? 1 : 0);
  const size_t last = after == 0 ? std::string::npos : text.find_last_not_of(' ', after - 1);
  if (last == std::string::npos || std::isdigit(static_cast<unsigned char>(text[last])) == 0) {
    return;
  }
  const size_t first = text.find_last_not_of(kDigits, last);
  platform->nics_per_node =
      std::max(1.0, Number(text.substr(first == std::string::npos ? 0 : first + 1)));
}

// "SHARP disabled", "no NVLS", "NVLS off".
bool Denies(std::string_view text, const std::string& name) {
  return Contains(text, name + " disabled") || Contains(text, name + " off") ||
         Contains(text, "no " + name) || Contains(text, "without " + name);
}

std::optional<NcclAlgorithm> ForcedAlgorithm(const std::string& said, bool one_node) {
  const std::string text = LowerCase(said);
  if (Contains(text, "auto")) {
    return std::nullopt;
  }
  const auto forces = [&](const char* name) { return Contains(text, name) && !Denies(text, name); };
  if (forces("nvlstree") || forces("nvls_tree")) {
    return NcclAlgorithm::kNvlsTree;
  }
  if (forces("ring")) {
    return NcclAlgorithm::kRing;
  }
  if (forces("tree")) {
    return NcclAlgorithm::kTree;
  }
  if (forces("collnet") || forces("sharp")) {
    return one_node ? NcclAlgorithm::kNvls : NcclAlgorithm::kCollNet;
  }
  if (forces("nvls")) {
    return NcclAlgorithm::kNvls;
  }
  return Denies(text, "nvls") || (one_node && Denies(text, "sharp"))
             ? std::optional(NcclAlgorithm::kRing)
             : std::nullopt;
}

// Reads one row of the table by column.
class RowReader {
 public:
  RowReader(const CsvTable& table, size_t row) : table_(table), row_(row) {}

  CollectiveRow Read() {
    CollectiveRow row;
    row.id = Text("id");
    row.collective = CollectiveNamed(Text("collective"));
    ReadTopology(&row);
    ReadPlatform(&row);
    row.algorithm = ForcedAlgorithm(Text("algo"), row.topology.nodes == 1);
    // A vendor's slide that lists the reduction in the switch separately means the ring if it does
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

  // In any case of letters.
  [[nodiscard]] bool Says(std::string_view column, std::string_view part) const {
    return Contains(LowerCase(Text(column)), LowerCase(part));
  }

  // If a row does not state them, eight GPUs per node are assumed, and four nodes if it names a
  // network; a rack-wide NVLink domain is one node.
  void ReadTopology(CollectiveRow* row) const {
    constexpr int32_t kRack = 72;
    const std::string& interconnect = Text("interconnect");
    const bool rack = Says("gpu", "GB200") || Says("gpu", "GB300");
    auto a_node = static_cast<int32_t>(Number(Text("gpus_per_node")));
    auto nodes = static_cast<int32_t>(Number(Text("nodes")));
    auto size = static_cast<int32_t>(Number(Text("num_gpus")));
    a_node = a_node > 0 ? a_node : (rack ? kRack : 8);
    if (nodes <= 0 && size <= 0) {
      const bool named =
          Says("interconnect", "RDMA") || Contains(WithOneUnit(interconnect), " gb/s");
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

  void ReadPlatform(CollectiveRow* row) const {
    CollectivePlatform& platform = row->platform;
    platform.gpu = "gpus/h100-80";
    const auto* known = std::find_if(kGpuRules.begin(), kGpuRules.end(), [&](const GpuRule& rule) {
      return Contains(LowerCase(Text("gpu")), LowerCase(rule.gpu));
    });
    if (known != kGpuRules.end()) {
      platform.gpu = known->profile;
    } else if (!Text("gpu").empty()) {
      row->reason_skipped = fmt::format("GPU '{}' has no profile", Text("gpu"));
    }
    for (const NetworkRule& rule : kNetworkRules) {
      if (Says("source_ref", rule.source) && Says("gpu", rule.gpu) &&
          Says("interconnect", rule.interconnect)) {
        platform.network = rule.network;
        break;
      }
    }
    const bool generic = platform.network.starts_with("networks/dgx-");
    if (generic && row->topology.nodes > 1) {
      ReadNics(Text("interconnect"), &platform);
    }
    platform.nccl_release = ReleaseNamed(Text("nccl_version"));
    if (platform.network == "networks/ml-engineering-a100") {
      platform.gpu = "gpus/a100-80";
    }
  }

  void ReadShape(CollectiveRow* row) const {
    row->shape.dtype = DataType::kFloat32;
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
  const std::string plain = CollectiveNamed(name);
  row->send_receive = plain == "sendrecv";
  const auto* kind = std::find_if(kKinds.begin(), kKinds.end(),
                                  [&](const KindName& known) { return known.name == plain; });
  if (kind != kKinds.end()) {
    row->shape.kind = kind->kind;
  } else if (!row->send_receive) {
    std::string known = "sendrecv";
    for (const KindName& entry : kKinds) {
      known += fmt::format(", {}", entry.name);
    }
    return InvalidArgument(fmt::format("unknown collective '{}'; choose one of {}", name, known));
  }
  return OkStatus();
}

Result<std::vector<CollectiveRow>> ReadCollectiveRows(const CsvTable& table) {
  for (const char* column : {"collective", "num_gpus", "size_bytes", "busbw_gb_s"}) {
    if (!table.HasColumn(column)) {
      return BadFile(fmt::format("not a table of collectives: it has no column {}", column));
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
