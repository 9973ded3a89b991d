// The worker's side of the emulation: runs its sandbox ranks, compares their ops with the graph,
// reports their progress to process 0 and passes its answers back to them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "launch/emulate/clock/emulation_messages.h"
#include "launch/emulate/clock/verifier.h"
#include "launch/emulate/sandbox/sandbox_process.h"
#include "replayer/engine/op_position.h"
#include "replayer/perturb/perturbation.h"
#include "shim/channel/messages.h"

namespace prism::launch {

struct EmulatedRank {
  SandboxSpec process;
  bool keeps_history = false;  // of its allocator, for the PyTorch memory viewer
};

// What one worker runs of an emulation.
struct EmulationStart {
  std::vector<EmulatedRank> ranks;
  bool has_all = false;  // no other worker has any, so there is nobody to wait for
  int32_t iterations = 0;
  int32_t rounds_left_out = 0;  // of an iteration (emulated_rounds.h)
  int stall_timeout_s = 0;
  bool interactive = false;  // the user at the terminal decides how long a rank pauses
  bool on_gpu = false;
  bool shares_gpu = false;  // ranks take turns on one GPU: none is held
  std::vector<replayer::Perturbation> perturbations;
};

class EmulationWorker {
 public:
  struct Hooks {
    std::function<Result<std::unique_ptr<SandboxProcess>>(const SandboxSpec&)> start_process;
    std::function<void(std::string events)> send_events;  // RankEvents, to process 0
    // Receives the log, and the memory history if requested.
    std::function<void(Rank, const std::string& log, const std::string& history)> rank_left;
  };

  // `graph` must outlive the worker.
  EmulationWorker(const graph::Graph& graph, EmulationStart start, Hooks hooks);
  ~EmulationWorker();

  // Starts the processes of the ranks.
  Status StartProcesses();

  // Takes what the processes did. True when something happened. kRunFailed when a program fails.
  Result<bool> Step();

  // Passes answers of process 0 on.
  void Deliver(WireReader* message);

  // Called when the ranks wait for something that never comes: those that departed may run on to
  // where they wait, and their clocks follow the machine's from now on (shim/clock/hung_clock.h).
  void LetTimePass();

  // Reports on stderr where each rank is: its next op in the graph and its stacks.
  void ReportStacks();

  // Sleeps briefly, until there may be something to do.
  void Wait();

  // True when nothing is left to do and there is no process to keep.
  [[nodiscard]] bool done() const { return members_.empty() && parked_.empty(); }

 private:
  struct Member;

  Member* FindMember(Rank rank);
  [[nodiscard]] bool HasRunAll(const Member& member) const;
  Result<bool> StepMember(Member& member);
  [[nodiscard]] slicer::OpStream NewStream(Rank rank) const;
  Status Take(Member& member, const channel::Record& record, std::span<const std::byte> payload);
  void TakeOp(Member& member, const slicer::PlacedOp& placed);
  Status EndRound(Member& member, const channel::RoundBody& round);
  void TellDeparture(Member& member, bool exited);
  void SeeEvent(Member& member, uint32_t event, std::span<const slicer::PlacedOp> ops);
  DurationNs CountPoll(Member& member, replayer::OpPosition event) const;
  bool AnswerPoll(Member& member, const RankEvent& ask);
  static replayer::OpPosition EventPosition(const Member& member, uint32_t event);
  void TakeFence(Member& member, uint32_t request);
  [[nodiscard]] std::optional<RankEvent> AskOf(const Member& member,
                                               const channel::Record& record) const;
  void TakeRequest(Member& member, const channel::Record& record);
  void TakeHold(Member& member, const channel::HoldBody& hold);
  void SendEvents();
  void FlushIssued(Member& member);
  void Tell(const RankEvent& event);

  const graph::Graph& graph_;
  EmulationStart start_;
  Hooks hooks_;
  SignatureIndex index_;
  int64_t poll_cost_ns_;
  std::vector<std::unique_ptr<Member>> members_;
  // Ranks that have run all iterations of the emulation and would continue: they wait at a full
  // ring or an unanswered wait until the worker ends, because others may still exchange data with
  // them.
  std::vector<std::unique_ptr<Member>> parked_;
  bool time_passes_ = false;
  WireWriter events_;
  int64_t wait_ns_ = 0;  // of the last wait, if nothing has happened since
  size_t waits_ = 0;
};

}  // namespace prism::launch
