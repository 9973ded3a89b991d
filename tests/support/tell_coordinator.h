// Sends one event of a sandbox rank to process 0, as a worker's message does.
#pragma once

#include <string>

#include "launch/emulate/clock/coordinator.h"
#include "launch/emulate/clock/emulation_messages.h"

namespace prism::testing {

inline void TellCoordinator(const launch::RankEvent& event, launch::Coordinator* coordinator) {
  launch::WireWriter out;
  launch::PutEvent(event, &out);
  const std::string bytes = out.Take();
  launch::WireReader in(bytes);
  coordinator->Take(&in);
}

}  // namespace prism::testing
