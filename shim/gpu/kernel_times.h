// How long the real GPU takes for each op, as CUPTI says, sent to the worker as kDuration records.
//
// Each outermost call of a real library that follows ops of this thread carries their number as an
// external correlation id, so that all work it starts is that op's. Nodes of a graph are known by
// what was captured while they were made, whichever graph they are cloned into: a launch runs op n
// of the capture as its n-th. Work of no op (holds, their copies) is left out.
//
// Calls that may wait for the GPU are no time of the host (shim/clock/host_meter.h), all others
// are: what the driver takes for a launch counts with the op that follows. Only if
// Config::measures_device is set.
#pragma once

namespace prism::shim {

void BeginTimedCall();
void EndTimedCall();

}  // namespace prism::shim
