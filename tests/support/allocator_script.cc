#include "tests/support/allocator_script.h"

#include <algorithm>
#include <istream>
#include <ostream>
#include <string_view>

#include "graph/base/rng.h"
#include "tests/support/chance.h"

namespace prism::testing {
namespace {

constexpr std::string_view kLetters = "AFUE";

// Scalars, rows, the edge between the pools, and tensors up to the largest, a third of them whole
// MiB, so that sizes repeat and free blocks fit exactly.
int64_t DrawBytes(const AllocatorScriptOptions& options, Rng* rng) {
  switch (rng->UniformInt(0, 5)) {
    case 0:
      return rng->UniformInt(1, 4096);
    case 1:
      return rng->UniformInt(4097, 1 << 20);
    case 2:
      return (1 << 20) + rng->UniformInt(-1024, 1024);
    case 3:
      return rng->UniformInt(1 << 20, std::min<int64_t>(options.largest_bytes, 12 << 20));
    case 4:
      return rng->UniformInt(1, options.largest_bytes >> 20U) << 20U;
    default:
      return rng->UniformInt(1, options.largest_bytes);
  }
}

}  // namespace

std::vector<AllocatorStep> RandomAllocatorScript(const AllocatorScriptOptions& options) {
  Rng rng(options.seed, "allocator script");
  std::vector<AllocatorStep> script;
  std::vector<int64_t> live;
  int64_t allocations = 0;
  for (int64_t step = 0; step < options.steps; ++step) {
    const int64_t stream = rng.UniformInt(0, options.streams - 1);
    const bool grows = rng.UniformInt(0, 2 * options.live) >= static_cast<int64_t>(live.size());
    if (live.empty() || (grows && !Chance(&rng, 0.05))) {
      script.push_back({AllocatorStepKind::kAllocate, DrawBytes(options, &rng), stream});
      live.push_back(allocations++);
      continue;
    }
    if (Chance(&rng, 0.005)) {
      script.push_back({AllocatorStepKind::kEmptyCache, 0, 0});
      continue;
    }
    const auto chosen =
        static_cast<size_t>(rng.UniformInt(0, static_cast<int64_t>(live.size()) - 1));
    if (options.streams > 1 && Chance(&rng, 0.2)) {
      script.push_back({AllocatorStepKind::kUse, live[chosen], stream});
      continue;
    }
    script.push_back({AllocatorStepKind::kFree, live[chosen], 0});
    live.erase(live.begin() + static_cast<ptrdiff_t>(chosen));
  }
  return script;
}

void WriteScript(const std::vector<AllocatorStep>& script, std::ostream* out) {
  for (const AllocatorStep& step : script) {
    *out << kLetters[static_cast<size_t>(step.kind)] << ' ' << step.value << ' ' << step.stream
         << '\n';
  }
}

std::vector<AllocatorStep> ReadScript(std::istream* in) {
  std::vector<AllocatorStep> script;
  char letter = 0;
  AllocatorStep step;
  while (*in >> letter >> step.value >> step.stream) {
    step.kind = static_cast<AllocatorStepKind>(kLetters.find(letter));
    script.push_back(step);
  }
  return script;
}

}  // namespace prism::testing
