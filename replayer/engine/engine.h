// The engine: evaluates every class of ranks in virtual time, as far as the known inputs allow.
//
// Each class has a host cursor that walks its role's program and a cursor per stream. The host
// issues op i at host time h_i = h_{i-1} + host cost, waiting at synchronisation ops; op i begins
// on its stream at the latest of its issue, the end of the stream's previous op, and the events it
// waits for. A collective begins its transfer when the last member's stream has reached it and
// holds every member's stream until it ends; send and receive pair by (communicator, peer, order).
// All of this is max and plus over monotone times, so the result does not depend on the order in
// which cursors advance, and a work-list without a clock suffices.
//
// Gated ranks (emulation): the host cursor of a gated rank stops after the ops that its process has
// actually issued; Issue moves the gate, InsertHostGap adds host time that is not in the graph.
// What depends on a gated rank waits for it, everything else advances.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/graph.h"
#include "replayer/cost/collective_cost.h"
#include "replayer/engine/meeting.h"
#include "replayer/engine/op_position.h"
#include "replayer/engine/replay_options.h"
#include "replayer/engine/replay_result.h"

namespace prism::replayer {

class Engine {
 public:
  // `gated` ranks must be few: each becomes its own class. The graph must outlive the engine.
  static Result<Engine> Create(const graph::Graph& graph,
                               const ReplayOptions& options,
                               const std::vector<Rank>& gated);
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  // Evaluates until nothing can advance. True when every class has finished all iterations.
  bool Run();

  // Under NetworkModel::kFlow Run stops at transfers between nodes; the owner of the network
  // (replayer/network/flow_replay.h) then drives the engine: Advance goes as far as it can and
  // hands out the transfers that were reached; Complete reports the end of one.
  void Advance(std::vector<ReadyTransfer>* ready);
  void Complete(TransferId transfer, TimeNs end);
  [[nodiscard]] const graph::Graph& graph() const;
  [[nodiscard]] const ReplayOptions& options() const;
  [[nodiscard]] const CollectiveCost& collective_cost() const;

  // The gated rank has issued its program up to (not including) `position`.
  void Issue(Rank gated, OpPosition position);

  // The host thread of the gated rank spends `duration_ns` before its next op.
  void InsertHostGap(Rank gated, DurationNs duration_ns);

  // A gated rank on a real GPU: from now on its streams stop before each collective and peer group
  // until Arrive reports when they reached it. The whole rank is then shifted by the difference
  // from the computed time, since its kernels took more or less time than the graph says. Between
  // arrivals the graph's durations apply.
  void MeasureArrivals(Rank gated);
  void Arrive(Rank gated, OpPosition position, TimeNs time);

  // According to the graph, when the stream that is held at `position` reached it; null if no
  // stream is held there yet.
  [[nodiscard]] std::optional<TimeNs> ComputedArrival(Rank gated, OpPosition position) const;

  // Host time of the gated rank after everything it issued, waits included; null while that is not
  // known yet (call Run; others may have to issue first).
  [[nodiscard]] std::optional<TimeNs> HostTime(Rank gated) const;

  // When the op at `position` of a gated rank ends on its stream; null while not known.
  [[nodiscard]] std::optional<TimeNs> EndTime(Rank gated, OpPosition position) const;

  // When everything that the gated rank has issued has ended; null while not known.
  [[nodiscard]] std::optional<TimeNs> IdleTime(Rank gated) const;

  // Who waits for whom when nothing can advance: one line per stalled class, the cause first.
  [[nodiscard]] std::vector<std::string> DescribeStall() const;

  // How often a stream was asked so far whether it can advance: the work apart from the ops
  // themselves.
  [[nodiscard]] int64_t stream_looks() const;

  // Results of a finished run. Call once.
  [[nodiscard]] ReplayResult Summarise();

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Status of an engine that cannot advance: who waits for whom.
Status StallStatus(const Engine& engine);

}  // namespace prism::replayer
