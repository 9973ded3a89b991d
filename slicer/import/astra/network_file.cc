#include "slicer/import/astra/network_file.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/parse_number.h"
#include "graph/validate/limits.h"
#include "slicer/import/astra/words.h"

namespace prism::slicer {
namespace {

constexpr double kGigabyte = 1 << 30;
constexpr double kNano = 1e-9;
constexpr std::string_view kBlanks = " \t\r\n\"'";

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// A key and its values: "npus_count: [ 8, 16 ]".
struct Entry {
  std::string_view key;
  std::vector<std::string_view> values;
};

// Keys of ASTRA-sim 1.0, which describe links: "units-count", "link-bandwidth". What they are
// called since; "": they do not act here.
constexpr std::pair<std::string_view, std::string_view> kOldKeys[] = {
    {"topologies-per-dim", "topology"},
    {"units-count", "npus_count"},
    {"link-bandwidth", "bandwidth"},
    {"link-latency", "latency"},
    {"logical-dims", "npus_count"},
    {"topology-name", ""},
    {"dimensions-count", ""},
    {"dimension-type", ""},
    {"nic-latency", ""},
    {"router-latency", ""},
    {"hbm-latency", ""},
    {"hbm-bandwidth", ""},
    {"hbm-scale", ""}};

// Known to ASTRA-sim's analytical backend.
constexpr std::string_view kTopologies[] = {"Ring", "FullyConnected", "Switch"};

// Reads YAML (lists on one line, over several, or one entry a line; single values) and JSON, whose
// braces and commas between keys are like ends of lines.
class NetworkReader {
 public:
  NetworkReader(std::string_view text, const std::string& file)
      : lines_(text, file), is_json_(Trimmed(text).starts_with('{')) {}

  Result<AstraNetwork> Read() {
    while (!lines_.AtEnd()) {
      std::string_view line = lines_.Next();
      line = line.substr(0, line.find('#'));
      while (!line.empty()) {
        const size_t end = is_json_ ? EndOfPart(line) : line.size();
        PRISM_RETURN_IF_ERROR(ReadPart(Trimmed(line.substr(0, end))));
        line = end < line.size() ? line.substr(end + 1) : std::string_view();
      }
    }
    if (in_list_) {
      return lines_.Wrong("the file ends inside a list");
    }
    PRISM_RETURN_IF_ERROR(TakeEntry());
    PRISM_RETURN_IF_ERROR(Check());
    UseLinks();
    return std::move(network_);
  }

 private:
  // The next brace, or comma outside lists.
  [[nodiscard]] size_t EndOfPart(std::string_view line) const {
    bool in_list = in_list_;
    for (size_t i = 0; i < line.size(); ++i) {
      in_list = line[i] == '[' || (in_list && line[i] != ']');
      if (line[i] == '{' || line[i] == '}' || (line[i] == ',' && !in_list)) {
        return i;
      }
    }
    return line.size();
  }

  Status ReadPart(std::string_view text) {
    if (text.empty() || text == "---" || text == "...") {
      return OkStatus();
    }
    if (in_list_) {
      return ReadList(text);
    }
    if (text.starts_with("- ")) {
      return AddValue(text.substr(1));
    }
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos) {
      return lines_.Wrong("a key with a list is expected: npus_count: [ 8, 16 ]");
    }
    PRISM_RETURN_IF_ERROR(TakeEntry());
    entry_ = Entry{Trimmed(text.substr(0, colon)), {}};
    const std::string_view rest = Trimmed(text.substr(colon + 1));
    if (rest.starts_with('[')) {
      in_list_ = true;
      return ReadList(rest.substr(1));
    }
    if (rest.empty()) {
      return OkStatus();  // its values follow, one a line
    }
    PRISM_RETURN_IF_ERROR(AddValue(rest));
    return TakeEntry();
  }

  // Values up to the end of the list, if it is here.
  Status ReadList(std::string_view list) {
    const size_t end = list.find(']');
    if (end != std::string_view::npos) {
      in_list_ = false;
      if (list.find_first_not_of(",} \t\r\"'", end + 1) != std::string_view::npos) {
        return lines_.Wrong("there is more after the list; put one key and its list on a line");
      }
    }
    list = list.substr(0, end);
    while (!Trimmed(list).empty()) {
      const size_t comma = list.find(',');
      PRISM_RETURN_IF_ERROR(AddValue(list.substr(0, comma)));
      list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    }
    return in_list_ ? OkStatus() : TakeEntry();
  }

  Status AddValue(std::string_view text) {
    if (!entry_) {
      return lines_.Wrong("a value before the first key");
    }
    entry_->values.push_back(Trimmed(text));
    return OkStatus();
  }

  Status TakeEntry() {
    const std::optional<Entry> entry = std::exchange(entry_, std::nullopt);
    return entry ? Take(*entry) : OkStatus();
  }

  Status Take(Entry entry) {
    for (const auto& [old, now] : kOldKeys) {
      if (entry.key == old) {
        network_.ignored += now.empty() ? 1 : 0;
        entry.key = now;
      }
    }
    if (entry.key.empty()) {
      return OkStatus();
    }
    if (entry.key == "topology") {
      for (const std::string_view word : entry.values) {
        if (std::ranges::find(kTopologies, word) == std::end(kTopologies)) {
          return lines_.Wrong(fmt::format("the topology '{}' is unknown; choose one of {}", word,
                                          fmt::join(kTopologies, ", ")));
        }
        network_.topology.emplace_back(word);
      }
      return OkStatus();
    }
    if (entry.key == "links-count") {
      for (const std::string_view value : entry.values) {
        PRISM_RETURN_IF_ERROR(ReadNumber(value, &links_.emplace_back()));
        if (!(links_.back() >= 1) || links_.back() > graph::kMaxRanks) {
          return lines_.Wrong(fmt::format("{} is not a number of links", value));
        }
      }
      return OkStatus();
    }
    if (entry.key == "npus_count") {
      for (const std::string_view value : entry.values) {
        double ranks = 0;
        PRISM_RETURN_IF_ERROR(ReadNumber(value, &ranks));
        if (ranks < 1 || ranks > graph::kMaxRanks || ranks != std::floor(ranks)) {
          return lines_.Wrong(fmt::format("{} is not a number of ranks", value));
        }
        network_.ranks.push_back(static_cast<int64_t>(ranks));
      }
      return OkStatus();
    }
    if (entry.key == "bandwidth" || entry.key == "latency") {
      const bool is_rate = entry.key == "bandwidth";
      for (const std::string_view value : entry.values) {
        double number = 0;
        PRISM_RETURN_IF_ERROR(ReadNumber(value, &number));
        if (!(number >= 0) || (is_rate && number == 0) || !std::isfinite(number)) {
          return lines_.Wrong(fmt::format("{} is no {}", value, entry.key));
        }
        (is_rate ? network_.bandwidth : network_.latency)
            .push_back(number * (is_rate ? kGigabyte : kNano));
      }
      return OkStatus();
    }
    return lines_.Wrong(fmt::format("unknown key '{}'", entry.key));
  }

  Status ReadNumber(std::string_view text, double* number) const {
    return ParseNumber(text, number) ? OkStatus()
                                     : lines_.Wrong(fmt::format("'{}' is not a number", text));
  }

  [[nodiscard]] Status Check() const {
    if (network_.ranks.empty()) {
      return lines_.Wrong("npus_count is missing");
    }
    int64_t places = 1;
    for (const int64_t ranks : network_.ranks) {
      places *= ranks;
      if (places > graph::kMaxRanks) {
        return lines_.Wrong(fmt::format("the network has more than {} places", graph::kMaxRanks));
      }
    }
    const size_t dims = network_.ranks.size();
    for (const size_t size : {network_.topology.size(), network_.bandwidth.size(),
                              network_.latency.size(), links_.size()}) {
      if (size != 0 && size != dims) {
        return lines_.Wrong(
            fmt::format("npus_count has {} dimensions, but another key has {}", dims, size));
      }
    }
    return OkStatus();
  }

  // A rank's links to a switch add up; of those around a ring, half go either way; a full
  // connection has one to each rank.
  void UseLinks() {
    const bool are_rates = links_.size() == network_.bandwidth.size();
    for (size_t dim = 0; are_rates && dim < links_.size() && dim < network_.topology.size();
         ++dim) {
      network_.bandwidth[dim] *= network_.topology[dim] == "Switch" ? links_[dim]
                                 : network_.topology[dim] == "Ring" ? std::max(1.0, links_[dim] / 2)
                                                                    : 1;
    }
  }

  LineReader lines_;
  bool is_json_;
  bool in_list_ = false;
  std::optional<Entry> entry_;  // being read
  std::vector<double> links_;   // of a rank, by dimension; may be empty
  AstraNetwork network_;
};

}  // namespace

Result<AstraNetwork> ParseAstraNetwork(std::string_view text, const std::string& file) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  text.remove_prefix(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
  return NetworkReader(text, file).Read();
}

std::string AstraNetworkText(const AstraNetwork& network) {
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "topology: [ {} ]\n", fmt::join(network.topology, ", "));
  fmt::format_to(out, "npus_count: [ {} ]\n", fmt::join(network.ranks, ", "));
  std::vector<double> rates;
  for (const double rate : network.bandwidth) {
    rates.push_back(rate / kGigabyte);
  }
  fmt::format_to(out, "bandwidth: [ {} ]  # GB/s of 2^30 byte\n", fmt::join(rates, ", "));
  std::vector<double> latencies;
  for (const double latency : network.latency) {
    latencies.push_back(latency / kNano);
  }
  fmt::format_to(out, "latency: [ {} ]  # ns\n", fmt::join(latencies, ", "));
  return text;
}

}  // namespace prism::slicer
