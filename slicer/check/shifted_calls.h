// Two ranks' calls of one communicator beside each other: from which one on they are out of step,
// and whether one of them has left a call out or made one more.
#pragma once

#include <string>
#include <vector>

#include "slicer/check/check.h"
#include "slicer/check/execution.h"

namespace prism::slicer {

// The rank's collectives of the communicator that the collective `id` is on; empty for other calls.
std::vector<CallId> CallsLike(const Execution& execution, CallId id, uint32_t rank);

enum class Shift : uint8_t { kNone, kLeftOut, kOneMore, kSwapped };

// What `own` does from call `at` on, compared with `other`.
Shift ShiftAt(const Execution& execution,
              const std::vector<CallId>& own,
              const std::vector<CallId>& other,
              size_t at);

// `id` waits for `rank`, which has one call less: adds where calls of different lines began to
// meet, if any did.
void AddShift(const Execution& execution, CallId id, uint32_t rank, CheckFault* fault);

}  // namespace prism::slicer
