#include "slicer/import/kineto/step_calls.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace prism::slicer {
namespace {

std::optional<HostCallKind> KindOf(std::string_view name, bool has_tasks) {
  if (has_tasks) {
    return HostCallKind::kLaunch;
  }
  if (name.find("StreamWaitEvent") != std::string_view::npos) {
    return HostCallKind::kWaitEvent;
  }
  if (name.find("Synchronize") != std::string_view::npos) {
    return HostCallKind::kSynchronise;
  }
  return std::nullopt;
}

TimeNs EffectOf(const HostCall& call) {
  return call.kind == HostCallKind::kSynchronise ? call.range->end_ns() : call.range->begin_ns;
}

// Indices into `tasks` by correlation, of those that have one.
using TasksByCall = std::unordered_map<int64_t, std::vector<uint32_t>>;

TasksByCall IndexTasks(const std::vector<KinetoRange>& tasks) {
  TasksByCall by_call;
  for (uint32_t task = 0; task < tasks.size(); ++task) {
    if (tasks[task].correlation > 0) {
      by_call[tasks[task].correlation].push_back(task);
    }
  }
  return by_call;
}

}  // namespace

std::vector<HostCall> CallsIn(const KinetoTrace& trace, TimeNs begin, TimeNs end) {
  TasksByCall by_call = IndexTasks(trace.tasks);
  std::vector<HostCall> calls;
  auto range =
      std::lower_bound(trace.calls.begin(), trace.calls.end(), begin,
                       [](const KinetoRange& call, TimeNs time) { return call.begin_ns < time; });
  for (; range != trace.calls.end() && range->begin_ns < end; ++range) {
    HostCall call;
    call.range = &*range;
    if (auto tasks = by_call.extract(range->correlation)) {
      call.tasks = std::move(tasks.mapped());
    }
    if (const std::optional<HostCallKind> kind = KindOf(range->name, !call.tasks.empty())) {
      call.kind = *kind;
      calls.push_back(std::move(call));
    }
  }
  std::stable_sort(calls.begin(), calls.end(),
                   [](const HostCall& a, const HostCall& b) { return EffectOf(a) < EffectOf(b); });
  return calls;
}

}  // namespace prism::slicer
