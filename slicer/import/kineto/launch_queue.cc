// The length of the queue is not assumed: the most launches that were ever outstanding on a stream
// are its length if launches at about that depth repeatedly took long, ended just after a task of
// the stream did, and left the queue as full as they met it.
#include "slicer/import/kineto/launch_queue.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "slicer/import/kineto/step_calls.h"

namespace prism::slicer {
namespace {

// Full: at least that part of the most that were ever outstanding.
constexpr double kFull = 0.9;
constexpr int64_t kShortestQueue = 3;
constexpr size_t kFewestBlocked = 2;

// A launch of one stream.
struct Launch {
  uint32_t call = kNoTask;  // kNoTask: before the profile began
  TimeNs ended_ns = 0;      // its last task
  uint32_t last_task = 0;
  int64_t depth = 0;  // launches of the stream that were outstanding when it was called
};

// Tasks of one stream by begin, which is the order of their launches.
std::vector<Launch> LaunchesOf(const KinetoTrace& trace,
                               const std::vector<uint32_t>& call_of,
                               const std::vector<uint32_t>& tasks) {
  std::vector<Launch> launches;
  launches.reserve(tasks.size());
  TimeNs latest_ns = std::numeric_limits<TimeNs>::min();
  for (const uint32_t task : tasks) {
    const uint32_t call = call_of[task];
    const bool unknown = call == kNoTask && !launches.empty() && launches.back().call != kNoTask;
    if (unknown) {
      continue;
    }
    if (call == kNoTask || launches.empty() || launches.back().call != call) {
      launches.push_back({.call = call});
    }
    latest_ns = std::max(latest_ns, trace.tasks[task].end_ns());
    launches.back().last_task = task;
    launches.back().ended_ns = latest_ns;
  }
  return launches;
}

// How many of the launches had ended by then.
int64_t EndedBy(const std::vector<Launch>& launches, TimeNs time) {
  return std::ranges::partition_point(
             launches, [&](const Launch& launch) { return launch.ended_ns <= time; }) -
         launches.begin();
}

class Queue {
 public:
  Queue(const KinetoTrace& trace, std::vector<Launch> launches)
      : trace_(trace), launches_(std::move(launches)) {
    for (size_t i = 0; i < launches_.size(); ++i) {
      if (launches_[i].call != kNoTask) {
        const KinetoRange& call = trace_.calls[launches_[i].call];
        launches_[i].depth = static_cast<int64_t>(i) - EndedBy(launches_, call.begin_ns);
        deepest_ = std::max(deepest_, launches_[i].depth);
      }
    }
    usual_ns_ = UsualNs();
  }

  void Mark(std::vector<uint32_t>* blocks_on) const {
    std::vector<std::pair<uint32_t, uint32_t>> blocked;  // call, task
    for (size_t i = 0; i < launches_.size(); ++i) {
      if (const uint32_t task = AwaitedBy(i); task != kNoTask) {
        blocked.emplace_back(launches_[i].call, task);
      }
    }
    if (blocked.size() >= kFewestBlocked) {
      for (const auto& [call, task] : blocked) {
        (*blocks_on)[call] = task;
      }
    }
  }

 private:
  // What a launch takes that does not block.
  [[nodiscard]] DurationNs UsualNs() const {
    std::vector<DurationNs> durations;
    for (const Launch& launch : launches_) {
      if (launch.call != kNoTask && 2 * launch.depth <= deepest_) {
        durations.push_back(trace_.calls[launch.call].duration_ns);
      }
    }
    if (durations.empty()) {
      return kClockSkewNs;
    }
    const auto middle = durations.begin() + std::ssize(durations) / 2;
    std::nth_element(durations.begin(), middle, durations.end());
    return *middle;
  }

  [[nodiscard]] bool IsFull(int64_t depth) const {
    return depth >= kShortestQueue &&
           static_cast<double>(depth) >= kFull * static_cast<double>(deepest_);
  }

  [[nodiscard]] uint32_t AwaitedBy(size_t i) const {
    const Launch& launch = launches_[i];
    if (launch.call == kNoTask || !IsFull(launch.depth)) {
      return kNoTask;
    }
    const KinetoRange& call = trace_.calls[launch.call];
    const int64_t ended = EndedBy(launches_, call.end_ns());
    if (2 * call.duration_ns <= 3 * usual_ns_ || ended == 0 ||
        !IsFull(static_cast<int64_t>(i) + 1 - ended)) {
      return kNoTask;
    }
    const Launch& last = launches_[static_cast<size_t>(ended) - 1];
    const bool just_ended = last.ended_ns >= call.begin_ns &&
                            call.end_ns() - last.ended_ns <= 2 * usual_ns_ + kClockSkewNs;
    return just_ended ? last.last_task : kNoTask;
  }

  const KinetoTrace& trace_;
  std::vector<Launch> launches_;
  int64_t deepest_ = 0;
  DurationNs usual_ns_ = 0;
};

}  // namespace

std::vector<uint32_t> BlockedLaunches(const KinetoTrace& trace,
                                      const std::vector<uint32_t>& call_of) {
  std::map<std::pair<int64_t, int64_t>, std::vector<uint32_t>> streams;
  for (uint32_t task = 0; task < trace.tasks.size(); ++task) {
    streams[{trace.tasks[task].device, trace.tasks[task].stream}].push_back(task);
  }
  std::vector<uint32_t> blocks_on(trace.calls.size(), kNoTask);
  for (const auto& [stream, tasks] : streams) {
    Queue(trace, LaunchesOf(trace, call_of, tasks)).Mark(&blocks_on);
  }
  return blocks_on;
}

}  // namespace prism::slicer
