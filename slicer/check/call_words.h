// Calls of ranks in words.
#pragma once

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

FaultCall MakeFaultCall(const Execution& execution, CallId id);
const SourceLine& SourceOf(const Execution& execution, CallId id);
Rank RankOf(const Execution& execution, CallId id);

// "rank 3 waits", "ranks 0-7 wait".
std::string RanksDo(const std::vector<Rank>& ranks,
                    const std::string& one,
                    const std::string& many);

// What NCCL's watchdog of that rank prints when the call's time is over; "" if it has none.
std::string WatchdogText(const Execution& execution, CallId id, uint32_t number);

}  // namespace prism::slicer
