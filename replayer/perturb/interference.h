// What takes a device away at regular times: another job on it, a monitor, a checkpoint that
// copies. Exact in integers and monotone in the start, so that the order of evaluation does not
// matter.
#pragma once

#include <algorithm>
#include <limits>
#include <span>

#include "graph/base/time.h"

namespace prism::replayer {

// The device is stopped during [k · period_ns, k · period_ns + duration_ns), k = 1, 2, ...; 0 <
// duration_ns < period_ns.
struct Interference {
  DurationNs period_ns = 0;
  DurationNs duration_ns = 0;

  bool operator==(const Interference&) const = default;
};

// The host pauses for `duration_ns` before every iteration whose number is a multiple of
// `iterations`, except the first.
struct HostPause {
  int32_t iterations = 1;
  DurationNs duration_ns = 0;

  bool operator==(const HostPause&) const = default;
};

// Interrupted for a single interference, in closed form.
inline DurationNs InterruptedByOne(const Interference& one, TimeNs start, DurationNs duration) {
  const DurationNs phase = start % one.period_ns;
  const DurationNs stands =
      start >= one.period_ns && phase < one.duration_ns ? one.duration_ns - phase : 0;
  const DurationNs left = one.period_ns - phase - stands;  // of work before the next time
  if (duration <= left) {
    return duration > 0 ? stands + duration : 0;
  }
  const DurationNs work = one.period_ns - one.duration_ns;  // in each period
  const int64_t whole = (duration - left - 1) / work;
  return stands + left + whole * one.period_ns + one.duration_ns + (duration - left - whole * work);
}

// How long an op takes that needs `duration` of a device: it starts at `start` and is stopped
// whenever any interference is active. A duration of 0 stays 0.
inline DurationNs Interrupted(std::span<const Interference> all,
                              TimeNs start,
                              DurationNs duration) {
  if (all.size() == 1) {
    return InterruptedByOne(all.front(), start, duration);
  }
  TimeNs now = start;
  while (duration > 0) {
    TimeNs until = now;  // the device is stopped until then
    TimeNs next = std::numeric_limits<TimeNs>::max();
    for (const Interference& one : all) {
      const TimeNs begin = now / one.period_ns * one.period_ns;
      if (begin > 0 && now < begin + one.duration_ns) {
        until = std::max(until, begin + one.duration_ns);
      }
      next = std::min(next, begin + one.period_ns);
    }
    if (until > now) {
      now = until;
      continue;
    }
    const DurationNs work = std::min(duration, next - now);
    duration -= work;
    now += work;
  }
  return now - start;
}

}  // namespace prism::replayer
