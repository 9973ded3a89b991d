// A published row on its way to a prediction: what it measured, and the job, style and machine that
// it is taken to describe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/job.h"
#include "graph/training_style.h"
#include "launch/accuracy/published_row.h"
#include "launch/accuracy/row_cluster.h"

namespace prism::launch {

struct RowPlan {
  std::string id;
  std::string source;          // source_key
  std::string group;           // rows with the same group are plans of one model on one machine
  std::string cannot_predict;  // not empty: why the row describes no job; all below is empty then
  graph::JobSpec job;
  graph::TrainingStyle style;
  RowCluster cluster;
  std::vector<std::string> assumptions;
  double assumption_spread = 0;  // by how much, as a ratio, the time may be off for them
  std::optional<double> measured_s;
  std::optional<double> measured_bytes;  // peak memory, of whichever counter and rank the row names
  std::optional<double> predicted_bytes;  // the same, where it is measured and can be accounted for
  std::string cannot_predict_bytes;       // why not, where it is measured
};

RowPlan PlanRow(const PublishedRow& row);

// All rows of the tables of these paths, in order.
Result<std::vector<RowPlan>> PlanTables(const std::vector<std::string>& paths);

}  // namespace prism::launch
