#include "replayer/report/link_report.h"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "graph/base/units.h"

namespace prism::replayer {
namespace {

struct KindOfLink {
  int64_t busy = 0;
  double bytes = 0;
  const LinkLoad* largest = nullptr;

  // Largest over mean of the links that carry anything.
  [[nodiscard]] double Ratio() const {
    return bytes > 0 ? largest->bytes * static_cast<double>(busy) / bytes : 0;
  }
};

std::map<std::string, KindOfLink> KindsOf(const LinkLoads& loads) {
  std::map<std::string, KindOfLink> kinds;
  for (const LinkLoad& link : loads.links) {
    KindOfLink& kind = kinds[link.kind];
    ++kind.busy;
    kind.bytes += link.bytes;
    if (kind.largest == nullptr || link.bytes > kind.largest->bytes) {
      kind.largest = &link;
    }
  }
  return kinds;
}

double ShareOf(const LinkLoad& link, double iteration_s) {
  return iteration_s > 0 ? link.bytes / link.bytes_per_s / iteration_s : 0;
}

}  // namespace

std::string LinkLoadsText(const LinkLoads& loads) {
  constexpr size_t kShown = 10;
  std::string text = "loads of links in an iteration, each direction by itself\n";
  text += fmt::format("  {:<16}{:>8}{:>8}{:>14}{:>14}{:>14}\n", "kind", "links", "busy", "mean",
                      "largest", "largest/mean");
  for (const auto& [name, kind] : KindsOf(loads)) {
    const double mean = kind.bytes / static_cast<double>(kind.busy);
    text += fmt::format("  {:<16}{:>8}{:>8}{:>14}{:>14}{:>14.3f}\n", name, loads.counts.at(name),
                        kind.busy, FormatBytes(static_cast<int64_t>(mean)),
                        FormatBytes(static_cast<int64_t>(kind.largest->bytes)), kind.Ratio());
  }
  std::vector<const LinkLoad*> busiest;
  for (const LinkLoad& link : loads.links) {
    busiest.push_back(&link);
  }
  std::ranges::stable_sort(busiest, [&](const LinkLoad* a, const LinkLoad* b) {
    return ShareOf(*a, 1) > ShareOf(*b, 1);
  });
  busiest.resize(std::min(busiest.size(), kShown));
  for (const LinkLoad* link : busiest) {
    text += fmt::format("  {:<32}{:>14}{:>8.1f} % of the iteration at full speed\n", link->name,
                        FormatBytes(static_cast<int64_t>(link->bytes)),
                        100 * ShareOf(*link, loads.iteration_s));
  }
  return text;
}

void WriteLinkLoads(const LinkLoads& loads, JsonWriter* json) {
  json->BeginObject().Key("kinds").BeginArray();
  for (const auto& [name, kind] : KindsOf(loads)) {
    json->BeginObject().Field("kind", name).Field("links", loads.counts.at(name));
    json->Field("busy", kind.busy).Field("mean_bytes", kind.bytes / static_cast<double>(kind.busy));
    json->Field("largest_bytes", kind.largest->bytes).Field("largest_over_mean", kind.Ratio());
    json->EndObject();
  }
  json->EndArray().Key("links").BeginArray();
  for (const LinkLoad& link : loads.links) {
    json->BeginObject().Field("link", link.name).Field("bytes", link.bytes);
    json->Field("share", ShareOf(link, loads.iteration_s)).EndObject();
  }
  json->EndArray().EndObject();
}

}  // namespace prism::replayer
