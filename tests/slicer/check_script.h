// What ranks of a made-up program call, for tests of prism check's matching.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "slicer/check/check.h"

namespace prism::slicer {

inline constexpr DurationNs kScriptTimeout = 600 * kNsPerSecond;

inline std::vector<Rank> RanksFrom(const std::vector<uint32_t>& numbers) {
  std::vector<Rank> ranks;
  for (const uint32_t number : numbers) {
    ranks.emplace_back(number);
  }
  return ranks;
}

// A rank's calls, one after the other, each with a line of its own.
class Script {
 public:
  explicit Script(uint32_t rank) { calls_.rank = Rank(rank); }

  Script& Group(const std::vector<uint32_t>& members, int32_t line) {
    const auto number = static_cast<int32_t>(calls_.groups.size());
    calls_.groups.push_back({"", RanksFrom(members), kScriptTimeout, number});
    Call call = Begin(CallKind::kMakeGroup, line);
    call.object = static_cast<uint32_t>(number);
    AddOnHost(call);
    return *this;
  }

  // A communicator, known by `identity`.
  Script& Communicator(uint64_t identity, const std::vector<uint32_t>& members, int32_t line = 0) {
    calls_.communicators.push_back({identity, RanksFrom(members), "", kScriptTimeout});
    Call call = Begin(CallKind::kMakeCommunicator, line);
    call.object = static_cast<uint32_t>(calls_.communicators.size() - 1);
    AddOnHost(call);
    return *this;
  }

  Script& OnCpu(uint32_t communicator) {
    calls_.communicators[communicator].is_cpu = true;
    return *this;
  }

  Script& Collective(uint32_t communicator,
                     int32_t line,
                     const graph::CollectiveShape& shape,
                     bool waits = true) {
    Call call = Begin(CallKind::kCollective, line);
    call.object = communicator;
    call.shape = shape;
    AddOnStream(call, static_cast<uint16_t>(communicator + 1), waits);
    return *this;
  }

  Script& Sum(uint32_t communicator, int32_t line, int64_t elements = 8, bool waits = true) {
    return Collective(communicator, line,
                      {graph::CollectiveKind::kAllReduce, DataType::kFloat32, graph::ReduceOp::kSum,
                       -1, elements * 4},
                      waits);
  }

  Script& Message(bool is_send, uint32_t peer, int32_t line, int64_t bytes = 64) {
    Call call = Begin(CallKind::kTransfers, line);
    call.transfers = {{is_send, Rank(peer), 0, bytes}};
    AddOnStream(call, 1, true);
    return *this;
  }

  // Waits for a key of the store at most 300 s, or sets it.
  Script& Store(const std::string& key, int32_t line, bool is_set = false) {
    Call call = Begin(CallKind::kStore, line);
    call.object = static_cast<uint32_t>(calls_.store_calls.size());
    call.timeout_ns = is_set ? 0 : 300 * kNsPerSecond;
    calls_.store_calls.push_back(
        {(is_set ? "store.set of key " : "store.get of key ") + key, is_set, {key}});
    AddOnHost(call);
    return *this;
  }

  Script& Overlapping() {
    calls_.calls[calls_.calls.size() - 2].overlaps = true;  // before its wait
    return *this;
  }

  Script& Sleep(DurationNs duration) {
    gap_ns_ += duration;
    return *this;
  }

  RankCalls Take(CallsEnd end = CallsEnd::kExit, const std::string& failure = "") {
    calls_.end = end;
    calls_.failure = failure;
    return calls_;
  }

 private:
  Call Begin(CallKind kind, int32_t line) {
    Call call = {.kind = kind};
    call.source = static_cast<uint32_t>(calls_.sources.size());
    calls_.sources.push_back({"train.py", line, "main"});
    return call;
  }

  void AddOnHost(Call call) {
    call.gap_ns = std::exchange(gap_ns_, 0);
    ++host_;
    calls_.calls.push_back(call);
  }

  void AddOnStream(Call call, uint16_t stream, bool waits) {
    counts_.resize(std::max<size_t>(counts_.size(), stream + 1U));
    call.stream = stream;
    call.gap_ns = gap_ns_;
    call.needs = {{0, host_}, {stream, counts_[stream]++}};
    calls_.calls.push_back(call);
    if (waits) {
      Call wait = {.kind = CallKind::kHostWait};
      wait.needs = {{stream, counts_[stream]}};
      AddOnHost(wait);
    }
  }

  RankCalls calls_;
  std::vector<uint32_t> counts_;
  uint32_t host_ = 0;
  DurationNs gap_ns_ = 0;
};

inline Script Started(uint32_t rank) {
  Script script(rank);
  script.Group({0, 1, 2}, 1).Communicator(7, {0, 1, 2});
  return script;
}

inline CheckFault OnlyFault(const std::vector<RankCalls>& ranks) {
  const CheckResult result = CheckCalls(ranks);
  EXPECT_EQ(result.faults.size(), 1U);
  return result.faults.empty() ? CheckFault() : result.faults.front();
}

inline bool NamesLine(const CheckFault& fault, uint32_t rank, int32_t line) {
  return std::ranges::any_of(fault.calls, [&](const FaultCall& call) {
    return call.rank == Rank(rank) && call.source.line == line;
  });
}

}  // namespace prism::slicer
