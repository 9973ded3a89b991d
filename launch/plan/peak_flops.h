// The peak rate of a GPU's matrix units.
#pragma once

#include <string>

#include "graph/job/cluster.h"
#include "graph/job/training_style.h"

namespace prism::launch {

// Dense peak of one GPU for matrix products in that format, FLOP/s; the nearest wider format's
// where the GPU lacks it.
double PeakFlops(const graph::ClusterSpec& cluster, graph::Precision precision);

// What is used instead of a format that the GPU lacks: "the GPU has no 4-bit products: ..."; "" if
// it has it.
std::string LackingFormat(const graph::ClusterSpec& cluster, graph::Precision precision);

}  // namespace prism::launch
