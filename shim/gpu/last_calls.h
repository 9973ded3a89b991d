// The last calls that were forwarded to a real library, with their codes, in a file that is whole
// however the process ends: PRISM_CALLS.PID, if PRISM_CALLS is set, of kLastCalls lines
//
//   NUMBER NAME CODE
//
// in a ring by number; a call that has not returned, or returns no code, has the code "-".
#pragma once

#include <cstdint>

namespace prism::shim {

inline constexpr uint64_t kLastCalls = 200;

// Its number; 0 if none are kept.
uint64_t NoteCall(const char* name);
void NoteCode(uint64_t number, const char* name, int64_t code);

}  // namespace prism::shim
