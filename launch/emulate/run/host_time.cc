#include "launch/emulate/run/host_time.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "graph/program/op.h"
#include "launch/inputs/presets.h"
#include "launch/inputs/program_command.h"
#include "launch/process/cpu_turn.h"
#include "replayer/cost/parameters.h"
#include "shim/channel/frameworks.h"

namespace prism::launch {
namespace {

using graph::HostTime;
using graph::OpKind;

// Whose measurement is used for an op: every wait costs what a stream_sync does, as in the shim.
OpKind MeasuredAs(OpKind kind) {
  return kind == OpKind::kEventSync || kind == OpKind::kDeviceSync ? OpKind::kStreamSync : kind;
}

struct MeanCost {
  int64_t calls = 0;
  double program_ns = 0;  // of all
  double driver_ns = 0;
};

std::vector<MeanCost> CostsByKind(const HostCosts& costs, const std::vector<HostTime>& issued) {
  std::vector<MeanCost> by_kind(graph::kOpKindCount);
  for (const HostTime& sort : issued) {
    const double ns = costs.NsOf(sort);
    if (ns >= 0) {
      MeanCost& cost = by_kind[static_cast<size_t>(sort.kind)];
      cost.calls += sort.calls;
      cost.program_ns += ns * static_cast<double>(sort.calls);
      cost.driver_ns += costs.DriverNsOf(sort) * static_cast<double>(sort.calls);
    }
  }
  return by_kind;
}

std::string Today() {
  const time_t now = time(nullptr);
  tm date = {};
  gmtime_r(&now, &date);
  return fmt::format("{:04}-{:02}-{:02}", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday);
}

// The program's own time between its ops, without the real driver's part of a call.
HostCosts MeasuredHostCosts(const std::vector<graph::Fragment>& fragments,
                            const RunContext& context) {
  HostCosts costs;
  costs.source = fmt::format("{} under --host-time measured on {}, {}",
                             ProgramName(context.options.program), CpuName(), Today());
  if (const auto& torch = context.paths.torch) {
    costs.python = torch->python_version;
    costs.source += fmt::format(", Python {}, torch {}", torch->python_version, torch->version);
  }
  costs.cpu_turn_ns = MeasureCpuTurn();
  for (const HostTime& sort : SumOfSorts(fragments)) {
    if (sort.total_ns > 0) {
      costs.sorts.push_back(sort);
    }
  }
  return costs;
}

// The target's CPU over the one that was measured.
Result<double> CpuFactor(const HostCosts& costs, const RunContext& context) {
  PRISM_ASSIGN_OR_RETURN(const StatedNumbers cpu,
                         LoadStated(context.options.cluster, StatedTable::kHostCpu));
  const std::optional<double> turn_ns = cpu.Value("turn_ns");
  return turn_ns && *turn_ns > 0 ? *turn_ns / costs.cpu_turn_ns : 1.0;
}

std::string MinorOf(const std::string& version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

void AssumeSamePython(const HostCosts& costs, RunContext* context) {
  const auto& torch = context->paths.torch;
  if (torch && !torch->python_version.empty() && !costs.python.empty() &&
      MinorOf(torch->python_version) != MinorOf(costs.python)) {
    context->assumptions.push_back(fmt::format(
        "host times were measured under Python {}; the program runs under {}, taken as equal",
        MinorOf(costs.python), MinorOf(torch->python_version)));
  }
}

// Of a file or preset, on the cluster's CPU.
Status UseHostCostsOf(const std::string& name,
                      const std::vector<graph::Fragment>& fragments,
                      RunContext* context) {
  PRISM_ASSIGN_OR_RETURN(const HostCosts costs, LoadHostCosts(name));
  PRISM_ASSIGN_OR_RETURN(const double factor, CpuFactor(costs, *context));
  UseHostCosts(costs, fragments, factor, &context->cluster);
  AssumeSamePython(costs, context);
  return OkStatus();
}

// Unless told otherwise, by an option or by a cluster whose constants were measured or fitted.
bool TakesPreset(const RunContext& context) {
  const Options& options = context.options;
  const auto& torch = context.paths.torch;
  const graph::Parameter* const kernel =
      context.cluster.parameters.Find(replayer::HostCostKey(OpKind::kKernel));
  return options.host_costs.empty() && options.host_framework.empty() && !options.program.empty() &&
         torch && !torch->python_version.empty() && kernel != nullptr &&
         kernel->mark == graph::Mark::kAssumed;
}

// torch loads its wrapper itself; the wrapper's ranges tell whether it is used.
bool UsesDdp(const graph::Fragment& fragment) {
  return std::ranges::any_of(fragment.strings, [](const std::string& text) {
    return text.starts_with("DistributedDataParallel.");
  });
}

}  // namespace

HostPreset HostPresetOf(const std::vector<graph::Fragment>& fragments) {
  for (const channel::Framework& framework : channel::kFrameworks) {
    for (const graph::Fragment& fragment : fragments) {
      if (std::ranges::count(fragment.framework_modules, framework.module) > 0) {
        return {framework.name, fmt::format("it has loaded {}", framework.module)};
      }
    }
  }
  if (std::ranges::any_of(fragments, UsesDdp)) {
    return {"ddp", "it has ranges DistributedDataParallel..."};
  }
  return {kPythonHost, "no preset is known for its framework"};
}

void UseHostCosts(const HostCosts& costs,
                  const std::vector<graph::Fragment>& fragments,
                  double factor,
                  graph::ClusterSpec* cluster) {
  const std::vector<MeanCost> by_kind = CostsByKind(costs, SumOfSorts(fragments));
  for (size_t index = 0; index < by_kind.size(); ++index) {
    const auto kind = static_cast<OpKind>(index);
    const MeanCost& cost = by_kind[static_cast<size_t>(MeasuredAs(kind))];
    const graph::Parameter* known = cluster->parameters.Find(replayer::HostCostKey(kind));
    if (cost.calls == 0 || known == nullptr) {
      continue;
    }
    const auto calls = static_cast<double>(cost.calls);
    graph::Parameter mean = *known;
    mean.value = std::round(factor * (cost.program_ns + cost.driver_ns) / calls);
    mean.mark = cost.driver_ns > cost.program_ns ? graph::Mark::kAssumed : costs.mark;
    mean.source = fmt::format("{}, mean of {} calls of {} recorded ranks", costs.source, cost.calls,
                              fragments.size());
    if (cost.driver_ns > 0) {
      mean.source += fmt::format("; of it {:.0f} ns in driver and libraries: {}",
                                 factor * cost.driver_ns / calls, costs.driver_source);
    }
    cluster->parameters.Put({mean});
  }
}

Status UseHostTime(const std::vector<graph::Fragment>& fragments, RunContext* context) {
  const Options& options = context->options;
  std::string origin = "as measured";
  if (options.host_factor > 0) {
    HostCosts& measured = context->measured_host.emplace(MeasuredHostCosts(fragments, *context));
    UseHostCosts(measured, fragments, options.host_factor, &context->cluster);
    // They belong to the file, for other machines' calls.
    PRISM_ASSIGN_OR_RETURN(const HostCosts python, LoadHostCosts(kPythonHost));
    measured.driver_ns = python.driver_ns;
    measured.driver_source = python.driver_source;
  } else if (HasHostCosts(options)) {
    PRISM_RETURN_IF_ERROR(UseHostCostsOf(options.host_costs, fragments, context));
    origin = "of " + options.host_costs;
  } else if (TakesPreset(*context)) {
    const HostPreset preset = HostPresetOf(fragments);
    PRISM_RETURN_IF_ERROR(UseHostCostsOf(preset.name, fragments, context));
    context->assumptions.push_back(fmt::format(
        "the program's host times are those of the preset {}, another program's, since {}; prism "
        "bench host measures its own, for --host-time",
        preset.name, preset.reason));
    origin = fmt::format("of the preset {}, since {}", preset.name, preset.reason);
  } else {
    return OkStatus();
  }
  const graph::ParameterTable& table = context->cluster.parameters;
  context->logger.Info("host time {}: {:.1f} us a kernel, {:.1f} us a collective", origin,
                       table.Value("host.kernel_ns") / 1e3,
                       table.Value("host.collective_ns") / 1e3);
  return OkStatus();
}

}  // namespace prism::launch
