// What the axes of a grid of ranks are for: tp, cp, ep, dp or pp.
//
// The names of the process groups along an axis tell ("TENSOR_MODEL_PARALLEL_GROUP",
// "mesh_dp_shard"), those that speak of one kind of axis before those that speak of several
// ("EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP"). Where none does, the degrees that the user gave, if
// there are groups. Where those do not, what is sent along it: sends and receives are cp where they
// go round in a ring, else pp; all-reduces that matrix products wait for, as of activations, are
// tp; all else is dp.
#pragma once

#include <vector>

#include "graph/fragment.h"
#include "graph/job/job.h"

namespace prism::slicer {

// Names the axes, whose sizes are given; with a number from the second of a kind on ("dp_2").
std::vector<graph::GridAxis> NameAxes(std::vector<graph::GridAxis> axes,
                                      const graph::ParallelSizes& given,
                                      const std::vector<const graph::Fragment*>& ranks);

}  // namespace prism::slicer
