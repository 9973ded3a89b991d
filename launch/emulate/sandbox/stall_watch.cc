#include "launch/emulate/sandbox/stall_watch.h"

#include <string>

#include <fmt/format.h>

namespace prism::launch {

Status StallWatch::Check(SandboxProcess& process, int32_t iteration) const {
  if (std::chrono::steady_clock::now() - last_ < bound_) {
    return OkStatus();
  }
  std::string stacks = process.Stacks();
  stacks.erase(stacks.find_last_not_of('\n') + 1);
  return RunFailed(fmt::format(
      "the program of rank {} has issued nothing for {} s, in {}; --stall-timeout sets the bound{}",
      process.rank().value(), bound_.count(),
      iteration < 0 ? "its start-up" : fmt::format("iteration {}", iteration),
      stacks.empty() ? fmt::format("; {}", process.LastLines()) : "\n" + stacks));
}

}  // namespace prism::launch
