#include "replayer/stages/equal_rounds.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace prism::replayer {
namespace {

class RoundComparison {
 public:
  RoundComparison(const StagePlan& plan, const StageCosts& costs) : plan_(plan), costs_(costs) {
    for (const StageLanes& stage : plan.stages) {
      std::vector<uint32_t>& records = records_.emplace_back(stage.event_count, kNone);
      for (uint32_t i = 0; i < stage.instructions.size(); ++i) {
        const Instruction& instruction = stage.instructions[i];
        if (instruction.kind == InstructionKind::kRecord && instruction.event != kNone) {
          records[instruction.event] = i;
        }
      }
    }
  }

  // Whether the round is that before it once more, in every stage.
  [[nodiscard]] bool IsAsBefore(size_t round) const {
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const std::vector<uint32_t>& rounds = plan_.stages[s].rounds;
      if (rounds[round + 1] - rounds[round] != Length(s, round)) {
        return false;
      }
      for (uint32_t i = rounds[round]; i < rounds[round + 1]; ++i) {
        if (!IsAsBefore(s, round, i)) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  // Of the round before.
  [[nodiscard]] uint32_t Length(size_t s, size_t round) const {
    return plan_.stages[s].rounds[round] - plan_.stages[s].rounds[round - 1];
  }

  [[nodiscard]] bool IsAsBefore(size_t s, size_t round, uint32_t i) const {
    const uint32_t earlier = i - Length(s, round);
    const Instruction& now = plan_.stages[s].instructions[i];
    const Instruction& before = plan_.stages[s].instructions[earlier];
    if (now.kind != before.kind || now.sync != before.sync || now.stream != before.stream ||
        now.kind == InstructionKind::kMeeting || HostStep(s, i) != HostStep(s, earlier) ||
        ChargeOf(s, now) != ChargeOf(s, before) || !SameEvent(s, round, now, before)) {
      return false;
    }
    return now.kind == InstructionKind::kPeerGroup ? SamePosts(round, now, before)
                                                   : now.index == before.index;
  }

  // Host time since the instruction before.
  [[nodiscard]] DurationNs HostStep(size_t s, uint32_t i) const {
    const std::vector<DurationNs>& host_ns = costs_.host_ns[s];
    return host_ns[i] - (i == 0 ? 0 : host_ns[i - 1]);
  }

  [[nodiscard]] DurationNs ChargeOf(size_t s, const Instruction& instruction) const {
    return instruction.charge == kNone ? 0 : costs_.charge_ns[s][instruction.charge];
  }

  // Of one record before all equal rounds, or of one per round.
  [[nodiscard]] bool SameEvent(size_t s,
                               size_t round,
                               const Instruction& now,
                               const Instruction& before) const {
    if (now.event == kNone || before.event == kNone) {
      return now.event == before.event;
    }
    const uint32_t record = records_[s][now.event];
    const uint32_t earlier = records_[s][before.event];
    return record == earlier ||
           (record == earlier + Length(s, round) && record >= plan_.stages[s].rounds[round - 1]);
  }

  [[nodiscard]] bool SamePosts(size_t round,
                               const Instruction& now,
                               const Instruction& before) const {
    return std::ranges::equal(
        plan_.peer_groups[now.index].posts, plan_.peer_groups[before.index].posts,
        [&](const StagePost& a, const StagePost& b) {
          return a.is_send == b.is_send && SameCosts(a.message, b.message) &&
                 plan_.messages[a.message].channel == plan_.messages[b.message].channel &&
                 SameFarEnd(round, a, b);
        });
  }

  [[nodiscard]] bool SameCosts(uint32_t a, uint32_t b) const {
    return costs_.message_ns[a] == costs_.message_ns[b] &&
           costs_.message_send_ns[a] == costs_.message_send_ns[b] &&
           costs_.message_eager[a] == costs_.message_eager[b];
  }

  [[nodiscard]] bool SameFarEnd(size_t round, const StagePost& now, const StagePost& before) const {
    const PeerMessage& message = plan_.messages[now.message];
    const PeerChannel& channel = plan_.channels[message.channel];
    const auto peer = static_cast<size_t>(now.is_send ? channel.to : channel.from);
    const size_t far = now.is_send ? 0 : 1;
    const std::vector<uint32_t>& rounds = plan_.stages[peer].rounds;
    const uint32_t at = message.instructions[far];
    return at == plan_.messages[before.message].instructions[far] + Length(peer, round) &&
           at >= rounds[round - 1] && (round + 2 >= rounds.size() || at < rounds[round + 2]);
  }

  const StagePlan& plan_;
  const StageCosts& costs_;
  std::vector<std::vector<uint32_t>> records_;  // by stage and event
};

}  // namespace

EqualRounds FindEqualRounds(const StagePlan& plan, const StageCosts& costs) {
  size_t known = std::numeric_limits<size_t>::max();
  for (const StageLanes& stage : plan.stages) {
    known = std::min(known, stage.rounds.size());
  }
  EqualRounds longest;
  if (known < 2) {
    return longest;
  }
  const RoundComparison comparison(plan, costs);
  EqualRounds run = {0, 1};
  for (size_t round = 1; round + 1 < known; ++round) {
    if (!comparison.IsAsBefore(round)) {
      run.first = round;
    }
    run.end = round + 1;
    longest = run.count() > longest.count() ? run : longest;
  }
  return longest;
}

}  // namespace prism::replayer
