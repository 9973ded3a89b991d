// What a rank does with other ranks (slicer/check/calls.h), from the worker that recorded it to
// process 0.
#pragma once

#include "launch/process/wire.h"
#include "slicer/check/calls.h"

namespace prism::launch {

void PutCalls(const slicer::RankCalls& calls, WireWriter* message);
slicer::RankCalls GetCalls(WireReader* message);

}  // namespace prism::launch
