// A question such as "when did the forward pass end that was running then?" is asked long after the
// moment, when a block is freed, so ends are kept as ascending lists and searched. A program that
// names its forward passes ends them itself; one that does not has them end where autograd begins,
// and as soon as one is named the guesses stop.
#include "slicer/record/pass_history.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "graph/base/intern.h"
#include "slicer/record/op_stream.h"

namespace prism::slicer {
namespace {

Phase PhaseOfMarker(const std::string& name) {
  const std::string_view word = std::string_view(name).substr(0, name.find_first_of(" :_-/."));
  if (word == "forward") {
    return Phase::kForward;
  }
  if (word == "recompute") {
    return Phase::kRecompute;
  }
  if (word == "backward") {
    return Phase::kBackward;
  }
  return word == "optimizer" || word == "Optimizer" ? Phase::kOptimizer : Phase::kOther;
}

uint32_t FirstAfter(const std::vector<uint32_t>& moments, uint32_t moment) {
  const auto found = std::ranges::upper_bound(moments, moment);
  return found == moments.end() ? PassHistory::kNever : *found;
}

}  // namespace

void PassHistory::BeginMarker(const std::string& name) {
  Tick();
  open_.push_back(name);
  names_forward_ = names_forward_ || PhaseOfMarker(name) == Phase::kForward;
  if (name == kIterationMarker && first_iteration_ == kNever) {
    first_iteration_ = moment_;
  }
  FindPath();
}

void PassHistory::EndMarker(const std::string& name) {
  Tick();
  const auto found = std::find(open_.rbegin(), open_.rend(), name);
  if (found == open_.rend()) {
    return;
  }
  open_.erase(std::next(found).base());
  FindPath();
  if (name == kIterationMarker) {
    iteration_ends_.push_back(moment_);
  }
  const Phase phase = PhaseOfMarker(name);
  if (phase == Phase::kForward) {
    forward_ends_.push_back(moment_);
  } else if (phase == Phase::kRecompute) {
    recompute_ends_.push_back(moment_);
  }
}

bool PassHistory::SeePass(bool in_backward) {
  const bool begins = in_backward && !in_backward_;
  in_backward_ = in_backward;
  if (begins && !names_forward_) {
    forward_ends_.push_back(Tick());
  }
  return begins;
}

void PassHistory::FindPath() {
  path_ = InternValue(paths_, path_index_, open_);
}

Phase PassHistory::PhaseOf(uint32_t path, bool in_backward) const {
  const Path& markers = paths_[path];
  for (auto name = markers.rbegin(); name != markers.rend(); ++name) {
    const Phase phase = PhaseOfMarker(*name);
    if (phase != Phase::kOther) {
      return phase;
    }
  }
  return in_backward ? Phase::kBackward : Phase::kOther;
}

uint32_t PassHistory::FirstIteration() const {
  return first_iteration_;
}

uint32_t PassHistory::IterationEnd(uint32_t moment) const {
  return FirstAfter(iteration_ends_, moment);
}

uint32_t PassHistory::ForwardEnd(uint32_t moment) const {
  return FirstAfter(forward_ends_, moment);
}

uint32_t PassHistory::RecomputeEnd(uint32_t moment) const {
  return FirstAfter(recompute_ends_, moment);
}

}  // namespace prism::slicer
