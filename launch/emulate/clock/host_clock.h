// The virtual host time of a sandbox rank as far as its worker knows it: the last time that process
// 0 reported, plus the host cost of what the rank has issued since. Lets a worker answer polls of
// events whose end it knows, without a round trip; the allocator polls at every allocation.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/time.h"
#include "graph/graph.h"
#include "replayer/engine/op_position.h"
#include "replayer/perturb/interference.h"
#include "replayer/perturb/perturbation.h"

namespace prism::launch {

class HostClock {
 public:
  HostClock(const graph::Graph& graph,
            Rank rank,
            const std::vector<replayer::Perturbation>& perturbations);

  // Host time when everything before `position` has been issued, as reported by process 0.
  void Set(replayer::OpPosition position, TimeNs time);

  // Adds host time that is not in the graph.
  void Pass(DurationNs duration) { base_ += duration; }

  // The rank waits in a synchronisation call: nothing is known until the next Set.
  void Stop() { known_ = false; }

  [[nodiscard]] std::optional<TimeNs> At(replayer::OpPosition position) const;

  // When the op at the position ends on its stream, as reported by process 0.
  void SetEnd(replayer::OpPosition position, TimeNs end);
  [[nodiscard]] std::optional<TimeNs> EndOf(replayer::OpPosition position) const;

 private:
  [[nodiscard]] TimeNs Cumulative(replayer::OpPosition position) const;

  std::vector<DurationNs> cumulative_;  // before each op of the program, and after the last
  std::vector<replayer::HostPause> pauses_;
  TimeNs base_ = 0;  // host time minus Cumulative(position)
  bool known_ = false;
  std::map<replayer::OpPosition, TimeNs> ends_;
};

}  // namespace prism::launch
