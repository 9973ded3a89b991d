// The time that workers of torch's data loader need for their batches. A loader is a stream of the
// rank: where the rank takes a batch it waits for that stream, on which the next batch then begins.
// So a batch exists no earlier than its worker has made it, and is made while the rank computes. N
// workers count as one that is N times as fast; that they may be further ahead (prefetch_factor),
// or begin anew with an epoch, is left out, so that all steps issue the same.
//
// What counts is how long the worker's own thread sleeps, which then takes no real time: that is
// the same in every run. Its CPU time is not counted, as the rank's own is not by default. Only
// workers that are forked tell; of others it is counted that their time is unknown.
#pragma once

#include <cstdint>

namespace prism::shim {

// Does nothing in a program without Python.
void TimeLoaderWorkers();

// Counts the sleep as the worker's work. False if the calling thread is none's.
bool SleepAsWorker(int64_t duration_ns);

}  // namespace prism::shim
