// Timelines of every op, for the traced lanes of a class of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "replayer/engine/lane_stream.h"
#include "replayer/engine/meeting.h"
#include "replayer/engine/op_position.h"
#include "replayer/engine/partition.h"
#include "replayer/engine/replay_result.h"
#include "replayer/engine/role_plan.h"

namespace prism::replayer {

class OpTraces {
 public:
  static constexpr TimeNs kUnknown = -1;

  // `lanes`: of the class. `plan`: of their program. Timelines hold `iterations` of it and the part
  // of the next one that is run (RolePlan::ahead), with what determined the ends if `decisive`.
  struct Extent {
    std::vector<uint32_t> lanes;
    int32_t iterations = 0;
    bool decisive = false;
  };
  OpTraces(const RolePlan& plan, const RankClass& rank_class, Extent extent);

  [[nodiscard]] bool empty() const { return timelines_.empty(); }

  // Ops that the host issues without waiting, by its `base` (HostCursor::Segment). Those without
  // a stream happen only on the host.
  void IssueOps(OpPosition begin, OpPosition end, const std::vector<TimeNs>& base);
  // The host waited at that op: its base before and after.
  void WaitAt(OpPosition position,
              const std::vector<TimeNs>& before,
              const std::vector<TimeNs>& after);

  // A step of a stream whose last op ended at `tail`, in that iteration: about to be executed,
  // executed without waiting for other ranks, or completed together with them.
  void Begin(int32_t iteration,
             const Step& step,
             const IssueTimes& issue,
             const std::vector<TimeNs>& tail);
  void End(int32_t iteration, const Step& step, const std::vector<TimeNs>& tail);
  void EndOfHold(int32_t iteration, const Step& step, const Hold& hold);

  // Of the first lane; kUnknown: not reached.
  [[nodiscard]] TimeNs EndTime(OpPosition position) const;
  [[nodiscard]] const Timeline& Of(uint32_t lane) const;

 private:
  template <typename Enter>
  void ForEachOp(int32_t iteration, const Step& step, const Enter& enter) const;

  const RolePlan& plan_;
  std::vector<uint32_t> lanes_;
  std::vector<Timeline> timelines_;  // by lanes_
};

}  // namespace prism::replayer
