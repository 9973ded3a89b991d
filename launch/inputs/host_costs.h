// What a program's threads spend between ops, by sort of op: a file that `prism bench host` writes
// and --host-time reads, or a preset of that form (launch/presets/hosts/).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"
#include "graph/fragment.h"
#include "graph/job/cluster.h"

namespace prism::launch {

struct HostCosts {
  std::string name;    // of the preset, or the file's path
  std::string source;  // what was measured, where and when
  graph::Mark mark = graph::Mark::kMeasured;
  std::string python;  // "3.11", of the interpreter; "" without one
  // A turn of the loop of MeasureCpuTurn (launch/process/cpu_turn.h) on the CPU that was measured.
  double cpu_turn_ns = 0;
  std::vector<graph::HostTime> sorts;  // ascending; each has calls
  // What the real driver and libraries add to a call that the virtual device leaves out: ns by
  // sort ("kernel", "product"), and where these come from. Assumed.
  std::map<std::string, double> driver_ns;
  std::string driver_source;

  // Mean time of an op of that sort in the program; of the nearest one measured: fewer or more
  // framework ops, then another phase, then no product. Negative if its kind was not measured.
  [[nodiscard]] double NsOf(const graph::HostTime& sort) const;
  [[nodiscard]] double DriverNsOf(const graph::HostTime& sort) const;
};

// kBadFile, naming the line, for a text that is none.
Result<HostCosts> ParseHostCosts(std::string_view text, const std::string& where);

// As ParseHostCosts reads it.
std::string HostCostsText(const HostCosts& costs);

// The sorts of several recorded ranks.
std::vector<graph::HostTime> SumOfSorts(const std::vector<graph::Fragment>& fragments);

}  // namespace prism::launch
