#include "slicer/import/kineto/step_streams.h"

#include <algorithm>

#include <fmt/format.h>

namespace prism::slicer {
namespace {

// The longest normal pause of a stream between two kernels, or between two copies.
constexpr DurationNs kPauseNs = 20 * kNsPerUs;
constexpr size_t kMaxStepStreams = 60'000;
// With more streams, a task waits for at most that many others, and all together for at most
// kMostWaits times as many as there are tasks.
constexpr size_t kManyStreams = 64;
constexpr size_t kMostWaits = 2;
// PyTorch's default stream, as CUPTI numbers it.
constexpr int64_t kDefaultStream = 7;

std::pair<int64_t, int64_t> KeyOf(const KinetoRange& task) {
  return {task.device, task.stream};
}

}  // namespace

Result<StepStreams> StepStreams::Create(const KinetoTrace& trace,
                                        const std::vector<HostCall>& calls,
                                        const HostCalls& all,
                                        TimeNs begin,
                                        const std::string& file) {
  StepStreams streams(trace);
  PRISM_RETURN_IF_ERROR(streams.Number(calls, file));
  streams.TakeEarlier(all, begin);
  for (const HostCall& call : calls) {
    streams.Take(call);
  }
  return streams;
}

// The default stream is 0, the others are numbered in order of appearance.
Status StepStreams::Number(const std::vector<HostCall>& calls, const std::string& file) {
  ids_[{trace_->tasks.front().device, kDefaultStream}] = 0;
  for (const HostCall& call : calls) {
    for (const uint32_t task : call.tasks) {
      ids_.try_emplace(KeyOf(TaskAt(task)), static_cast<uint16_t>(ids_.size()));
      if (ids_.size() > kMaxStepStreams) {
        return BadFile(fmt::format("{}: more than {} streams", file, kMaxStepStreams));
      }
    }
  }
  streams_.resize(ids_.size());
  return OkStatus();
}

void StepStreams::TakeEarlier(const HostCalls& all, TimeNs begin) {
  all.VisitLaunches(begin, [&](const KinetoRange& /*call*/, uint32_t task) {
    if (const auto id = ids_.find(KeyOf(TaskAt(task))); id != ids_.end()) {
      TimeNs& ended = streams_[id->second].ended_before;
      ended = std::max(ended, TaskAt(task).end_ns());
    }
  });
}

void StepStreams::Take(const HostCall& call) {
  if (call.kind == HostCallKind::kWaitEvent) {
    has_waited_[call.range->thread] = true;
  }
  for (const uint32_t task : call.tasks) {
    StreamTask& entry = tasks_[task];
    entry.stream = ids_.at(KeyOf(TaskAt(task)));
    const TimeNs ready = ReadyNs(call, streams_[entry.stream]);
    if (std::exchange(has_waited_[call.range->thread], false) ||
        BeginsAsAnotherEnds(task, ready + kClockSkewNs)) {
      Wait(task, &entry);
    }
    FindPauses(task, call, &entry);
    streams_[entry.stream].issued.push_back(task);
    ends_.emplace(TaskAt(task).end_ns(), task);
  }
}

// A thread other than the launching one may have called cudaStreamWaitEvent.
bool StepStreams::BeginsAsAnotherEnds(uint32_t task, TimeNs ready_ns) const {
  const TimeNs begin = TaskAt(task).begin_ns;
  const TimeNs from = std::max(ready_ns + 1, begin - kClockSkewNs);
  return from <= begin + kClockSkewNs &&
         ends_.lower_bound({from, 0}) != ends_.upper_bound({begin + kClockSkewNs, kNoTask});
}

void StepStreams::Wait(uint32_t task, StreamTask* entry) {
  if (streams_.size() > kManyStreams) {
    WaitForLatest(task, entry);
    return;
  }
  for (uint16_t other = 0; other < streams_.size(); ++other) {
    WaitFor(other, EndedBy(TaskAt(task).begin_ns, streams_[other]), entry);
  }
}

void StepStreams::WaitForLatest(uint32_t task, StreamTask* entry) {
  auto at = ends_.upper_bound({TaskAt(task).begin_ns + kClockSkewNs, kNoTask});
  const size_t most = kMostWaits * tasks_.size();
  for (size_t looked = 0; looked < kManyStreams && at != ends_.begin() && waits_ < most; ++looked) {
    --at;
    const uint16_t other = tasks_.at(at->second).stream;
    WaitFor(other, EndedBy(TaskAt(task).begin_ns, streams_[other]), entry);
  }
}

// For the first `ended` tasks of a stream.
void StepStreams::WaitFor(uint16_t other, uint32_t ended, StreamTask* entry) {
  if (other == entry->stream || ended == 0) {
    return;
  }
  uint32_t& known = streams_[entry->stream].waited_for[other];
  if (ended > known) {
    known = ended;
    const uint32_t last = streams_[other].issued[ended - 1];
    entry->waits.push_back(last);
    ++waits_;
    tasks_.at(last).is_awaited = true;
  }
}

// When the stream was idle and the host had issued the task.
TimeNs StepStreams::ReadyNs(const HostCall& call, const Stream& stream) const {
  return std::max(call.range->end_ns(), stream.issued.empty()
                                            ? stream.ended_before
                                            : TaskAt(stream.issued.back()).end_ns());
}

// How many of a stream's tasks so far had ended by then.
uint32_t StepStreams::EndedBy(TimeNs time_ns, const Stream& stream) const {
  const auto after = std::ranges::partition_point(stream.issued, [&](uint32_t task) {
    return TaskAt(task).end_ns() <= time_ns + kClockSkewNs;
  });
  return static_cast<uint32_t>(after - stream.issued.begin());
}

void StepStreams::FindPauses(uint32_t task, const HostCall& call, StreamTask* entry) const {
  TimeNs ready = call.range->end_ns();
  const auto wait_until = [&](TimeNs end, DurationNs pauses) {
    if (end > ready) {
      ready = end;
      entry->pauses_ns = pauses;
    }
  };
  const Stream& stream = streams_[entry->stream];
  wait_until(stream.ended_before, 0);
  if (!stream.issued.empty()) {
    const uint32_t last = stream.issued.back();
    wait_until(TaskAt(last).end_ns(), tasks_.at(last).pauses_ns);
  }
  for (const uint32_t on : entry->waits) {
    wait_until(TaskAt(on).end_ns(), tasks_.at(on).pauses_ns);
  }
  const DurationNs gap = std::max<DurationNs>(0, TaskAt(task).begin_ns - ready);
  entry->unseen_ns = ready > call.range->end_ns() && gap > kPauseNs ? gap : 0;
  entry->pauses_ns += gap - entry->unseen_ns;
}

}  // namespace prism::slicer
