#include "slicer/import/kineto/step_calls.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "slicer/import/kineto/launch_queue.h"

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

HostCalls::HostCalls(const KinetoTrace& trace)
    : trace_(trace), tasks_(trace.calls.size()), has_call_(trace.tasks.size()) {
  TasksByCall by_call = IndexTasks(trace.tasks);
  for (size_t call = 0; call < trace.calls.size(); ++call) {
    if (auto tasks = by_call.extract(trace.calls[call].correlation)) {
      tasks_[call] = std::move(tasks.mapped());
      for (const uint32_t task : tasks_[call]) {
        has_call_[task] = true;
      }
    }
  }
  FindBlocked();
}

void HostCalls::FindBlocked() {
  std::vector<uint32_t> call_of(trace_.tasks.size(), kNoTask);
  for (uint32_t call = 0; call < tasks_.size(); ++call) {
    for (const uint32_t task : tasks_[call]) {
      call_of[task] = call;
    }
  }
  blocks_on_ = BlockedLaunches(trace_, call_of);
  blocked_ = std::ssize(blocks_on_) - std::ranges::count(blocks_on_, kNoTask);
}

size_t HostCalls::FirstFrom(TimeNs begin) const {
  const auto first = std::ranges::lower_bound(trace_.calls, begin, {}, &KinetoRange::begin_ns);
  return static_cast<size_t>(first - trace_.calls.begin());
}

HostCalls::Launches HostCalls::LaunchesIn(TimeNs begin, TimeNs end) const {
  Launches launches;
  for (size_t at = FirstFrom(begin); at < trace_.calls.size() && trace_.calls[at].begin_ns < end;
       ++at) {
    const bool launches_kernel = trace_.calls[at].name.find("LaunchKernel") != std::string::npos;
    launches.seen += tasks_[at].empty() ? 0 : 1;
    launches.lost += tasks_[at].empty() && launches_kernel ? 1 : 0;
  }
  return launches;
}

int64_t HostCalls::TasksWithoutCall(TimeNs begin, TimeNs end) const {
  int64_t count = 0;
  for (size_t task = 0; task < trace_.tasks.size(); ++task) {
    const TimeNs time = trace_.tasks[task].begin_ns;
    count += !has_call_[task] && time >= begin && time < end ? 1 : 0;
  }
  return count;
}

std::vector<HostCall> HostCalls::In(TimeNs begin, TimeNs end) const {
  std::vector<HostCall> calls;
  for (size_t at = FirstFrom(begin); at < trace_.calls.size() && trace_.calls[at].begin_ns < end;
       ++at) {
    const KinetoRange& range = trace_.calls[at];
    if (const std::optional<HostCallKind> kind = KindOf(range.name, !tasks_[at].empty())) {
      calls.push_back({*kind, &range, tasks_[at], blocks_on_[at]});
    }
  }
  std::ranges::stable_sort(
      calls, [](const HostCall& a, const HostCall& b) { return EffectOf(a) < EffectOf(b); });
  return calls;
}

}  // namespace prism::slicer
