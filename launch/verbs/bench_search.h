// prism bench search: plans a second, and a complete search.
#pragma once

#include "launch/verbs/bench.h"

namespace prism::launch {

// GPT-3 175B on 8,192 H100 of h100-8x, batch 1,536: 200 plans drawn by a seed among those whose
// states fit, each evaluated by itself on one thread (time, then memory), then the complete search
// on `threads`.
BenchResult BenchSearch(int threads);

}  // namespace prism::launch
