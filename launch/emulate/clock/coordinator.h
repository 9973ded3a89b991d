// Process 0's side of the emulation: the gated engine, fed by what the sandbox ranks do, and the
// answers to their waits.
//
// Every answer is a function of the graph and of what sandbox ranks have issued, never of the order
// in which messages arrive: a wait is answered once the engine knows its end, and the engine's
// times are unique. A poll of an event is answered "not ready" only when the event is known to end
// later, or when nothing else can advance.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "launch/emulate/clock/emulation_messages.h"
#include "launch/emulate/clock/measured_holds.h"
#include "replayer/engine/engine.h"

namespace prism::launch {

class Coordinator {
 public:
  static Result<Coordinator> Create(const graph::Graph& graph,
                                    const replayer::ReplayOptions& options,
                                    const std::vector<Rank>& sandbox_ranks);

  // The sandbox ranks run on real GPUs, where a kernel takes 1 / `scale` of its time on the
  // target's: their streams arrive when kArrived says, and are held until the HoldEnd that Advance
  // returns.
  void MeasureArrivals(double scale);

  // Takes what a worker's ranks did.
  void Take(WireReader* events);

  // Advances the engine and returns what is now known and was not reported before.
  AnswerBatch Advance();

  void RankLeft(Rank rank);

  [[nodiscard]] bool all_left() const;

  // True once every rank has left and the engine has finished.
  [[nodiscard]] bool finished() const;

  // The first departure from the graph, with both sides and who waits for whom; "" if none.
  [[nodiscard]] const std::string& departure() const { return departure_; }

  // The rank that departed; null if none did.
  [[nodiscard]] std::optional<Rank> departed() const { return departed_; }

  // Not empty when all sandbox ranks wait and nothing can end their wait: who waits for whom.
  [[nodiscard]] std::vector<std::string> Deadlock() const;

  // Results, once finished.
  [[nodiscard]] replayer::ReplayResult Summarise() { return engine_.Summarise(); }

  // Host time that sandbox ranks spent beyond the graph, and where the lowest-numbered of them
  // first did.
  [[nodiscard]] DurationNs extra_host_ns() const;
  [[nodiscard]] std::string extra_host_example() const;

  // Waits of sandbox ranks' hosts for events that the graph does not have there.
  [[nodiscard]] int64_t extra_waits() const { return extra_waits_; }

  // How well holds on real GPUs kept their deadlines.
  [[nodiscard]] HoldAccuracy hold_accuracy() const;

  // Position of the rank that is furthest behind, as a share of the whole run, for progress.
  [[nodiscard]] double progress() const;

 private:
  struct Member {
    Rank rank;
    replayer::OpPosition position = 0;
    std::vector<RankEvent> waiting;  // unanswered
    // Ops that record events: those before `reported_until` are reported or in `unreported_events`.
    replayer::OpPosition reported_until = 0;
    std::vector<replayer::OpPosition> unreported_events;
    // Position and event of the last poll that was answered "not ready".
    std::pair<replayer::OpPosition, replayer::OpPosition> last_poll = {-1, -1};
    replayer::OpPosition waited_for = -1;  // see kAskHostTime
    DurationNs extra_host_ns = 0;          // beyond the graph
    std::optional<MeasuredHolds> holds;    // on a real GPU
    std::string extra_host_example;
    bool departed = false;
    bool left = false;
  };

  Coordinator(const graph::Graph& graph, int iterations, replayer::Engine engine)
      : graph_(&graph), iterations_(iterations), engine_(std::move(engine)) {}

  Member& MemberOf(Rank rank);
  void TakeOne(const RankEvent& event);
  void CollectEnds(Member& member, std::vector<EventEnd>* ends);
  [[nodiscard]] std::string IterationsNeeded(int64_t done) const;
  void Depart(Member& member, const RankEvent& event);
  void PassHostTime(Member& member, DurationNs duration);
  bool TryAnswer(Member& member, const RankEvent& ask, bool nothing_moves, RankAnswer* answer);
  // Part of TryAnswer, for a host at `answer->host_time_ns`.
  bool AnswerElapsed(const Member& member, const RankEvent& ask, RankAnswer* answer) const;
  bool AnswerPoll(Member& member, const RankEvent& ask, bool nothing_moves, RankAnswer* answer);
  [[nodiscard]] TimeNs WaitedUntil(const Member& member, TimeNs now) const;
  [[nodiscard]] std::optional<TimeNs> EndOfEvent(Rank rank, replayer::OpPosition position) const;
  [[nodiscard]] replayer::OpPosition EndOf(Rank rank) const;
  [[nodiscard]] std::optional<TimeNs> EventTime(Rank rank, replayer::OpPosition position) const;
  [[nodiscard]] bool OnlyOptionalLeft(Rank rank, replayer::OpPosition position) const;

  const graph::Graph* graph_;
  int iterations_;
  replayer::Engine engine_;
  std::map<Rank, Member> members_;
  int64_t extra_waits_ = 0;
  bool engine_done_ = false;
  std::string departure_;
  std::optional<Rank> departed_;  // the first
};

}  // namespace prism::launch
