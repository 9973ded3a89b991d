// Tasks of one rank → its program.
//
// A resource is a stream. Tasks without one go to chains: a task continues the stream of something
// it waits for, or takes a stream whose last task it comes after, or opens one. So, except for
// tasks of one resource, sharing a stream adds no wait that was not there before. A wait across
// streams is a wait for an event; waiting for a task's begin is waiting for an event just before
// it. No op costs host time (graph::kLaunchedWithPrevious): these formats have no host thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/base/status.h"
#include "graph/program/op.h"
#include "slicer/tasks/task_graph.h"

namespace prism::slicer {

// A rank's program and what its slots refer to.
struct LoweredRank {
  graph::Program program;
  std::vector<uint32_t> comms;  // by communicator slot: Task::comm
  std::vector<uint32_t> peers;  // by peer slot: global rank
  // Tasks that do not wait, even indirectly, for the task before them on their resource: only the
  // resource orders them.
  int64_t unordered = 0;
};

// Ids of the graph that programs refer to.
struct LowerNames {
  uint32_t iteration_marker = 0;  // string id of "iteration"
};

// Reuses its buffers: create one per file, not one per rank.
class TaskLowering {
 public:
  explicit TaskLowering(const LowerNames& names) : names_(names) {}

  // Task::name becomes the signature of its kernel. kBadFile (a line, what is wrong) when tasks
  // wait in a circle, more than 65,000 of them could run at once, or slots run out.
  Result<LoweredRank> Lower(const TaskGraph& tasks);

  // The tasks of the last call as its program issues them.
  [[nodiscard]] const std::vector<uint32_t>& order() const { return order_; }

 private:
  struct FreeStream {
    uint16_t stream;
    uint32_t since;  // place in the order of the task that came after all of it
  };

  Status AssignStreams(const TaskGraph& tasks);
  uint16_t ChainStream(const TaskGraph& tasks, uint32_t task);
  uint16_t OpenStream();
  void MarkEdges(const TaskGraph& tasks);
  void ReleaseStreams(uint32_t task);
  void Emit(const TaskGraph& tasks, LoweredRank* lowered);
  [[nodiscard]] int64_t CountUnordered(const TaskGraph& tasks);
  void EmitWaits(uint32_t task, graph::Program* program);
  void EmitTask(const Task& task, uint16_t stream, LoweredRank* lowered);
  uint16_t SlotOf(std::unordered_map<uint32_t, uint16_t>* slots,
                  std::vector<uint32_t>* values,
                  uint32_t value);

  LowerNames names_;
  TaskEdgeIndex index_;
  std::vector<uint32_t> order_;
  std::vector<uint32_t> position_;             // by task, in order_
  std::vector<uint16_t> stream_;               // by task
  std::vector<uint32_t> tail_;                 // by stream: its last task
  std::vector<std::vector<FreeStream>> free_;  // by stream: streams that its tasks come after
  uint16_t resource_count_ = 0;
  std::vector<uint8_t> needs_;                        // by task: kNeedsEnd, kNeedsBegin
  std::vector<uint32_t> end_event_;                   // by task: op
  std::vector<uint32_t> begin_event_;                 // by task: op
  std::vector<std::pair<uint16_t, uint32_t>> waits_;  // of one task: stream, event
  std::unordered_map<uint32_t, uint16_t> comm_slots_;
  std::unordered_map<uint32_t, uint16_t> peer_slots_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> group_ids_;  // by hash
};

}  // namespace prism::slicer
