// One worker process of a run, process 0 included: records its share of the ranks, then runs its
// share of the sandbox ranks. Talks only to process 0, by messages (messages.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "launch/emulate/clock/emulation_worker.h"
#include "launch/emulate/run/host_meeting.h"
#include "launch/emulate/run/messages.h"
#include "launch/emulate/run/rank_starter.h"
#include "launch/emulate/run/record_pass.h"
#include "launch/emulate/run/run_context.h"
#include "launch/process/mpi_session.h"
#include "launch/process/wire.h"

namespace prism::launch {

class Worker {
 public:
  // Both must outlive the worker.
  Worker(RunContext& context, MpiSession& session);
  ~Worker();

  // Says hello to process 0.
  void Begin();

  // A message of process 0.
  void Handle(const std::string& message);

  // Does what can be done now. True when something happened. A failure goes to process 0 and ends
  // this worker's processes.
  bool Step();

  // Sleeps briefly, until there may be something to do.
  void Wait();

  // True after kStop; the exit code that came with it.
  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] int stop_code() const { return stop_code_; }

  // Of the ranks that it records.
  [[nodiscard]] RankStarter& starter() { return starter_; }

  // Ends this worker's sandbox processes.
  void KillProcesses();

  // Reports to process 0 that this worker cannot continue, for which process 0 ends the run.
  void Fail(const Status& status);
  // The same after what ends this process from outside.
  void Interrupt(const Status& status);

 private:
  void ReportStacks();
  Result<bool> StepRecording();
  Status Record(WireReader* message);
  Status OpenMeeting(const MeetMessage& meet);
  Status BeginEmulation(const EmulateMessage& message);
  [[nodiscard]] EmulationStart MakeEmulationStart(const MeetingPoint& meeting,
                                                  const std::vector<Rank>& ranks) const;

  RunContext& context_;
  MpiSession& session_;
  RankStarter starter_;
  std::optional<CheckBudget> check_budget_;  // for all that it records
  std::unique_ptr<RecordPass> recording_;
  graph::Graph graph_;
  std::unique_ptr<HostMeeting> meeting_;  // if this is the first worker of its host
  std::unique_ptr<EmulationWorker> emulation_;
  std::unique_ptr<SharedMemory> values_;  // of the emulation
  bool ended_ = false;                    // waits for kStop
  bool stopped_ = false;
  int stop_code_ = 0;
};

// The whole life of a worker process other than 0: until it is asked to stop. Returns the exit
// code.
int ServeAsWorker(RunContext& context, MpiSession& session);

}  // namespace prism::launch
