// Process 0 of a run: slice, build, replay, emulate, with the help of the workers (itself one).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "launch/emulate/clock/coordinator.h"
#include "launch/emulate/run/check_report.h"
#include "launch/emulate/run/hosts.h"
#include "launch/emulate/run/kept_ranks.h"
#include "launch/emulate/run/messages.h"
#include "launch/emulate/run/recorded_slice.h"
#include "launch/emulate/run/run_context.h"
#include "launch/emulate/run/worker.h"
#include "launch/emulate/sandbox/memory_sampler.h"
#include "launch/process/mpi_session.h"
#include "launch/process/progress.h"
#include "replayer/engine/replay_result.h"
#include "replayer/report/summary.h"
#include "slicer/check/calls.h"

namespace prism::launch {

// Real seconds of each stage, for run.json.
struct WallTimes {
  double plan_s = 0;
  double slice_s = 0;
  double build_s = 0;
  double replay_s = 0;
  double emulate_s = 0;
  double report_s = 0;
  double total_s = 0;
};

// What a run results in.
struct RunOutcome {
  graph::Graph graph;
  std::string graph_bytes;        // as in graph.prism
  replayer::ReplayResult result;  // of the emulation: what the cluster would have shown
  DurationNs replayed_ns = 0;     // steady iteration of the graph, before any emulation
  DurationNs low_ns = 0;          // steady iteration: launch/plan/replay_range.h
  DurationNs high_ns = 0;
  std::vector<graph::Warning> replay_warnings;  // of the last replay
  std::vector<replayer::OddIteration> odd_iterations;
  std::vector<replayer::Phase> phases;    // of a program without iterations
  std::vector<graph::Warning> warnings;   // of the emulation
  std::map<Rank, std::string> logs;       // of sandbox ranks in the emulation
  std::map<Rank, std::string> snapshots;  // their memory, as the PyTorch memory viewer opens it
  std::vector<double> startup_seconds;    // of recorded programs, real time
  std::vector<double> iteration_seconds;  // of recorded programs, real time, the last of each
  double iterations_s = 0;                // of all their iterations, about
  std::string checked_until;              // the last step that the check saw, or "exit"; "": none
  int64_t checked_ranks = 0;
  WallTimes wall;
};

class Master {
 public:
  Master(RunContext& context, MpiSession& session, Progress& progress);
  ~Master();

  // Runs all stages. Whatever the result, the workers have been asked to stop with the exit code.
  Result<RunOutcome> Run();

  // Takes ranks from there, and keeps there what is recorded. Before Run(); must outlive it.
  void Resume(KeptRanks* kept) { kept_ = kept; }

  // Instead of Run(): stops the workers.
  void Stop(const Status& status) { StopWorkers(status); }

  [[nodiscard]] int64_t max_rss_bytes() const { return memory_.max_bytes(); }

  // Logs so far; available after a failure too.
  [[nodiscard]] const std::map<Rank, std::string>& logs() const { return logs_; }

 private:
  Status RunStages(RunOutcome* outcome);
  Status Slice(RunOutcome* outcome);
  Status SliceProgram();
  [[nodiscard]] std::vector<Rank> ToldRanks(bool by_place) const;
  [[nodiscard]] std::vector<Rank> TakeToldRanks();
  // How far ranks are to go on for the check of a program.
  [[nodiscard]] CheckLength LengthOfCheck() const;
  // After the slice, which may have failed: whether the ranks of the program fit together.
  Status CheckProgram(const Status& sliced, RunOutcome* outcome);
  void TakeCalls(RecordedRank* recorded);
  Status CheckMoreRanks(double slice_seconds);
  Result<std::vector<slicer::RankCalls>> WholeProgram(const std::vector<Rank>& ranks);
  // Faults that may follow from values that ranks did not know are looked for once more.
  Result<CheckReport> ConfirmFaults(const std::vector<slicer::RankCalls>& calls,
                                    CheckReport report);
  // These ranks, and those that they turn out to need.
  Status Record(const std::vector<Rank>& ranks);
  Status FindHosts();
  Status RecordRound(const std::vector<Rank>& ranks);
  std::vector<Rank> AddKept(const std::vector<Rank>& ranks);
  Status CoRecordRanks(const std::vector<Rank>& ranks);
  [[nodiscard]] MeetingPoint MeetingOf(Rank rank, const SharedMemory& values) const;
  std::string SourceLinesOf(const graph::Graph& graph, Rank rank, uint32_t op);
  Status Build(RunOutcome* outcome);
  Status TimeRoles(graph::Graph* graph);
  Status ReplayAll(RunOutcome* outcome);
  Status Emulate(RunOutcome* outcome);
  [[nodiscard]] Result<Coordinator> MakeCoordinator(const RunOutcome& outcome) const;
  // Places the sandbox ranks, and has each host prepare for them. `store` may be null.
  Status Meet(const RunOutcome& outcome, const StoreServer* store);
  // For the workers of the meeting's host. Refers to `outcome` and the recorded slice.
  [[nodiscard]] EmulateMessage MakeEmulateMessage(const RunOutcome& outcome,
                                                  const MeetingMessage& meeting) const;
  // The rank whose behaviour is to be adopted before the emulation restarts; null: it is done.
  Result<std::optional<Rank>> EmulateOnce(RunOutcome* outcome);
  [[nodiscard]] bool MayAdopt(const Coordinator& coordinator) const;
  Status Adopt(Rank rank, RunOutcome* outcome);
  void WarnOf(const std::string& trouble, const std::string& consequence);
  void TakeEmulated(MessageKind kind, WireReader* message, Coordinator* coordinator);
  Status EmulateUntilDone(Coordinator& coordinator, StoreServer* store);

  // Messages, own worker, interrupts; sleeps when there was nothing. `coordinator` may be null.
  Status Pump(Coordinator* coordinator);
  Status HandleMessage(const PeerMessage& message, Coordinator* coordinator);
  void SendAnswers(const AnswerBatch& batch);
  void StopWorkers(const Status& status);
  [[nodiscard]] int WorkerOf(Rank rank) const;

  RunContext& context_;
  MpiSession& session_;
  Progress& progress_;
  MemorySampler memory_;
  Worker worker_;
  RecordedSlice slice_;
  KeptRanks* kept_ = nullptr;                // with --resume
  std::map<Rank, slicer::RankCalls> calls_;  // of recorded ranks, for the check
  std::optional<int32_t> checked_steps_;     // of the rank that came first; 0: to the exit
  bool program_failed_ = false;
  std::vector<std::optional<WorkerHost>> said_hello_;  // by worker
  Hosts hosts_;                                        // once all have
  std::vector<int> worker_of_;                         // by sandbox rank
  int32_t rounds_left_out_ = 0;                        // EmulationStart
  std::vector<MeetingMessage> meetings_;               // of the emulation, as hosts are ready
  uint32_t emulations_ = 0;                            // begun so far
  std::set<Rank> adopted_;
  std::map<Rank, std::string> logs_;
  std::map<Rank, std::string> snapshots_;
};

}  // namespace prism::launch
