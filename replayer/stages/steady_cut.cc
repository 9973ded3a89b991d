#include "replayer/stages/steady_cut.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace prism::replayer {
namespace {

bool Alike(const Instruction& a, const Instruction& b) {
  const bool peers = a.kind == InstructionKind::kPeerGroup;
  return a.kind == b.kind && a.sync == b.sync && a.stream == b.stream && a.span == b.span &&
         (peers || a.index == b.index) && (a.charge == kNone) == (b.charge == kNone) &&
         (a.event == kNone) == (b.event == kNone);
}

bool WindowsAreAlike(const StageLanes& lanes, const SteadyCut& cut) {
  for (size_t window = 0; window < kWindows; ++window) {
    if (cut.at[window + 1] - cut.at[window] != cut.length()) {
      return false;
    }
  }
  for (uint32_t i = cut.at[0]; i < cut.at[kWindows - 1]; ++i) {
    if (lanes.instructions[i].kind == InstructionKind::kMeeting ||
        !Alike(lanes.instructions[i], lanes.instructions[i + cut.length()])) {
      return false;
    }
  }
  return true;
}

// 0: before the windows; kWindows + 1: behind them.
uint32_t WindowOf(const SteadyCut& cut, uint32_t instruction) {
  return static_cast<uint32_t>(std::upper_bound(cut.at.begin(), cut.at.end(), instruction) -
                               cut.at.begin());
}

// False where a wait in or behind the windows reaches back over a whole one.
bool FindEvents(const StageLanes& lanes, SteadyCut* cut) {
  std::vector<uint32_t> recorded(lanes.event_count);  // by event: instruction
  cut->earlier_event.assign(lanes.event_count, kNone);
  for (uint32_t i = 0; i < lanes.instructions.size(); ++i) {
    const Instruction& instruction = lanes.instructions[i];
    if (instruction.event == kNone) {
      continue;
    }
    if (instruction.kind == InstructionKind::kRecord) {
      recorded[instruction.event] = i;
      continue;
    }
    const uint32_t record = recorded[instruction.event];
    const uint32_t from = WindowOf(*cut, record);
    const uint32_t to = WindowOf(*cut, i);
    if (from == 0 || from == to || from > kCut) {
      continue;
    }
    if (to > from + 1) {
      return false;
    }
    if (from == 1) {
      cut->handed_on.push_back({record, kNone});
    } else if (from == kCut) {
      cut->earlier_event[instruction.event] = lanes.instructions[record - cut->length()].event;
    }
  }
  return true;
}

// Where both ends of a message are posted.
struct Ends {
  HandedOn sender;
  HandedOn receiver;
};

std::vector<Ends> EndsOfMessages(const StagePlan& plan) {
  std::vector<Ends> ends(plan.messages.size());
  for (const StageLanes& lanes : plan.stages) {
    for (uint32_t i = 0; i < lanes.instructions.size(); ++i) {
      if (lanes.instructions[i].kind != InstructionKind::kPeerGroup) {
        continue;
      }
      const std::vector<StagePost>& posts = plan.peer_groups[lanes.instructions[i].index].posts;
      for (uint32_t p = 0; p < posts.size(); ++p) {
        Ends& of = ends[posts[p].message];
        (posts[p].is_send ? of.sender : of.receiver) = {i, p};
      }
    }
  }
  return ends;
}

// False where the ends of a message are more than a window apart.
bool FindMessages(const StagePlan& plan, Lengthening* longer) {
  const std::vector<Ends> ends = EndsOfMessages(plan);
  longer->messages.resize(ends.size());
  for (uint32_t m = 0; m < ends.size(); ++m) {
    SteadyCut& from = longer->cuts[static_cast<size_t>(plan.messages[m].from)];
    SteadyCut& to = longer->cuts[static_cast<size_t>(plan.messages[m].to)];
    const uint32_t sent = WindowOf(from, ends[m].sender.instruction);
    const uint32_t received = WindowOf(to, ends[m].receiver.instruction);
    const uint32_t first = std::min(sent, received);
    const uint32_t last = std::max(sent, received);
    if (last > first + 1) {
      return false;
    }
    if (sent > 1 && sent <= kWindows) {
      const StageLanes& lanes = plan.stages[static_cast<size_t>(plan.messages[m].from)];
      const Instruction& before = lanes.instructions[ends[m].sender.instruction - from.length()];
      const std::vector<StagePost>& posts = plan.peer_groups[before.index].posts;
      longer->messages[m].earlier = posts[ends[m].sender.post].message;
    }
    longer->messages[m].over_cut = first == kCut && last == kCut + 1;
    if (first == 1 && last == 2) {
      SteadyCut& early = sent == 1 ? from : to;
      early.handed_on.push_back(sent == 1 ? ends[m].sender : ends[m].receiver);
    }
  }
  return true;
}

uint32_t MarksBefore(const StageLanes& lanes, uint32_t instruction) {
  for (uint32_t i = instruction; i < lanes.instructions.size(); ++i) {
    if (lanes.instructions[i].mark != kNone) {
      return lanes.instructions[i].mark;
    }
  }
  return static_cast<uint32_t>(lanes.marks.size());
}

}  // namespace

std::optional<Lengthening> FindSteadyCut(const StagePlan& plan, uint32_t rounds, int64_t windows) {
  size_t known = std::numeric_limits<size_t>::max();
  for (const StageLanes& lanes : plan.stages) {
    known = std::min(known, lanes.rounds.size());
  }
  if (known < kWindows * rounds + 1) {
    return std::nullopt;
  }
  Lengthening longer;
  longer.windows = windows;
  for (const StageLanes& lanes : plan.stages) {
    SteadyCut cut;
    for (size_t i = 0; i <= kWindows; ++i) {
      cut.at[i] = lanes.rounds[known - 1 - (kWindows - i) * rounds];
      cut.marks[i] = MarksBefore(lanes, cut.at[i]);
    }
    cut.epoch = lanes.instructions[cut.at[kCut]].epoch;
    if (!WindowsAreAlike(lanes, cut) || !FindEvents(lanes, &cut)) {
      return std::nullopt;
    }
    longer.cuts.push_back(std::move(cut));
  }
  return FindMessages(plan, &longer) ? std::optional(std::move(longer)) : std::nullopt;
}

}  // namespace prism::replayer
