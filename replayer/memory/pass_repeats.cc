#include "replayer/memory/pass_repeats.h"

#include <utility>

namespace prism::replayer {

int64_t PassRepeats::PairsToLeaveOut(const BlocksInFlight& in_flight) {
  --left_;
  const auto period = static_cast<int64_t>(in_flight.size()) + 1;
  const auto known = static_cast<int64_t>(states_.size());
  if (known + left_ < 2 * period) {  // none would be left out
    states_.clear();
    return 0;
  }
  State state;
  state.places = account_->FreePlaces();
  for (const std::vector<MemoryBlocks>& micro_batch : in_flight) {
    for (const MemoryBlocks& unit : micro_batch) {
      for (const MemoryAccount::Block& block : unit) {
        state.in_flight.push_back(account_->AddressOf(block));
      }
    }
  }
  states_.push_back(std::move(state));
  if (known < period) {
    return 0;
  }
  const bool repeats = states_.front() == states_.back();
  states_.pop_front();
  const int64_t left_out = repeats ? left_ / period * period : 0;
  left_ -= left_out;
  return left_out;
}

}  // namespace prism::replayer
