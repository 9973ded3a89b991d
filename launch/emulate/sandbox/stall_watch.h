// Notices a sandbox process that neither issues anything (apart from sleeps) nor waits for an
// answer: a program that hangs, or polls for something that never comes.
#pragma once

#include <chrono>

#include "graph/base/status.h"
#include "launch/emulate/sandbox/sandbox_process.h"

namespace prism::launch {

class StallWatch {
 public:
  explicit StallWatch(int32_t bound_seconds) : bound_(bound_seconds) {}

  // Call when the process has issued something, or has to wait for others.
  void Move() { last_ = std::chrono::steady_clock::now(); }

  // kRunFailed, with rank and stacks, when there was no Move for longer than the bound; OK before.
  [[nodiscard]] Status Check(SandboxProcess& process, int32_t iteration) const;

 private:
  std::chrono::seconds bound_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace prism::launch
