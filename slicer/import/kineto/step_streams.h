// What the tasks of a profiled step waited for. A profile does not say which event a stream waits
// for. The task that a thread issues next after cudaStreamWaitEvent, or one that begins just as a
// task of another stream ends, is taken to wait for everything on every other stream that was
// issued before it and had ended when it began; where there are very many streams, for the tasks
// that ended last.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/base/status.h"
#include "slicer/import/kineto/step_calls.h"
#include "slicer/import/kineto/trace_file.h"

namespace prism::slicer {

// One task of the step; others are given by their indices into KinetoTrace::tasks.
struct StreamTask {
  uint16_t stream = 0;
  std::vector<uint32_t> waits;  // the last task of each other stream that it waits for
  bool is_awaited = false;      // another one waits for it
  // How long its stream had work, waited for nothing, and yet shows no task: profiles omit some of
  // the kernels of CUDA graphs. 0 for pauses that any stream has.
  DurationNs unseen_ns = 0;
  // How much of the time until it begins no program shows: pauses of streams and the time from a
  // launch to its first task, since its stream, or those that it waited for, last had no work.
  DurationNs pauses_ns = 0;
};

class StepStreams {
 public:
  // `calls` of the step, which begins at `begin`, `all` of the profile. kBadFile where there are
  // more streams than a program can have.
  static Result<StepStreams> Create(const KinetoTrace& trace,
                                    const std::vector<HostCall>& calls,
                                    const HostCalls& all,
                                    TimeNs begin,
                                    const std::string& file);

  [[nodiscard]] uint16_t count() const { return static_cast<uint16_t>(streams_.size()); }
  [[nodiscard]] const StreamTask& Of(uint32_t task) const { return tasks_.at(task); }

 private:
  // What one stream has done so far.
  struct Stream {
    TimeNs ended_before = 0;                  // its last task of earlier steps; 0: none
    std::vector<uint32_t> issued;             // tasks, in order
    std::map<uint16_t, uint32_t> waited_for;  // by other stream: how many of its tasks
  };

  explicit StepStreams(const KinetoTrace& trace) : trace_(&trace) {}

  Status Number(const std::vector<HostCall>& calls, const std::string& file);
  void TakeEarlier(const HostCalls& all, TimeNs begin);
  void Take(const HostCall& call);
  void Wait(uint32_t task, StreamTask* entry);
  void WaitForLatest(uint32_t task, StreamTask* entry);
  void WaitFor(uint16_t other, uint32_t ended, StreamTask* entry);
  [[nodiscard]] TimeNs ReadyNs(const HostCall& call, const Stream& stream) const;
  [[nodiscard]] bool BeginsAsAnotherEnds(uint32_t task, TimeNs ready_ns) const;
  [[nodiscard]] uint32_t EndedBy(TimeNs time_ns, const Stream& stream) const;
  void FindPauses(uint32_t task, const HostCall& call, StreamTask* entry) const;
  [[nodiscard]] const KinetoRange& TaskAt(uint32_t task) const { return trace_->tasks[task]; }

  const KinetoTrace* trace_;
  std::map<std::pair<int64_t, int64_t>, uint16_t> ids_;  // by device and stream of the profile
  std::vector<Stream> streams_;
  std::map<int64_t, bool> has_waited_;          // by thread: since its last launch
  std::set<std::pair<TimeNs, uint32_t>> ends_;  // of the tasks issued so far
  size_t waits_ = 0;                            // of all tasks so far
  std::unordered_map<uint32_t, StreamTask> tasks_;
};

}  // namespace prism::slicer
