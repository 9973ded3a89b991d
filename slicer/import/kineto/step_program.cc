#include "slicer/import/kineto/step_program.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "graph/program/collective_kinds.h"
#include "slicer/import/kineto/collective_words.h"
#include "slicer/import/kineto/step_calls.h"
#include "slicer/import/kineto/step_streams.h"

namespace prism::slicer {
namespace {

using graph::OpKind;

// Where the profile noted what the collective of a launch is: at the kernel, or at the range of the
// issuing thread around the call.
const KinetoCollective& NotedAt(const KinetoTrace& trace,
                                const KinetoRange& task,
                                const KinetoRange& call) {
  if (!task.collective.name.empty()) {
    return task.collective;
  }
  // Ranges of one thread nest; those that issue collectives do not contain another such range.
  auto after =
      std::upper_bound(trace.issues.begin(), trace.issues.end(), call.begin_ns,
                       [](TimeNs time, const KinetoRange& issue) { return time < issue.begin_ns; });
  while (after != trace.issues.begin()) {
    --after;
    if (after->thread == call.thread) {
      return call.begin_ns < after->end_ns() ? after->collective : task.collective;
    }
  }
  return task.collective;
}

// The shortest time of each collective over all steps, by its position in the step. Only if all
// steps have the same collectives.
std::vector<DurationNs> ShortestCollectives(const KinetoTrace& trace, const HostCalls& calls) {
  std::vector<DurationNs> shortest;
  std::vector<std::string> names;
  for (const KinetoRange& step : trace.steps) {
    std::vector<DurationNs> durations;
    std::vector<std::string> own_names;
    for (const HostCall& call : calls.In(step.begin_ns, step.end_ns())) {
      for (const uint32_t task : call.tasks) {
        if (IsNcclKernel(trace.tasks[task].name)) {
          durations.push_back(trace.tasks[task].duration_ns);
          own_names.push_back(trace.tasks[task].name);
        }
      }
    }
    if (shortest.empty()) {
      shortest = durations;
      names = own_names;
    }
    if (own_names != names) {
      return {};
    }
    for (size_t i = 0; i < durations.size(); ++i) {
      shortest[i] = std::min(shortest[i], durations[i]);
    }
  }
  return shortest;
}

class StepBuilder {
 public:
  StepBuilder(const KinetoTrace& trace,
              const KinetoRange& step,
              uint32_t world,
              const std::string& file,
              GraphAssembly* assembly)
      : trace_(trace),
        step_(step),
        world_(world),
        file_(file),
        assembly_(*assembly),
        calls_(trace),
        shortest_(ShortestCollectives(trace, calls_)),
        now_(step.begin_ns) {}

  Result<StepProgram> Build() {
    const std::vector<HostCall> calls = calls_.In(step_.begin_ns, step_.end_ns());
    PRISM_ASSIGN_OR_RETURN(
        StepStreams streams,
        StepStreams::Create(trace_, calls, calls_.In(trace_.calls.front().begin_ns, step_.begin_ns),
                            file_));
    streams_ = std::move(streams);
    last_task_.resize(streams_->count());
    program().stream_count = streams_->count();
    const uint32_t marker = assembly_.lower_names().iteration_marker;
    program().Append({.kind = OpKind::kMarker, .flags = graph::kMarkerBegin, .signature = marker});
    for (const HostCall& call : calls) {
      if (call.kind == HostCallKind::kLaunch) {
        PRISM_RETURN_IF_ERROR(Launch(call));
      } else if (call.kind == HostCallKind::kSynchronise) {
        Synchronise(*call.range);
      }
    }
    const int64_t without = calls_.TasksWithoutCall(step_.begin_ns, step_.end_ns());
    if (step_program_.tasks == 0) {
      return BadFile(
          fmt::format("{}: no call in its step ({}) launched anything on the GPU; it has {} GPU "
                      "tasks without the call that launched them",
                      file_, step_.name, without));
    }
    step_program_.notes.Add("GPU tasks without the call that launched them are left out", without);
    PassHostUntil(step_.end_ns());
    program().Append({.kind = OpKind::kMarker, .flags = graph::kMarkerEnd, .signature = marker});
    program().comm_slot_count = static_cast<uint16_t>(step_program_.groups.size());
    return std::move(step_program_);
  }

 private:
  graph::Program& program() { return step_program_.program; }

  const KinetoRange& TaskAt(uint32_t task) const { return trace_.tasks[task]; }

  Status Launch(const HostCall& call) {
    const TimeNs call_end = call.range->end_ns();
    const KinetoRange& last = TaskAt(call.tasks.back());
    // A copy to pageable memory returns once it is done.
    const bool blocks = call.range->name.find("Memcpy") != std::string::npos &&
                        last.end_ns() <= call_end && call.tasks.size() == 1;
    PassHostUntil(blocks ? call.range->begin_ns : call_end);
    for (const uint32_t task : call.tasks) {
      PRISM_RETURN_IF_ERROR(Issue(task, *call.range));
    }
    if (blocks) {
      program().Append({.kind = OpKind::kStreamSync,
                        .flags = graph::kLaunchedWithPrevious,
                        .stream = streams_->Of(call.tasks.back()).stream});
      ReturnFromWait(std::max(last.end_ns(), call.range->begin_ns), call_end);
    }
    return OkStatus();
  }

  Status Issue(uint32_t task, const KinetoRange& call) {
    const StreamTask& entry = streams_->Of(task);
    for (const uint32_t on : entry.waits) {
      program().Append({.kind = OpKind::kEventWait,
                        .flags = graph::kLaunchedWithPrevious,
                        .stream = entry.stream,
                        .dep = events_.at(on)});
    }
    if (entry.unseen_ns > 0) {
      step_program_.notes.Add(
          "gaps of streams that wait for nothing count as kernels, because profiles lack some "
          "kernels of a CUDA graph");
      IssueKernel("(not in the profile)", entry.unseen_ns, entry.stream);
    }
    if (IsNcclKernel(TaskAt(task).name)) {
      PRISM_RETURN_IF_ERROR(IssueNccl(task, call, entry.stream));
    } else {
      IssueKernel(TaskAt(task).name, TaskAt(task).duration_ns, entry.stream);
    }
    if (entry.is_awaited) {
      events_[task] = program().Append({.kind = OpKind::kEventRecord,
                                        .flags = graph::kLaunchedWithPrevious,
                                        .stream = entry.stream});
    }
    last_task_[entry.stream] = task;
    ++step_program_.tasks;
    return OkStatus();
  }

  void IssueKernel(std::string_view name, DurationNs duration, uint16_t stream) {
    program().Append({.flags = graph::kLaunchedWithPrevious | graph::kDurationFixed,
                      .stream = stream,
                      .signature = assembly_.KernelName(name),
                      .value = duration});
  }

  Status IssueNccl(uint32_t task, const KinetoRange& call, uint16_t stream) {
    const size_t place = nccl_kernels_++;
    const KinetoCollective& noted = NotedAt(trace_, TaskAt(task), call);
    std::optional<graph::CollectiveShape> shape = ShapeOf(noted, TaskAt(task).name);
    if (!shape || shape->bytes == 0) {
      step_program_.notes.Add(
          shape ? "collectives of unknown size are kernels with their shortest time in any step, "
                  "and wait for no other rank"
                : "messages between two ranks, and calls of unknown kind, are kernels with their "
                  "shortest time in any step, and wait for no other rank");
      const DurationNs own = TaskAt(task).duration_ns;
      IssueKernel(TaskAt(task).name,
                  place < shortest_.size() ? std::min(shortest_[place], own) : own, stream);
      return OkStatus();
    }
    const std::optional<ProcessAxis> axis = AxisOf(noted.group, noted.ranks, world_);
    if (!axis) {
      return BadFile(fmt::format("{}: the ranks of process group '{}' are not equally spaced in {}",
                                 file_, noted.group, world_));
    }
    const bool gathers = shape->kind == graph::CollectiveKind::kAllGather ||
                         shape->kind == graph::CollectiveKind::kGather;
    if (noted.is_input && gathers) {
      shape->bytes *= noted.ranks.empty() ? world_ : std::ssize(noted.ranks);
    }
    step_program_.notes.Add("collectives without a process group have all ranks",
                            noted.ranks.empty() ? 1 : 0);
    program().Append({.kind = OpKind::kCollective,
                      .flags = graph::kLaunchedWithPrevious,
                      .stream = stream,
                      .comm_slot = SlotOf(*axis),
                      .signature = graph::IndexOfShape(*shape, &program().collectives)});
    return OkStatus();
  }

  uint16_t SlotOf(ProcessAxis axis) {
    std::vector<ProcessAxis>& groups = step_program_.groups;
    for (uint16_t slot = 0; slot < groups.size(); ++slot) {
      if (groups[slot].stride == axis.stride && groups[slot].size == axis.size) {
        if (groups[slot].name == axis.name) {
          return slot;
        }
        ++axis.ordinal;
      }
    }
    groups.push_back(std::move(axis));
    return static_cast<uint16_t>(groups.size() - 1);
  }

  // What the call waited for: the stream that became idle last while it waited.
  void Synchronise(const KinetoRange& call) {
    std::optional<uint16_t> awaited;
    TimeNs latest = call.begin_ns;
    for (uint16_t stream = 0; stream < last_task_.size(); ++stream) {
      const TimeNs end = last_task_[stream] ? TaskAt(*last_task_[stream]).end_ns() : latest;
      if (end > latest && end <= call.end_ns() + kClockSkewNs) {
        latest = end;
        awaited = stream;
      }
    }
    if (!awaited) {
      return;  // nothing was left to wait for: host time
    }
    PassHostUntil(call.begin_ns);
    program().Append(
        {.kind = OpKind::kStreamSync, .flags = graph::kLaunchedWithPrevious, .stream = *awaited});
    ReturnFromWait(latest, call.end_ns());
  }

  void ReturnFromWait(TimeNs awaited_end, TimeNs call_end) {
    now_ = std::max(now_, std::min(awaited_end, call_end));
    PassHostUntil(call_end);
  }

  void PassHostUntil(TimeNs time) {
    if (time > now_) {
      program().Append({.kind = OpKind::kHostGap, .value = time - now_});
      now_ = time;
    }
  }

  const KinetoTrace& trace_;
  const KinetoRange& step_;
  uint32_t world_;
  const std::string& file_;
  GraphAssembly& assembly_;
  HostCalls calls_;
  std::vector<DurationNs> shortest_;                // by place among the step's NCCL kernels
  TimeNs now_;                                      // the host, in the profile
  size_t nccl_kernels_ = 0;                         // so far
  std::optional<StepStreams> streams_;              // once building
  std::vector<std::optional<uint32_t>> last_task_;  // by stream: issued so far
  std::unordered_map<uint32_t, uint32_t> events_;  // by task that others wait for: op of its record
  StepProgram step_program_;
};

}  // namespace

KinetoRange TypicalStep(const KinetoTrace& trace) {
  KinetoRange step;
  if (trace.steps.empty()) {
    step.name = "all of it";
    step.begin_ns = trace.calls.front().begin_ns;
    for (const std::vector<KinetoRange>* ranges : {&trace.calls, &trace.tasks}) {
      for (const KinetoRange& range : *ranges) {
        step.duration_ns = std::max(step.duration_ns, range.end_ns() - step.begin_ns);
      }
    }
    return step;
  }
  std::vector<const KinetoRange*> by_duration;
  for (const KinetoRange& each : trace.steps) {
    by_duration.push_back(&each);
  }
  std::stable_sort(
      by_duration.begin(), by_duration.end(),
      [](const KinetoRange* a, const KinetoRange* b) { return a->duration_ns < b->duration_ns; });
  return *by_duration[(by_duration.size() - 1) / 2];
}

Result<StepProgram> ProgramOfStep(const KinetoTrace& trace,
                                  const KinetoRange& step,
                                  uint32_t world,
                                  const std::string& file,
                                  GraphAssembly* assembly) {
  return StepBuilder(trace, step, world, file, assembly).Build();
}

}  // namespace prism::slicer
