// Rounds of a program that need not run (channel::RoundBody). The program finds the function by
// name.
#include "shim/session.h"

namespace prism::shim {

extern "C" int32_t prism_shim_rounds_to_skip(int32_t left) {
  if (SessionConfig().repeats_rounds == 0) {
    return 0;
  }
  channel::Record record = {};
  record.kind = channel::RecordKind::kRound;
  record.round.left = left;
  return static_cast<int32_t>(Request(record).value_ns);
}

}  // namespace prism::shim
