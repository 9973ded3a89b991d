#include "launch/inputs/host_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include <fmt/format.h>

#include "graph/describe.h"
#include "graph/job/names.h"
#include "launch/inputs/toml_reader.h"

namespace prism::launch {
namespace {

using graph::HostTime;
using graph::OpKind;

constexpr int64_t kMostCalls = int64_t{1} << 40;
constexpr int64_t kLongestNs = 1'000'000'000;
constexpr const char* kProduct = "product";

std::string SortName(const HostTime& sort) {
  return sort.is_product ? kProduct : graph::OpKindName(sort.kind);
}

// By kind, then the others; the last is kProduct.
std::vector<std::string> SortNames() {
  std::vector<std::string> names;
  for (uint8_t kind = 0; kind < graph::kOpKindCount; ++kind) {
    names.emplace_back(graph::OpKindName(static_cast<OpKind>(kind)));
  }
  names.emplace_back(kProduct);
  return names;
}

auto Key(const HostTime& sort) {
  return std::tuple(sort.kind, sort.is_product, sort.phase, sort.framework_ops);
}

HostTime ReadSort(TomlReader reader) {
  HostTime sort;
  const size_t op = reader.Choice("op", SortNames());
  sort.is_product = op == graph::kOpKindCount;
  sort.kind = sort.is_product ? OpKind::kKernel : static_cast<OpKind>(op);
  sort.phase = reader.Choice("phase", graph::kHostPhaseNames);
  sort.framework_ops =
      static_cast<int32_t>(reader.Integer("framework_ops", 0, graph::kMostFrameworkOps));
  sort.calls = reader.Integer("calls", 1, kMostCalls);
  const int64_t ns = reader.Integer("ns", 1, kLongestNs);
  sort.total_ns = ns * std::min(sort.calls, INT64_MAX / kLongestNs);
  sort.calls = std::min(sort.calls, INT64_MAX / kLongestNs);
  reader.RefuseOthers();
  return sort;
}

void ReadDriver(TomlReader reader, HostCosts* costs) {
  costs->driver_source = reader.Text("source");
  const std::vector<std::string> names = SortNames();
  for (const std::string& key : reader.Keys()) {
    if (std::ranges::count(names, key) > 0) {
      costs->driver_ns[key] = static_cast<double>(reader.Integer(key, 0, kLongestNs));
    }
  }
  reader.RefuseOthers();
}

// How far the nearer sort is from the one looked for.
auto Distance(const HostTime& known, const HostTime& sort) {
  return std::tuple(known.is_product != sort.is_product, known.phase != sort.phase,
                    std::abs(known.framework_ops - sort.framework_ops), Key(known));
}

}  // namespace

double HostCosts::NsOf(const HostTime& sort) const {
  const HostTime* nearest = nullptr;
  for (const HostTime& known : sorts) {
    if (known.kind == sort.kind &&
        (nearest == nullptr || Distance(known, sort) < Distance(*nearest, sort))) {
      nearest = &known;
    }
  }
  return nearest == nullptr
             ? -1
             : static_cast<double>(nearest->total_ns) / static_cast<double>(nearest->calls);
}

double HostCosts::DriverNsOf(const HostTime& sort) const {
  const auto found = driver_ns.find(SortName(sort));
  return found == driver_ns.end() ? 0 : found->second;
}

Result<HostCosts> ParseHostCosts(std::string_view text, const std::string& where) {
  PRISM_ASSIGN_OR_RETURN(TomlDocument document, TomlDocument::Parse(text, where));
  TomlReader reader = document.root();
  HostCosts costs;
  costs.name = where;
  costs.source = reader.Text("source");
  costs.mark = reader.Choice("mark", graph::kMarkNames);
  costs.python = reader.Text("python");
  costs.cpu_turn_ns = static_cast<double>(reader.Integer("cpu_turn_ns", 1, kLongestNs));
  for (const TomlReader& sort : reader.TablesOr("sorts")) {
    costs.sorts.push_back(ReadSort(sort));
  }
  if (reader.Has("driver")) {
    ReadDriver(reader.Table("driver"), &costs);
  }
  reader.RefuseOthers();
  PRISM_RETURN_IF_ERROR(document.status());
  std::ranges::sort(costs.sorts, {}, Key);
  const auto twice = std::ranges::adjacent_find(costs.sorts, {}, Key);
  if (costs.sorts.empty() || twice != costs.sorts.end()) {
    return BadFile(
        costs.sorts.empty()
            ? fmt::format("{}: has no sorts of ops; write one with prism bench host", where)
            : fmt::format("{}: {} in {} with {} framework ops is there twice", where,
                          SortName(*twice), NameOf(graph::kHostPhaseNames, twice->phase),
                          twice->framework_ops));
  }
  return costs;
}

std::string HostCostsText(const HostCosts& costs) {
  std::string text = fmt::format(
      "# What the program's threads spend between ops (prism bench host); prism run --host-time "
      "FILE\n# reads it. framework_ops: calls of the framework since the op before, views among "
      "them.\nsource = \"{}\"\nmark = \"measured\"\npython = \"{}\"\ncpu_turn_ns = {:.0f}\nsorts = "
      "[\n",
      costs.source, costs.python, costs.cpu_turn_ns);
  for (const HostTime& sort : costs.sorts) {
    text += fmt::format(
        "  {{ op = \"{}\", phase = \"{}\", framework_ops = {}, calls = {}, ns = {:.0f} }},\n",
        SortName(sort), NameOf(graph::kHostPhaseNames, sort.phase), sort.framework_ops, sort.calls,
        std::max(1.0, static_cast<double>(sort.total_ns) / static_cast<double>(sort.calls)));
  }
  text += "]\n";
  if (!costs.driver_ns.empty()) {
    text += fmt::format("\n[driver]\nsource = \"{}\"\n", costs.driver_source);
    for (const auto& [name, ns] : costs.driver_ns) {
      text += fmt::format("{} = {:.0f}\n", name, ns);
    }
  }
  return text;
}

std::vector<HostTime> SumOfSorts(const std::vector<graph::Fragment>& fragments) {
  std::map<decltype(Key({})), HostTime> sums;
  for (const graph::Fragment& fragment : fragments) {
    for (const HostTime& time : fragment.host_times) {
      HostTime& sum = sums.try_emplace(Key(time), HostTime{time.kind, time.is_product, time.phase,
                                                           time.framework_ops, 0, 0})
                          .first->second;
      sum.calls += time.calls;
      sum.total_ns += time.total_ns;
    }
  }
  std::vector<HostTime> all;
  for (const auto& [key, sum] : sums) {
    all.push_back(sum);
  }
  return all;
}

}  // namespace prism::launch
