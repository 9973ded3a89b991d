// What a prediction has to beat: model FLOPs over peak over one efficiency, times the pipeline
// bubble of the schedule in closed form. The efficiency is the only parameter, fitted to the same
// rows that it is shown with.
#pragma once

#include <vector>

#include "graph/job/cluster.h"
#include "graph/job/job.h"
#include "graph/job/training_style.h"

namespace prism::launch {

// Seconds of an iteration at an efficiency of one. Recomputed FLOPs are counted, work on frozen
// weights is not.
double IdealSeconds(const graph::JobSpec& job,
                    const graph::TrainingStyle& style,
                    const graph::ClusterSpec& cluster);

struct BaselinePoint {
  double ideal = 0;     // seconds
  double measured = 0;  // seconds
};

// The efficiency that makes the geometric mean of predicted over measured one; 0 without points.
double FitEfficiency(const std::vector<BaselinePoint>& points);

}  // namespace prism::launch
