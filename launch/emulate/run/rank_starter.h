// Starts the processes of a worker's ranks. A program of Python or libtorch is started once as a
// fork server, from which ranks are forked. The first rank is started by itself meanwhile, and once
// more, forked: if it does not do the same even without imports ahead (shim/fork_server/imports.h),
// or cannot be forked, each rank is started by itself, and a line says why. The built-in program is
// known to do the same (ForkedRanks.* of the tests), and compared under --strict only.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "graph/base/status.h"
#include "launch/emulate/run/run_context.h"
#include "launch/emulate/sandbox/fork_server.h"
#include "launch/emulate/sandbox/sandbox_process.h"
#include "launch/emulate/sandbox/shared_memory.h"
#include "launch/process/stop_watch.h"

namespace prism::launch {

class RankStarter {
 public:
  // The same rank has been started by itself before, or not.
  enum class Try : uint8_t { kFirst, kSecond };

  // `context` must outlive it.
  explicit RankStarter(const RunContext& context)
      : context_(context), patience_s_(context.options.stall_timeout_s) {}

  // False while a rank had better wait: for the fork server, or for the second try of another, of
  // which there is one or will be as long as `others` run. `knows_imports`: the first try has come
  // to where it imports no more, as a rule.
  bool MayStart(Try which, bool others, bool knows_imports);

  Result<std::unique_ptr<SandboxProcess>> Start(const SandboxSpec& spec, Try which = Try::kFirst);

  // Whether a rank that is started by itself is to be started once more, forked; and in what it
  // then differed, "" if in nothing.
  [[nodiscard]] bool WantsSecondTry() const { return server_ != nullptr && !tried_; }
  void EndSecondTry(Rank rank, std::string_view difference);

  // For how long the fork server may start, and a second try do nothing: a few times as long as a
  // rank by itself needed until its first kernel, once that is known.
  void LimitPatience(double startup_seconds);
  [[nodiscard]] int32_t patience_s() const { return patience_s_; }

 private:
  void StartServer();
  void StopForking(std::string_view why);

  const RunContext& context_;
  std::unique_ptr<ForkServer> server_;
  StopWatch server_age_;
  int32_t patience_s_;
  std::unique_ptr<SharedMemory> imports_;  // channel::ImportLog, while the fork server uses it
  bool asked_ = false;                     // for a fork server
  bool has_imports_ = false;               // it imports ahead, or has
  bool tried_ = false;                     // a rank twice
};

}  // namespace prism::launch
