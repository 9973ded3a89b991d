// A loop spread over threads. The result is the same for any number of threads as long as the body
// for one index writes only what belongs to that index.
#pragma once

#include <cstdint>
#include <functional>

namespace prism {

// Processors that the affinity mask of this process allows, at least 1.
int AvailableThreads();

// Calls body(i) once for every i in [0, count), on at most `threads` threads, the caller's
// included, and returns when all are done. `block` consecutive indices go to one thread at a time.
void ParallelFor(int threads,
                 int64_t count,
                 const std::function<void(int64_t)>& body,
                 int64_t block = 1);

}  // namespace prism
