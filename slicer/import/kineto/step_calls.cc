#include "slicer/import/kineto/step_calls.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
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
  constexpr std::string_view kWaits[] = {"Synchronize", "QueueFinish", "EventWait", "EventsWait"};
  if (std::ranges::any_of(kWaits, [&](std::string_view word) {
        return name.find(word) != std::string_view::npos;
      })) {
    return HostCallKind::kSynchronise;  // of CUDA and HIP, or of SYCL's queues
  }
  return std::nullopt;
}

TimeNs EffectOf(const HostCall& call) {
  return call.kind == HostCallKind::kSynchronise ? call.range->end_ns() : call.range->begin_ns;
}

// The correlation ids that tasks have, and the tasks' indices.
std::vector<std::pair<int64_t, uint32_t>> IndexTasks(const KinetoRanges& tasks) {
  std::vector<std::pair<int64_t, uint32_t>> by_id;
  by_id.reserve(tasks.size());
  for (uint32_t task = 0; task < tasks.size(); ++task) {
    if (tasks[task].correlation > 0) {
      by_id.emplace_back(tasks[task].correlation, task);
    }
  }
  std::ranges::sort(by_id);
  return by_id;
}

}  // namespace

HostCalls::HostCalls(const KinetoTrace& trace)
    : trace_(trace), tasks_(trace.calls.size()), has_call_(trace.tasks.size()) {
  Pair(IndexTasks(trace.tasks));
  FindBlocked();
}

// Of calls that share a correlation id, the first launched all of its tasks: others are inside it
// (the driver's), or wait for what it launched. If there are as many as tasks, one after the other,
// the number was used again and each launched one.
void HostCalls::Pair(const std::vector<std::pair<int64_t, uint32_t>>& by_id) {
  by_call_.reserve(by_id.size());
  for (const auto& [id, task] : by_id) {
    by_call_.push_back(task);
  }
  std::map<size_t, std::vector<size_t>> calls_of;  // by place of the first task of several
  for (size_t call = 0; call < trace_.calls.size(); ++call) {
    const KinetoRange& range = trace_.calls[call];
    const auto of_call = std::ranges::equal_range(by_id, range.correlation, {},
                                                  &std::pair<int64_t, uint32_t>::first);
    if (of_call.empty()) {
      continue;
    }
    const auto place = static_cast<size_t>(of_call.begin() - by_id.begin());
    if (!has_call_[of_call.front().second]) {
      tasks_[call] = {by_call_.data() + place, of_call.size()};
      for (const uint32_t task : tasks_[call]) {
        has_call_[task] = true;
      }
    }
    if (of_call.size() > 1) {
      std::vector<size_t>& calls = calls_of[place];
      if (calls.empty() || trace_.calls[calls.back()].end_ns() <= range.begin_ns) {
        calls.push_back(call);
      }
    }
  }
  for (const auto& [place, calls] : calls_of) {
    if (calls.size() > 1 && calls.size() == tasks_[calls.front()].size()) {
      for (size_t i = 0; i < calls.size(); ++i) {
        tasks_[calls[i]] = {by_call_.data() + place + i, 1};
      }
    }
  }
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
