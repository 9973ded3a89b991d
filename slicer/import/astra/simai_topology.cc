#include "slicer/import/astra/simai_topology.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "slicer/import/astra/words.h"

namespace prism::slicer {
namespace {

constexpr int64_t kMaxNodes = int64_t{1} << 21U;
constexpr size_t kHeadWords = 6;
constexpr size_t kLinkWords = 5;
constexpr double kBitsPerByte = 8;
constexpr double kMaxRate = 1e18;  // bit/s

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kRates[] = {{"Gbps", 1e9}, {"Mbps", 1e6}, {"Tbps", 1e12}, {"bps", 1}};
constexpr Unit kTimes[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};

// "400Gbps" → 4e11. Null for other units or negative numbers.
template <size_t kCount>
std::optional<double> WithUnit(std::string_view text, const Unit (&units)[kCount]) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number >= 0) || number > kMaxRate) {
    return std::nullopt;
  }
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  for (const Unit& known : units) {
    if (unit == known.name) {
      return number * known.factor;
    }
  }
  return std::nullopt;
}

// The links of one GPU to the switches of one kind.
struct Side {
  double bandwidth = 0;  // bit/s, of all its links
  double latency = 0;    // seconds, of its slowest link
};

class TopologyReader {
 public:
  TopologyReader(std::string_view text, const std::string& file) : lines_(text, file) {}

  Result<AstraNetwork> Read() {
    PRISM_RETURN_IF_ERROR(ReadHead());
    lines_.Next();  // switches: those after the GPUs
    for (int64_t link = 0; link < links_; ++link) {
      if (lines_.AtEnd()) {
        return lines_.Wrong(
            fmt::format("the file ends after {} of {} links; is it cut off?", link, links_));
      }
      PRISM_RETURN_IF_ERROR(ReadLink());
    }
    if (!(nvlink_.bandwidth > 0)) {
      return lines_.Wrong("GPU 0 has no link to a switch of its server");
    }
    AstraNetwork network;
    network.topology = {"Switch"};
    network.ranks = {per_server_};
    network.bandwidth = {nvlink_.bandwidth / kBitsPerByte};
    network.latency = {nvlink_.latency};
    if (gpus_ > per_server_) {
      if (!(nic_.bandwidth > 0)) {
        return lines_.Wrong("GPU 0 has no link to a switch of the network");
      }
      network.topology.emplace_back("Switch");
      network.ranks.push_back(gpus_ / per_server_);
      network.bandwidth.push_back(nic_.bandwidth / kBitsPerByte);
      network.latency.push_back(nic_.latency);
    }
    return network;
  }

 private:
  Status ReadHead() {
    const std::vector<std::string_view> words = Words(lines_.Next());
    std::vector<int64_t> numbers;
    for (size_t i = 0; i + 1 < kHeadWords && i < words.size(); ++i) {
      const std::optional<int64_t> number = NumberOf(words[i]);
      if (!number.has_value() || *number < 0 || *number > kMaxNodes * 64) {
        return lines_.Wrong(fmt::format("'{}' is not a count", words[i]));
      }
      numbers.push_back(*number);
    }
    if (words.size() != kHeadWords) {
      return lines_.Wrong(
          "nodes, GPUs a server, NVSwitches, switches, links and the GPU are expected");
    }
    per_server_ = numbers[1];
    gpus_ = numbers[0] - numbers[2] - numbers[3];
    first_network_switch_ = gpus_ + numbers[2];
    nodes_ = numbers[0];
    links_ = numbers[4];
    if (gpus_ < 1 || nodes_ > kMaxNodes || per_server_ < 1 || gpus_ % per_server_ != 0) {
      return lines_.Wrong(
          fmt::format("{} GPUs do not fill servers of {} GPUs", gpus_, per_server_));
    }
    return OkStatus();
  }

  Status ReadLink() {
    const std::vector<std::string_view> words = Words(lines_.Next());
    if (words.size() != kLinkWords) {
      return lines_.Wrong("a link is: from, to, bandwidth, latency, error rate");
    }
    const std::optional<int64_t> from = NumberOf(words[0]);
    const std::optional<int64_t> to = NumberOf(words[1]);
    const std::optional<double> rate = WithUnit(words[2], kRates);
    const std::optional<double> latency = WithUnit(words[3], kTimes);
    if (!from.has_value() || !to.has_value() || *from < 0 || *to < 0 || *from >= nodes_ ||
        *to >= nodes_) {
      return lines_.Wrong(
          fmt::format("'{}' or '{}' is not one of the {} nodes", words[0], words[1], nodes_));
    }
    if (!rate.has_value() || !latency.has_value()) {
      return lines_.Wrong(
          fmt::format("'{}' is not a bandwidth or '{}' is not a latency", words[2], words[3]));
    }
    if (*from == 0 && *to >= gpus_) {
      Side& side = *to < first_network_switch_ ? nvlink_ : nic_;
      side.bandwidth += *rate;
      side.latency = std::max(side.latency, *latency);
    }
    return OkStatus();
  }

  LineReader lines_;
  int64_t nodes_ = 0;
  int64_t gpus_ = 0;
  int64_t per_server_ = 1;
  int64_t first_network_switch_ = 0;
  int64_t links_ = 0;
  Side nvlink_;
  Side nic_;
};

}  // namespace

bool IsSimAiTopology(std::string_view text) {
  const std::vector<std::string_view> words = Words(text.substr(0, text.find('\n')));
  return words.size() == kHeadWords && NumberOf(words.front()).has_value();
}

Result<AstraNetwork> ParseSimAiTopology(std::string_view text, const std::string& file) {
  return TopologyReader(text, file).Read();
}

}  // namespace prism::slicer
