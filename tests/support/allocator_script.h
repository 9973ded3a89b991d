// A random sequence of requests to a caching allocator, for tests that run the same script on
// several of them.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

namespace prism::testing {

enum class AllocatorStepKind : uint8_t { kAllocate, kFree, kUse, kEmptyCache };

struct AllocatorStep {
  AllocatorStepKind kind = AllocatorStepKind::kAllocate;
  int64_t value = 0;   // kAllocate: bytes; kFree, kUse: which of the allocations, from 0
  int64_t stream = 0;  // kAllocate, kUse: index
};

struct AllocatorScriptOptions {
  uint64_t seed = 0;
  int64_t steps = 1000;
  int64_t streams = 1;
  int64_t largest_bytes = int64_t{64} << 20;
  int64_t live = 60;  // approximate number of live allocations
};

// Every allocation is freed at most once; sizes spread over the allocator's kinds of request.
std::vector<AllocatorStep> RandomAllocatorScript(const AllocatorScriptOptions& options);

// One step per line: letter, value, stream.
void WriteScript(const std::vector<AllocatorStep>& script, std::ostream* out);
std::vector<AllocatorStep> ReadScript(std::istream* in);

}  // namespace prism::testing
