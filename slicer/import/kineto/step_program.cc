#include "slicer/import/kineto/step_program.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "graph/base/lower_case.h"
#include "graph/program/collective_kinds.h"
#include "slicer/import/kineto/collective_words.h"
#include "slicer/import/kineto/product_shapes.h"
#include "slicer/import/kineto/step_streams.h"

namespace prism::slicer {
namespace {

using graph::OpKind;

constexpr size_t kMostGroups = 4096;  // of one rank

// Where the profile noted what the collective of a launch is: at the kernel, or at the range of the
// issuing thread around the call.
class CollectiveNotes {
 public:
  explicit CollectiveNotes(const KinetoTrace& trace) {
    for (const KinetoRange& issue : trace.issues) {
      of_thread_[issue.thread].push_back(&issue);
    }
  }

  [[nodiscard]] const KinetoCollective& At(const KinetoRange& task, const KinetoRange& call) const {
    const auto thread = of_thread_.find(call.thread);
    if (!task.collective().name.empty() || thread == of_thread_.end()) {
      return task.collective();
    }
    // Ranges of one thread nest; those that issue collectives do not contain another such range.
    const auto after =
        std::ranges::upper_bound(thread->second, call.begin_ns, {}, &KinetoRange::begin_ns);
    const bool within =
        after != thread->second.begin() && call.begin_ns < (*std::prev(after))->end_ns();
    return within ? (*std::prev(after))->collective() : task.collective();
  }

 private:
  std::unordered_map<int64_t, std::vector<const KinetoRange*>> of_thread_;  // each by begin
};

// Transfers whose measured times are compared: kind or direction, peer, bytes, group.
using TransferKey = std::tuple<std::string, int64_t, int64_t, std::string, size_t>;

bool IsSend(const KinetoCollective& noted) {
  return LowerCase(noted.name).find("send") != std::string::npos;
}

bool IsMessage(const KinetoCollective& noted) {
  return noted.source >= 0 && noted.destination >= 0 && noted.source != noted.destination &&
         (IsSend(noted) || LowerCase(noted.name).find("recv") != std::string::npos);
}

TransferKey KeyOf(const KinetoCollective& noted,
                  const std::optional<graph::CollectiveShape>& shape) {
  const std::string kind = shape ? graph::CollectiveKindName(shape->kind) : noted.name;
  return {kind, shape ? -1 : noted.source + (noted.destination << 32U),
          shape ? shape->bytes : noted.elements, noted.group, noted.ranks().size()};
}

// The shortest time of each collective over all steps, by its position in the step. Only if all
// steps have the same collectives.
std::vector<DurationNs> ShortestCollectives(const KinetoTrace& trace, const HostCalls& calls) {
  std::vector<DurationNs> shortest;
  std::vector<std::string_view> names;
  for (const KinetoRange& step : trace.steps) {
    std::vector<DurationNs> durations;
    std::vector<std::string_view> own_names;
    for (const HostCall& call : calls.In(step.begin_ns, step.end_ns())) {
      for (const uint32_t task : call.tasks) {
        if (IsCollective(trace.tasks[task])) {
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
  StepBuilder(const ProfiledStep& profiled, const std::string& file, GraphAssembly* assembly)
      : trace_(profiled.trace),
        step_(profiled.step),
        rank_(profiled.rank),
        world_(profiled.world),
        file_(file),
        assembly_(*assembly),
        calls_(profiled.calls),
        shortest_(ShortestCollectives(trace_, calls_)),
        notes_at_(trace_),
        products_(trace_),
        now_(step_.begin_ns) {}

  Result<StepProgram> Build() {
    FindShortestTransfers();
    const std::vector<HostCall> calls = calls_.In(step_.begin_ns, step_.end_ns());
    PRISM_ASSIGN_OR_RETURN(StepStreams streams,
                           StepStreams::Create(trace_, calls, calls_, step_.begin_ns, file_));
    streams_ = std::move(streams);
    last_task_.resize(streams_->count());
    std::set<int64_t> gpus;
    for (const HostCall& call : calls) {
      host_awaits_.insert(call.blocks_on);
      for (const uint32_t task : call.tasks) {
        gpus.insert(TaskAt(task).device);
      }
    }
    step_program_.notes.Add("further GPUs of one process count as streams of its rank",
                            std::max<int64_t>(0, std::ssize(gpus) - 1));
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
    if (call.blocks_on != kNoTask) {
      WaitForRoom(call);
    }
    PassHostUntil(blocks ? call.range->begin_ns : call_end);
    for (const uint32_t task : call.tasks) {
      PRISM_RETURN_IF_ERROR(Issue(task, *call.range));
    }
    if (blocks) {
      program().Append({.kind = OpKind::kStreamSync,
                        .flags = graph::kLaunchedWithPrevious,
                        .stream = streams_->Of(call.tasks.back()).stream});
      ReturnFromWait(call.tasks.back(), call.range->begin_ns, call_end);
    }
    return OkStatus();
  }

  // In the queue: for a task of this step, or of an earlier one.
  void WaitForRoom(const HostCall& call) {
    PassHostUntil(call.range->begin_ns);
    if (const auto event = events_.find(call.blocks_on); event != events_.end()) {
      program().Append({.kind = OpKind::kEventSync,
                        .flags = graph::kLaunchedWithPrevious,
                        .dep = event->second});
    }
    step_program_.notes.Add("launches waited for room in a full queue: their time is the GPU's");
    now_ = std::max(now_, TaskAt(call.blocks_on).end_ns());
  }

  // The shortest measured times, over all steps.
  void FindShortestTransfers() {
    calls_.VisitLaunches(kEndOfTime, [&](const KinetoRange& call, uint32_t task) {
      if (!IsCollective(TaskAt(task))) {
        return;
      }
      const KinetoCollective& noted = notes_at_.At(TaskAt(task), call);
      const std::optional<graph::CollectiveShape> shape = ShapeOf(noted, TaskAt(task).name);
      const DurationNs own = TaskAt(task).duration_ns;
      DurationNs& known = shortest_of_.try_emplace(KeyOf(noted, shape), own).first->second;
      known = std::min(known, own);
    });
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
      // A copy: edits and slow GPUs change what the profile has, and nothing else.
      step_program_.notes.Add(
          "gaps of streams stay as they are, whatever kernels take, where profiles do not show "
          "what "
          "they wait for, such as kernels of a CUDA graph");
      program().Append(
          {.kind = OpKind::kMemcpy,
           .flags = graph::kLaunchedWithPrevious | graph::kDurationFixed | graph::kHostToDevice,
           .stream = entry.stream,
           .value = entry.unseen_ns});
    }
    if (IsCollective(TaskAt(task))) {
      PRISM_RETURN_IF_ERROR(IssueNccl(task, call, entry.stream));
    } else if (IsOtherCommunication(TaskAt(task).name)) {
      IssueOther(task, entry.stream);
    } else {
      IssueKernel(
          TaskAt(task).name, TaskAt(task).duration_ns, entry.stream,
          IsProductKernel(TaskAt(task).name) ? products_.Around(call) : graph::MatmulShape());
    }
    if (entry.is_awaited || host_awaits_.contains(task)) {
      events_[task] = program().Append({.kind = OpKind::kEventRecord,
                                        .flags = graph::kLaunchedWithPrevious,
                                        .stream = entry.stream});
    }
    if (last_task_[entry.stream]) {
      last_ends_.erase({TaskAt(*last_task_[entry.stream]).end_ns(), -int{entry.stream}});
    }
    last_task_[entry.stream] = task;
    last_ends_.emplace(TaskAt(task).end_ns(), -int{entry.stream});
    ++step_program_.tasks;
    return OkStatus();
  }

  void IssueKernel(std::string_view name,
                   DurationNs duration,
                   uint16_t stream,
                   const graph::MatmulShape& product = {}) {
    program().Append({.flags = graph::kLaunchedWithPrevious | graph::kDurationFixed,
                      .stream = stream,
                      .signature = assembly_.KernelName(name, product),
                      .value = duration});
  }

  // A transfer of measured time that no other rank shares: whom it reaches is not noted.
  void IssueOther(uint32_t task, uint16_t stream) {
    const KinetoRange& kernel = TaskAt(task);
    graph::CollectiveShape shape = ShapeOf({}, kernel.name).value_or(graph::CollectiveShape());
    shape.kind = kernel.name.find("reduce") == std::string::npos
                     ? graph::CollectiveKind::kAllToAll
                     : graph::CollectiveKind::kAllReduce;
    shape.reduce = graph::Reduces(shape.kind) ? graph::ReduceOp::kSum : graph::ReduceOp::kNone;
    shape.root = -1;
    const std::optional<ProcessAxis> alone = AxisOf("kernels that communicate", {rank_}, world_);
    step_program_.collective_ends_ns.push_back(kernel.end_ns());
    step_program_.collective_times_ns.push_back(kernel.duration_ns);
    step_program_.notes.Add(
        "kernels of other libraries that communicate are transfers with their measured time, and "
        "wait for no other rank");
    program().Append({.kind = OpKind::kCollective,
                      .flags = graph::kLaunchedWithPrevious | graph::kDurationFixed,
                      .stream = stream,
                      .comm_slot = SlotOf(*alone, &step_program_.groups),
                      .signature = graph::IndexOfShape(shape, &program().collectives),
                      .value = kernel.duration_ns});
  }

  Status IssueNccl(uint32_t task, const KinetoRange& call, uint16_t stream) {
    const size_t place = nccl_kernels_++;
    const KinetoCollective& noted = notes_at_.At(TaskAt(task), call);
    std::optional<graph::CollectiveShape> shape = ShapeOf(noted, TaskAt(task).name);
    const DurationNs shortest = shortest_of_.at(KeyOf(noted, shape));
    if (!shape && IsMessage(noted) && AddMessage(noted, shortest, task)) {
      return OkStatus();
    }
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
    const std::optional<ProcessAxis> axis = AxisOf(noted.group, noted.ranks(), world_);
    if (!axis || !IsComplete(noted)) {
      return BadFile(fmt::format("{}: {} process group '{}' {}", file_,
                                 axis ? "the file shows only some ranks of" : "the", noted.group,
                                 axis ? fmt::format("and they are not equally spaced in {}", world_)
                                      : fmt::format("has ranks beyond the {} of the job", world_)));
    }
    const uint16_t slot = SlotOf(*axis, &step_program_.groups);
    if (slot == graph::kNoSlot) {
      return BadFile(fmt::format("{}: has more process groups than a rank can be in", file_));
    }
    step_program_.collective_ends_ns.push_back(TaskAt(task).end_ns());
    step_program_.collective_times_ns.push_back(TaskAt(task).duration_ns);
    const bool gathers = shape->kind == graph::CollectiveKind::kAllGather ||
                         shape->kind == graph::CollectiveKind::kGather;
    if (noted.is_input && gathers) {
      shape->bytes *= noted.ranks().empty() ? world_ : std::ssize(noted.ranks());
    }
    step_program_.notes.Add("collectives without a process group have all ranks",
                            noted.ranks().empty() ? 1 : 0);
    program().Append({.kind = OpKind::kCollective,
                      .flags = graph::kLaunchedWithPrevious | graph::kDurationFixed,
                      .stream = stream,
                      .comm_slot = slot,
                      .signature = graph::IndexOfShape(*shape, &program().collectives),
                      .value = shortest});
    return OkStatus();
  }

  // Whether the file shows all ranks of the group.
  static bool IsComplete(const KinetoCollective& noted) {
    return noted.size <= 0 || noted.ranks().empty() || noted.size == std::ssize(noted.ranks());
  }

  // As a kernel, until its other end is found. Ranks are those of the job, or places in the group.
  bool AddMessage(const KinetoCollective& noted, DurationNs shortest, uint32_t task) {
    const std::vector<uint32_t>& ranks = noted.ranks();
    const auto rank_of = [&](int64_t given) {
      const bool is_rank = std::ranges::binary_search(ranks, static_cast<uint32_t>(given));
      return is_rank || given >= std::ssize(ranks) ? static_cast<uint32_t>(given)
                                                   : ranks[static_cast<size_t>(given)];
    };
    StepMessage message;
    message.is_send = IsSend(noted);
    const uint32_t own = rank_of(message.is_send ? noted.source : noted.destination);
    message.peer = rank_of(message.is_send ? noted.destination : noted.source);
    const std::optional<ProcessAxis> axis = AxisOf(noted.group, ranks, world_);
    message.bytes = BytesOf(noted);
    if (!axis || own != rank_ || message.peer >= world_ || message.bytes == 0) {
      return false;
    }
    message.axis = *axis;
    message.shortest_ns = shortest;
    message.end_ns = TaskAt(task).end_ns();
    message.op = program().size();
    IssueKernel(TaskAt(task).name, shortest, streams_->Of(task).stream);
    step_program_.messages.push_back(std::move(message));
    return true;
  }

  // What the call waited for: the stream that became idle last while it waited.
  void Synchronise(const KinetoRange& call) {
    const auto after = last_ends_.lower_bound({call.end_ns() + kClockSkewNs + 1, kNoStream});
    if (after == last_ends_.begin() || std::prev(after)->first <= call.begin_ns) {
      // Nothing was left to wait for: host time, unless the GPU becomes slower.
      if (call.name.find("DeviceSynchronize") != std::string::npos) {
        PassHostUntil(call.begin_ns);
        program().Append({.kind = OpKind::kDeviceSync, .flags = graph::kLaunchedWithPrevious});
      }
      return;
    }
    const int stream = std::prev(after)->second;
    PassHostUntil(call.begin_ns);
    program().Append({.kind = OpKind::kStreamSync,
                      .flags = graph::kLaunchedWithPrevious,
                      .stream = static_cast<uint16_t>(-stream)});
    ReturnFromWait(*last_task_[static_cast<size_t>(-stream)], call.begin_ns, call.end_ns());
  }

  // The streams' pauses, which the program lacks, are the host's: it goes on when it did.
  void ReturnFromWait(uint32_t awaited, TimeNs begin, TimeNs end) {
    const TimeNs awaited_end = TaskAt(awaited).end_ns() - streams_->Of(awaited).pauses_ns;
    now_ = std::max(now_, std::min(std::max(awaited_end, begin), end));
    PassHostUntil(end);
  }

  void PassHostUntil(TimeNs time) {
    if (time > now_) {
      program().Append({.kind = OpKind::kHostGap, .value = time - now_});
      now_ = time;
    }
  }

  static constexpr TimeNs kEndOfTime = std::numeric_limits<TimeNs>::max();
  static constexpr int kNoStream = std::numeric_limits<int>::min();

  const KinetoTrace& trace_;
  const KinetoRange& step_;
  uint32_t rank_;
  uint32_t world_;
  const std::string& file_;
  GraphAssembly& assembly_;
  const HostCalls& calls_;
  std::vector<DurationNs> shortest_;  // by place among the step's NCCL kernels
  CollectiveNotes notes_at_;
  ProductShapes products_;
  std::map<TransferKey, DurationNs> shortest_of_;   // by kind and size
  TimeNs now_;                                      // the host, in the profile
  size_t nccl_kernels_ = 0;                         // so far
  std::optional<StepStreams> streams_;              // once building
  std::vector<std::optional<uint32_t>> last_task_;  // by stream: issued so far
  std::set<std::pair<TimeNs, int>> last_ends_;      // of last_task_, with its stream, negative
  std::unordered_set<uint32_t> host_awaits_;        // tasks whose end a later launch waits for
  std::unordered_map<uint32_t, uint32_t> events_;  // by task that others wait for: op of its record
  StepProgram step_program_;
};

}  // namespace

uint16_t SlotOf(ProcessAxis axis, std::vector<ProcessAxis>* groups) {
  for (uint16_t slot = 0; slot < groups->size(); ++slot) {
    const ProcessAxis& known = (*groups)[slot];
    if (known.digits == axis.digits && known.members == axis.members) {
      if (known.name == axis.name) {
        return slot;
      }
      ++axis.ordinal;
    }
  }
  if (groups->size() == kMostGroups) {
    return graph::kNoSlot;
  }
  groups->push_back(std::move(axis));
  return static_cast<uint16_t>(groups->size() - 1);
}

KinetoRange TypicalStep(const KinetoTrace& trace, const HostCalls& calls) {
  KinetoRange step;
  if (trace.steps.empty()) {
    step.name = "all of it";
    step.begin_ns = trace.calls.front().begin_ns;
    for (const KinetoRanges* ranges : {&trace.calls, &trace.tasks}) {
      for (const KinetoRange& range : *ranges) {
        step.duration_ns = std::max(step.duration_ns, range.end_ns() - step.begin_ns);
      }
    }
    return step;
  }
  std::vector<const KinetoRange*> by_duration;
  std::vector<const KinetoRange*> whole;
  for (const KinetoRange& each : trace.steps) {
    const HostCalls::Launches launches = calls.LaunchesIn(each.begin_ns, each.end_ns());
    if (launches.seen > 0) {
      by_duration.push_back(&each);
    }
    if (launches.seen > 0 && launches.lost == 0) {
      whole.push_back(&each);
    }
  }
  if (trace.is_cut_off && !whole.empty()) {
    by_duration = whole;
  }
  if (by_duration.empty()) {
    by_duration = {&trace.steps.front()};  // whose lack of launches is an error
  }
  std::ranges::stable_sort(by_duration, [](const KinetoRange* a, const KinetoRange* b) {
    return a->duration_ns < b->duration_ns;
  });
  return *by_duration[(by_duration.size() - 1) / 2];
}

Result<StepProgram> ProgramOfStep(const ProfiledStep& profiled,
                                  const std::string& file,
                                  GraphAssembly* assembly) {
  return StepBuilder(profiled, file, assembly).Build();
}

}  // namespace prism::slicer
