// Where the steady part of an iteration can be lengthened without being run: an evaluation of a job
// with few micro-batches then gives, to the nanosecond, the times of one with many.
//
// Windows of equal rounds lie around a cut through all stages, three in front of it and two behind
// it. An op takes the maximum of its inputs and adds, and its inputs are from its own window n or
// from those beside it. Suppose that all that windows hand on (tails of streams, events, arrivals
// at messages, the host's time) moves by a rate r of its own, from window 1 to 2, from 2 to 3, and,
// with k more windows at the cut moved over at those rates, by (k + 1) r to the first window behind
// it and by r to the second. Then every window between moves by r as well: along such lines an op's
// result is a convex function of n, it is the line in windows 2, 3 and k + 4, and a convex function
// that meets a line in three points is that line in between. Rates may differ: a stage may work off
// what has gathered in front of it for hundreds of windows, until the cut at which that shows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "replayer/stages/stage_plan.h"

namespace prism::replayer {

inline constexpr size_t kWindows = 5;
inline constexpr size_t kCut = 3;  // windows in front of the cut

// What an instruction of the first window does for a later one: it records an event, or posts a
// message whose other end is there.
struct HandedOn {
  uint32_t instruction = 0;
  uint32_t post = kNone;  // of its peer group
};

// Of one stage.
struct SteadyCut {
  std::array<uint32_t, kWindows + 1> at = {};     // instructions at which windows begin; the end
  std::array<uint32_t, kWindows + 1> marks = {};  // compute marks taken before each
  uint32_t epoch = 0;                             // waits of the host before the cut
  std::vector<HandedOn> handed_on;
  std::vector<uint32_t> earlier_event;  // by event handed over the cut: that of the window before

  [[nodiscard]] bool IsBehind(uint32_t instruction) const { return instruction >= at[kCut]; }
  [[nodiscard]] uint32_t length() const { return at[1] - at[0]; }
};

// A message with an end on either side of the cut, and those of the two windows before.
struct CutMessage {
  bool over_cut = false;
  uint32_t earlier = kNone;
};

// An evaluation as if the steady part had `windows` more windows at the cut.
struct Lengthening {
  std::vector<SteadyCut> cuts;       // by stage
  std::vector<CutMessage> messages;  // by message
  int64_t windows = 0;
};

// The last cut that has its windows of `rounds` rounds in every stage. Nothing where there is none,
// where the windows of a stage are not alike or hold a collective over stages, or where they hand
// on over more than one window.
std::optional<Lengthening> FindSteadyCut(const StagePlan& plan, uint32_t rounds, int64_t windows);

}  // namespace prism::replayer
