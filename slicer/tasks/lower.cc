#include "slicer/tasks/lower.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace prism::slicer {
namespace {

using graph::OpKind;

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
constexpr uint8_t kNeedsEnd = 1;    // some other stream waits for the end
constexpr uint8_t kNeedsBegin = 2;  // something waits for the begin
constexpr size_t kMaxStreams = 65'000;
constexpr size_t kMaxSlots = 65'535;

uint64_t GroupKey(const graph::PeerTransfer& transfer) {
  const uint64_t slots = (uint64_t{transfer.comm_slot} << 17U) |
                         (uint64_t{transfer.peer_slot} << 1U) | (transfer.is_send ? 1U : 0U);
  return slots ^ (static_cast<uint64_t>(transfer.bytes) * 0x9E3779B97F4A7C15U);
}

}  // namespace

Result<LoweredRank> TaskLowering::Lower(const TaskGraph& tasks) {
  index_.Build(tasks);
  PRISM_RETURN_IF_ERROR(OrderTasks(tasks, index_, &order_));
  PRISM_RETURN_IF_ERROR(AssignStreams(tasks));
  MarkEdges(tasks);
  LoweredRank lowered;
  Emit(tasks, &lowered);
  if (std::max(lowered.comms.size(), lowered.peers.size()) > kMaxSlots) {
    return BadFile(
        fmt::format("{}: rank {} uses {} tags or communicators and {} peers, more than {}",
                    tasks.tasks.front().line, tasks.rank.value(), lowered.comms.size(),
                    lowered.peers.size(), kMaxSlots));
  }
  lowered.unordered = CountUnordered(tasks);
  return lowered;
}

int64_t TaskLowering::CountUnordered(const TaskGraph& tasks) {
  int64_t unordered = 0;
  std::vector<uint32_t> last(resource_count_, kNone);
  for (const uint32_t task : order_) {
    if (!tasks.IsSerial(task)) {
      continue;
    }
    const uint16_t resource = tasks.tasks[task].resource;
    const uint32_t before = last[resource];
    last[resource] = task;
    bool ordered = before == kNone;
    for (uint32_t i = index_.begin[task]; i < index_.begin[task + 1] && !ordered; ++i) {
      ordered = position_[index_.edges[i].on] >= position_[before];
    }
    unordered += ordered ? 0 : 1;
  }
  return unordered;
}

Status TaskLowering::AssignStreams(const TaskGraph& tasks) {
  const size_t count = tasks.tasks.size();
  position_.resize(count);
  stream_.resize(count);
  resource_count_ = 0;
  for (uint32_t i = 0; i < count; ++i) {
    position_[order_[i]] = i;
    if (tasks.IsSerial(i)) {
      resource_count_ =
          std::max<uint16_t>(resource_count_, static_cast<uint16_t>(tasks.tasks[i].resource + 1));
    }
  }
  tail_.assign(resource_count_, kNone);
  free_.resize(resource_count_);
  for (std::vector<FreeStream>& streams : free_) {
    streams.clear();
  }
  for (const uint32_t task : order_) {
    if (tail_.size() > kMaxStreams) {
      return BadFile(fmt::format("{}: more than {} tasks of rank {} could run at once",
                                 tasks.tasks[task].line, kMaxStreams, tasks.rank.value()));
    }
    stream_[task] = tasks.IsSerial(task) ? tasks.tasks[task].resource : ChainStream(tasks, task);
    ReleaseStreams(task);
    tail_[stream_[task]] = task;
  }
  return OkStatus();
}

uint16_t TaskLowering::ChainStream(const TaskGraph& tasks, uint32_t task) {
  const uint32_t begin = index_.begin[task];
  const uint32_t end = index_.begin[task + 1];
  for (uint32_t i = end; i > begin; --i) {  // the last one listed is most likely the last to end
    const TaskEdge& edge = index_.edges[i - 1];
    if (!edge.begun && !tasks.IsSerial(edge.on) && tail_[stream_[edge.on]] == edge.on) {
      return stream_[edge.on];
    }
  }
  for (uint32_t i = begin; i < end; ++i) {
    const TaskEdge& edge = index_.edges[i];
    std::vector<FreeStream>& streams = free_[stream_[edge.on]];
    if (!edge.begun && !streams.empty() && streams.back().since <= position_[edge.on]) {
      const uint16_t stream = streams.back().stream;
      streams.pop_back();
      return stream;
    }
  }
  return OpenStream();
}

uint16_t TaskLowering::OpenStream() {
  tail_.push_back(kNone);
  free_.resize(tail_.size());
  free_.back().clear();
  return static_cast<uint16_t>(tail_.size() - 1);
}

// Chains that end in what `task` waits for are free for whatever comes after `task`.
void TaskLowering::ReleaseStreams(uint32_t task) {
  for (uint32_t i = index_.begin[task]; i < index_.begin[task + 1]; ++i) {
    const TaskEdge& edge = index_.edges[i];
    const uint16_t other = stream_[edge.on];
    if (!edge.begun && other >= resource_count_ && other != stream_[task] &&
        tail_[other] == edge.on) {
      free_[stream_[task]].push_back({other, position_[task]});
      tail_[other] = kNone;  // nobody else continues or releases it
    }
  }
}

void TaskLowering::MarkEdges(const TaskGraph& tasks) {
  needs_.assign(tasks.tasks.size(), 0);
  for (const TaskEdge& edge : index_.edges) {
    if (stream_[edge.task] != stream_[edge.on]) {
      needs_[edge.on] |= edge.begun ? kNeedsBegin : kNeedsEnd;
    }
  }
}

void TaskLowering::Emit(const TaskGraph& tasks, LoweredRank* lowered) {
  graph::Program& program = lowered->program;
  program.stream_count = std::max<uint16_t>(static_cast<uint16_t>(tail_.size()), 1);
  program.collectives = tasks.collectives;
  comm_slots_.clear();
  peer_slots_.clear();
  group_ids_.clear();
  end_event_.assign(tasks.tasks.size(), graph::kNoDep);
  begin_event_.assign(tasks.tasks.size(), graph::kNoDep);
  program.Append({.kind = OpKind::kMarker,
                  .flags = graph::kMarkerBegin,
                  .signature = names_.iteration_marker});
  for (const uint32_t task : order_) {
    const uint16_t stream = stream_[task];
    const graph::OpRow event = {
        .kind = OpKind::kEventRecord, .flags = graph::kLaunchedWithPrevious, .stream = stream};
    EmitWaits(task, &program);
    if ((needs_[task] & kNeedsBegin) != 0) {
      begin_event_[task] = program.Append(event);
    }
    const uint32_t place = tasks.tasks[task].place;
    if (place != 0) {
      program.Append({.kind = OpKind::kMarker, .flags = graph::kMarkerBegin, .signature = place});
    }
    EmitTask(tasks.tasks[task], stream, lowered);
    if (place != 0) {
      program.Append({.kind = OpKind::kMarker, .flags = graph::kMarkerEnd, .signature = place});
    }
    if ((needs_[task] & kNeedsEnd) != 0) {
      end_event_[task] = program.Append(event);
    }
  }
  program.Append({.kind = OpKind::kDeviceSync, .flags = graph::kLaunchedWithPrevious});
  program.Append(
      {.kind = OpKind::kMarker, .flags = graph::kMarkerEnd, .signature = names_.iteration_marker});
  program.comm_slot_count = static_cast<uint16_t>(lowered->comms.size());
  program.peer_slot_count = static_cast<uint16_t>(lowered->peers.size());
}

// Of several tasks of one stream only the last one's event is waited for.
void TaskLowering::EmitWaits(uint32_t task, graph::Program* program) {
  waits_.clear();
  for (uint32_t i = index_.begin[task]; i < index_.begin[task + 1]; ++i) {
    const TaskEdge& edge = index_.edges[i];
    const uint16_t other = stream_[edge.on];
    if (other == stream_[task]) {
      continue;
    }
    const uint32_t event = edge.begun ? begin_event_[edge.on] : end_event_[edge.on];
    const auto known =
        std::ranges::find_if(waits_, [other](const auto& wait) { return wait.first == other; });
    if (known == waits_.end()) {
      waits_.emplace_back(other, event);
    } else {
      known->second = std::max(known->second, event);
    }
  }
  for (const auto& [stream, event] : waits_) {
    program->Append({.kind = OpKind::kEventWait,
                     .flags = graph::kLaunchedWithPrevious,
                     .stream = stream_[task],
                     .dep = event});
  }
}

void TaskLowering::EmitTask(const Task& task, uint16_t stream, LoweredRank* lowered) {
  graph::Program& program = lowered->program;
  graph::OpRow row;
  row.flags = graph::kLaunchedWithPrevious;
  row.stream = stream;
  if (task.kind == TaskKind::kCompute) {
    row.flags |= graph::kDurationFixed;
    row.signature = task.name;
    row.value = task.value;
    program.Append(row);
    return;
  }
  const uint16_t comm = SlotOf(&comm_slots_, &lowered->comms, task.comm);
  if (task.kind == TaskKind::kCollective) {
    row.kind = OpKind::kCollective;
    row.comm_slot = comm;
    row.signature = task.shape;
    program.Append(row);
    return;
  }
  const graph::PeerTransfer transfer = {task.kind == TaskKind::kSend, comm,
                                        SlotOf(&peer_slots_, &lowered->peers, task.peer),
                                        task.value};
  std::vector<uint32_t>& ids = group_ids_[GroupKey(transfer)];
  auto id = std::ranges::find_if(ids, [&](uint32_t candidate) {
    return program.peer_groups[candidate].transfers.front() == transfer;
  });
  if (id == ids.end()) {
    ids.push_back(static_cast<uint32_t>(program.peer_groups.size()));
    program.peer_groups.push_back({{transfer}});
    id = ids.end() - 1;
  }
  row.kind = OpKind::kPeerGroup;
  row.signature = *id;
  program.Append(row);
}

uint16_t TaskLowering::SlotOf(std::unordered_map<uint32_t, uint16_t>* slots,
                              std::vector<uint32_t>* values,
                              uint32_t value) {
  const auto [found, inserted] = slots->try_emplace(value, static_cast<uint16_t>(values->size()));
  if (inserted) {
    values->push_back(value);
  }
  return found->second;
}

}  // namespace prism::slicer
