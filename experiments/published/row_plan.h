// A published row prepared for prediction: what it measured, and the job, style and machine that it
// is assumed to describe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/job/job.h"
#include "graph/job/training_style.h"

#include "experiments/published/published_row.h"
#include "experiments/published/row_cluster.h"

namespace prism::launch {

struct RowPlan {
  std::string id;
  std::string source;          // source_key
  std::string group;           // rows with the same group are plans of one model on one machine
  std::string cannot_predict;  // not empty: why the row describes no job; then all below is empty
  graph::JobSpec job;
  graph::TrainingStyle style;
  RowCluster cluster;
  std::vector<std::string> assumptions;
  std::vector<std::string> unknown_cells;        // "column: text", where no word says what it means
  std::vector<std::string> differs_from_search;  // search_difference.h
  double assumption_spread = 0;  // by how much, as a ratio, the time may be off because of them
  std::optional<double> measured_s;
  std::optional<double> measured_bytes;   // peak memory, of the row's counter and rank
  std::optional<double> predicted_bytes;  // the same, if it is measured and can be predicted
  std::string cannot_predict_bytes;       // why not, if it is measured
};

RowPlan PlanRow(const PublishedRow& stated);

// All rows of the tables of these paths, in order.
Result<std::vector<RowPlan>> PlanTables(const std::vector<std::string>& paths);

}  // namespace prism::launch
