#include "launch/inputs/nccl_topology.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "graph/base/parse_number.h"

namespace prism::launch {
namespace {

constexpr std::string_view kQuotes = "\"'";
constexpr double kBytesPerMegabit = 1e6 / 8;
constexpr int64_t kMostGpus = 65'536;  // of a node, as replayer/cost/parameters.cc

// Bytes per second of one NVLink in one direction, from that compute capability on.
constexpr std::pair<int64_t, double> kLinkRates[] = {
    {100, 50e9}, {87, 25e9}, {86, 14.0625e9}, {70, 25e9}, {0, 20e9}};

constexpr std::pair<int64_t, const char*> kPresets[] = {
    {80, "a100-80-8x"}, {89, "l40s-8x"},  {90, "h100-8x"},
    {100, "b200-8x"},   {103, "b300-8x"}, {120, "rtx-pro-6000-8x"}};

// One start tag: its name and attributes.
struct Tag {
  std::string_view name;
  std::map<std::string_view, std::string_view> attributes;

  [[nodiscard]] double Number(std::string_view key) const {
    const auto found = attributes.find(key);
    double number = 0;
    return found != attributes.end() && ParseNumber(found->second, &number) ? number : 0;
  }
};

std::string_view WordAt(std::string_view text) {
  return text.substr(0, text.find_first_of(" \t\r\n=/>"));
}

Tag TagIn(std::string_view text) {
  Tag tag = {WordAt(text), {}};
  text.remove_prefix(tag.name.size());
  for (size_t at = text.find_first_of(kQuotes); at != std::string_view::npos;
       at = text.find_first_of(kQuotes)) {
    const size_t end = text.find(text[at], at + 1);
    const std::string_view before = text.substr(0, at);
    const size_t begin = before.find_first_not_of(" \t\r\n");
    if (end == std::string_view::npos || begin == std::string_view::npos) {
      break;
    }
    tag.attributes[WordAt(before.substr(begin))] = text.substr(at + 1, end - at - 1);
    text.remove_prefix(end + 1);
  }
  return tag;
}

// Goes through the tags in order; how they are nested is not needed.
class TopologyReader {
 public:
  Result<NcclTopology> Read(std::string_view text, const std::string& file) {
    bool is_system = false;
    for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<')) {
      text.remove_prefix(at + 1);
      const size_t end = text.find('>');
      if (end == std::string_view::npos) {
        return BadFile(fmt::format("{}: ends inside a tag; is it cut off?", file));
      }
      const Tag tag = TagIn(text.substr(0, end));
      is_system = is_system || tag.name == "system";
      Take(tag);
      text.remove_prefix(end + 1);
    }
    if (!is_system || topology_.gpus == 0 || topology_.gpus > kMostGpus) {
      return BadFile(fmt::format("{}: {}; let a job write it with NCCL_TOPO_DUMP_FILE", file,
                                 !is_system            ? "no topology of NCCL's: it has no <system>"
                                 : topology_.gpus == 0 ? "the topology has no <gpu>"
                                                       : "the topology has more than 65,536 GPUs"));
    }
    EndGpu();
    topology_.links = std::max<int64_t>(least_links_, 0);
    int64_t nets = 0;
    for (const auto& [rate, count] : nets_) {
      nets += count;
      topology_.nics = count;
      topology_.nic_bytes_per_s = rate;
    }
    topology_.slower_nics = nets - topology_.nics;
    return topology_;
  }

 private:
  void Take(const Tag& tag) {
    if (tag.name == "gpu") {
      EndGpu();
      links_ = 0;
      const double compute = tag.Number("sm");
      if (topology_.gpus == 0 && compute > 0 && compute < 1000) {
        topology_.compute = static_cast<int64_t>(compute);
      }
      ++topology_.gpus;
    } else if (tag.name == "nvlink") {
      const double count = tag.Number("count");
      links_ += count > 0 && count < 1e6 ? static_cast<int64_t>(count) : 0;
    } else if (tag.name == "net") {
      const double speed = tag.Number("speed");
      if (speed > 0 && speed < 1e9) {
        ++nets_[speed * kBytesPerMegabit];
      }
    }
  }

  void EndGpu() {
    if (topology_.gpus > 0) {
      least_links_ = least_links_ < 0 ? links_ : std::min(least_links_, links_);
    }
  }

  NcclTopology topology_;
  int64_t links_ = 0;  // of the GPU before
  int64_t least_links_ = -1;
  std::map<double, int64_t> nets_;  // by rate
};

void Put(const char* key, double value, const std::string& source, graph::ClusterSpec* cluster) {
  if (const graph::Parameter* known = cluster->parameters.Find(key); known != nullptr) {
    cluster->parameters.Put({{key, value, known->unit, source, graph::Mark::kMeasured}});
  }
}

}  // namespace

Result<NcclTopology> ParseNcclTopology(std::string_view text, const std::string& file) {
  return TopologyReader().Read(text, file);
}

std::string PresetOfCompute(int64_t compute) {
  const auto* const found =
      std::ranges::find(kPresets, compute, [](const auto& one) { return one.first; });
  return found == std::end(kPresets) ? "" : found->second;
}

void UseNcclTopology(const NcclTopology& topology,
                     const std::string& file,
                     graph::ClusterSpec* cluster,
                     std::vector<std::string>* notes) {
  const std::string source = "NCCL's topology " + file;
  cluster->gpus_per_node = static_cast<int32_t>(topology.gpus);
  if (topology.links > 0) {
    const auto* const rate = std::ranges::find_if(
        kLinkRates, [&](const auto& one) { return topology.compute >= one.first; });
    Put("net.nvlink_bytes_per_s", static_cast<double>(topology.links) * rate->second, source,
        cluster);
  } else {
    notes->push_back("no NVLink: inside a node the rate is that of the base");
  }
  if (topology.nics > 0) {
    Put("net.nics_per_node", static_cast<double>(topology.nics), source, cluster);
    Put("net.nic_bytes_per_s", topology.nic_bytes_per_s, source, cluster);
  } else {
    notes->push_back("no NIC: between nodes the network is that of the base");
  }
  if (topology.slower_nics > 0) {
    notes->push_back(
        fmt::format("NICs slower than the fastest are left out: {}", topology.slower_nics));
  }
  notes->push_back("efficiencies and latencies are those of the base");
}

}  // namespace prism::launch
