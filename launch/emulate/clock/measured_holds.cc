#include "launch/emulate/clock/measured_holds.h"

#include <algorithm>

namespace prism::launch {

void HoldAccuracy::Add(const HoldAccuracy& other) {
  holds += other.holds;
  late += other.late;
  latest_ns = std::max(latest_ns, other.latest_ns);
}

void MeasuredHolds::Begin(replayer::OpPosition position, int64_t gpu_ns) {
  open_[position].begin_gpu_ns = gpu_ns;
}

void MeasuredHolds::End(replayer::OpPosition position, int64_t gpu_ns) {
  const auto found = open_.find(position);
  if (found == open_.end() || !found->second.end_ns) {
    return;  // it was aborted
  }
  const Hold& hold = found->second;
  const int64_t due_ns = std::max(hold.deadline_gpu_ns, hold.begin_gpu_ns);
  const DurationNs late_ns = std::max<int64_t>(0, gpu_ns - due_ns);
  ++accuracy_.holds;
  accuracy_.late += late_ns > kLateNs ? 1 : 0;
  accuracy_.latest_ns = std::max(accuracy_.latest_ns, late_ns);
  if (late_ns > kLateNs) {
    clock_->MoveAnchor(gpu_ns, *hold.end_ns);
  }
  open_.erase(found);
}

bool MeasuredHolds::PassArrivals(replayer::Engine* engine) {
  bool passed = false;
  for (auto& [position, hold] : open_) {
    if (hold.passed) {
      continue;
    }
    if (!clock_) {
      const std::optional<TimeNs> by_graph = engine->ComputedArrival(rank_, position);
      if (!by_graph) {
        break;
      }
      clock_.emplace(hold.begin_gpu_ns, *by_graph, scale_);
    }
    hold.passed = true;
    engine->Arrive(rank_, position, clock_->ToVirtual(hold.begin_gpu_ns));
    passed = true;
  }
  return passed;
}

void MeasuredHolds::CollectEnds(const replayer::Engine& engine, std::vector<HoldEnd>* ends) {
  for (auto& [position, hold] : open_) {
    if (!hold.passed || hold.end_ns) {
      continue;
    }
    hold.end_ns = engine.EndTime(rank_, position);
    if (hold.end_ns) {
      hold.deadline_gpu_ns = clock_->ToGpu(*hold.end_ns);
      ends->push_back({rank_, position, hold.deadline_gpu_ns});
    }
  }
}

}  // namespace prism::launch
