// Runs that a user measured, each with its prediction at a site: rows of a table in the columns of
// columns.csv, logs of frameworks (run_log.h), and runs of Prism with what they took on the
// cluster.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "graph/validate/valid_graph.h"

#include "experiments/published/calibration.h"
#include "experiments/published/row_plan.h"

namespace prism::launch {

class MeasuredRuns {
 public:
  // `stated`: columns for logs that do not state them. kBadFile for a file that cannot
  // be read, kInvalidArgument for a run that describes no job, has no measured time, or ran on
  // another kind of GPU or network than the first.
  static Result<MeasuredRuns> Read(const std::vector<std::string>& inputs,
                                   const std::map<std::string, std::string>& stated);

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const std::vector<double>& measured_s() const { return measured_s_; }
  [[nodiscard]] const std::vector<RowPlan>& rows() const { return rows_; }
  // Where the first one ran, as its profiles or its graph say.
  [[nodiscard]] const graph::ClusterSpec& cluster() const { return cluster_; }

  [[nodiscard]] Result<std::vector<double>> SecondsAt(const Site& site) const;

 private:
  Status AddTable(const std::string& path, std::string_view text);
  Status AddLog(const std::string& path,
                std::string_view text,
                const std::map<std::string, std::string>& stated);
  Status AddRow(const PublishedRow& row);
  Status AddGraph(const std::string& path, double seconds);
  Status CheckCluster(const std::string& name, const graph::ClusterSpec& cluster);

  std::vector<std::string> names_;  // first rows, then graphs
  std::vector<double> measured_s_;
  std::vector<RowPlan> rows_;
  std::vector<graph::LoadedGraph> graphs_;
  graph::ClusterSpec cluster_;
};

}  // namespace prism::launch
