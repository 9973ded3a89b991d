#include "launch/emulate/run/rank_starter.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launch/emulate/run/recorded_process.h"
#include "shim/channel/fork_request.h"

namespace prism::launch {
namespace {

// A fork server gets to where it needs its rank as soon as a rank by itself, which runs beside it.
constexpr int32_t kLeastPatienceS = 30;
constexpr double kPatience = 3;

// Where the ranks differ by more, the fork server does not serve them.
std::vector<std::string> VariablesOfRanks(const RunContext& context) {
  std::set<std::string> names = {"PRISM_BLOCK_EVENTS", "PRISM_EXCHANGE", "PRISM_STORE",
                                 "PRISM_VALUES", "PRISM_VALUES_BYTES"};
  const auto environment = [&](int64_t rank) {
    SandboxRequest request;
    request.rank = Rank(static_cast<uint32_t>(rank));
    request.present = {request.rank};
    return MakeSandboxSpec(context, request).environment;
  };
  const int64_t world = context.job.parallel.world_size();
  const auto first = environment(0);
  for (const int64_t rank : {std::min<int64_t>(1, world - 1), world - 1}) {
    const auto other = environment(rank);
    PRISM_CHECK_EQ(first.size(), other.size());
    for (size_t i = 0; i < first.size(); ++i) {
      if (first[i] != other[i]) {
        names.insert(first[i].first);
      }
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace

void RankStarter::StartServer() {
  const Options& options = context_.options;
  const bool one = context_.job.parallel.world_size() == 1;
  if (asked_ || one || options.launch.in_script || options.cold_start) {
    return;
  }
  asked_ = true;
  if (options.program.empty() && !options.strict) {
    tried_ = true;
    patience_s_ = kLeastPatienceS;
  }
  SandboxRequest request;
  request.rank = Rank(0);
  request.present = {request.rank};
  request.iterations = kBuiltInIterations;
  imports_ = std::make_unique<SharedMemory>("prism-imports", sizeof(channel::ImportLog));
  Result<std::unique_ptr<ForkServer>> server = ForkServer::Start(
      MakeSandboxSpec(context_, request), VariablesOfRanks(context_), imports_->Path());
  if (!server.ok()) {
    StopForking(server.status().message());
    return;
  }
  server_ = *std::move(server);
  server_age_ = StopWatch();
}

void RankStarter::StopForking(std::string_view why) {
  context_.logger.Info("the program of each rank is started by itself: {}", why);
  server_.reset();
}

void RankStarter::LimitPatience(double startup_seconds) {
  const auto patience_s = static_cast<int32_t>(kPatience * startup_seconds);
  patience_s_ = std::min(patience_s_, std::max(kLeastPatienceS, patience_s));
}

void RankStarter::EndSecondTry(Rank rank, std::string_view difference) {
  if (!difference.empty() && server_ != nullptr && imports_ != nullptr && has_imports_) {
    context_.logger.Info("forked, rank {} differs from itself in its {}: nothing is imported ahead",
                         rank.value(), difference);
    imports_.reset();
    server_->LeaveOutImports();
    return;
  }
  tried_ = true;
  if (!difference.empty() && server_ != nullptr) {
    StopForking(
        fmt::format("forked, rank {} differs from itself in its {}", rank.value(), difference));
  }
}

bool RankStarter::MayStart(Try which, bool others, bool knows_imports) {
  StartServer();
  if (server_ == nullptr) {
    return true;
  }
  const ForkServer::State state = server_->Look();
  if (state == ForkServer::State::kGone) {
    StopForking(server_->why_gone());
    return true;
  }
  if (state == ForkServer::State::kStarting && server_age_.Seconds() > patience_s_) {
    StopForking(has_imports_ ? fmt::format("its imports have taken {} s", patience_s_)
                             : fmt::format("it has not needed its rank for {} s", patience_s_));
    return true;
  }
  const bool ready = state == ForkServer::State::kReady;
  if (which == Try::kSecond && ready && knows_imports && imports_ != nullptr && !has_imports_) {
    has_imports_ = true;
    server_->ImportAhead();
    server_age_ = StopWatch();
    return false;
  }
  return which == Try::kSecond || tried_ ? ready : !others;
}

Result<std::unique_ptr<SandboxProcess>> RankStarter::Start(const SandboxSpec& spec, Try which) {
  if (tried_ || which == Try::kSecond) {
    return SandboxProcess::Start(spec, server_.get());
  }
  SandboxSpec alone = spec;
  if (server_ != nullptr && imports_ != nullptr) {
    NoteImports(imports_->Path(), &alone);
  }
  return SandboxProcess::Start(alone);
}

}  // namespace prism::launch
