#include "slicer/import/astra/network_file.h"

#include <cmath>
#include <iterator>

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

// The key and list of one line: "npus_count: [ 8, 16 ]".
struct Entry {
  std::string_view key;
  std::vector<std::string_view> values;
};

class NetworkReader {
 public:
  NetworkReader(std::string_view text, const std::string& file) : lines_(text, file) {}

  Result<AstraNetwork> Read() {
    // The JSON form differs only in braces and quotes.
    while (!lines_.AtEnd()) {
      const std::string_view whole = lines_.Next();
      const std::string_view bare = Trimmed(whole.substr(0, whole.find('#')));
      if (!bare.empty() && bare != "{" && bare != "}") {
        PRISM_RETURN_IF_ERROR(ReadLine(bare));
      }
    }
    PRISM_RETURN_IF_ERROR(Check());
    return std::move(network_);
  }

 private:
  Status ReadLine(std::string_view text) {
    const size_t colon = text.find(':');
    const size_t begin = text.find('[');
    const size_t end = text.find(']');
    if (colon == std::string_view::npos || begin == std::string_view::npos || begin < colon ||
        end == std::string_view::npos || end < begin) {
      return lines_.Wrong("a key with a list on one line is expected: npus_count: [ 8, 16 ]");
    }
    if (text.find_first_not_of(",} \t\r\"'", end + 1) != std::string_view::npos) {
      return lines_.Wrong("there is more after the list; put one key and its list on a line");
    }
    Entry entry = {Trimmed(text.substr(0, colon)), {}};
    if (entry.key.starts_with('{')) {
      entry.key = Trimmed(entry.key.substr(1));
    }
    std::string_view list = text.substr(begin + 1, end - begin - 1);
    while (!Trimmed(list).empty()) {
      const size_t comma = list.find(',');
      entry.values.push_back(Trimmed(list.substr(0, comma)));
      list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    }
    return Take(entry);
  }

  Status Take(const Entry& entry) {
    if (entry.key == "topology") {
      network_.topology.assign(entry.values.begin(), entry.values.end());
      return OkStatus();
    }
    if (entry.key == "npus_count" || entry.key == "logical-dims") {
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
    for (const size_t size :
         {network_.topology.size(), network_.bandwidth.size(), network_.latency.size()}) {
      if (size != 0 && size != dims) {
        return lines_.Wrong(
            fmt::format("npus_count has {} dimensions, but another key has {}", dims, size));
      }
    }
    return OkStatus();
  }

  LineReader lines_;
  AstraNetwork network_;
};

}  // namespace

Result<AstraNetwork> ParseAstraNetwork(std::string_view text, const std::string& file) {
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
