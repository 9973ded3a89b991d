// What a stage sends to its neighbours and receives from them between two passes: one group of
// messages on one stream, or each message on its own stream (BatchesMessages).
#pragma once

#include "graph/program/rank_shape.h"
#include "slicer/synthesize/op_list.h"
#include "slicer/synthesize/pass_schedule.h"

namespace prism::slicer {

OpList MessagesOf(const RankShape& rank, const StageExchange& exchange);

}  // namespace prism::slicer
