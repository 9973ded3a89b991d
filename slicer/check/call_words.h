// Calls of ranks in words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "slicer/check/check.h"
#include "slicer/check/execution.h"

namespace prism::slicer {

// "all_reduce of 1,024 float32"; "barrier".
std::string CallText(const Execution& execution, CallId id);

// "the default group", "group tp of ranks 0-7".
std::string GroupText(const Execution& execution, CallId id);

// "train.py:12 (save)"; "an unknown line".
std::string LineText(const SourceLine& source);

// "barrier (train.py:12 (save))".
std::string CallAtLine(const Execution& execution, CallId id);

// The last one with a line.
std::optional<CallId> LastCall(const Execution& execution, uint32_t rank);

// "ended with exit code 1: ValueError: ..."; "waits for ever in store.get of key go (train.py:3)",
// of a rank that failed or is blocked.
std::string FailureText(const Execution& execution, uint32_t rank, bool several);

FaultCall MakeFaultCall(const Execution& execution, CallId id);
const SourceLine& SourceOf(const Execution& execution, CallId id);
Rank RankOf(const Execution& execution, CallId id);

// "rank 3 waits", "ranks 0-7 wait".
std::string RanksDo(const std::vector<Rank>& ranks,
                    const std::string& one,
                    const std::string& many);

// Who ends the call of that rank when its time is over, NCCL's watchdog or the store, and what it
// prints; "" if it has no time-out.
std::string WatchdogText(const Execution& execution, CallId id, uint32_t number);

}  // namespace prism::slicer
