// Why an iteration is as long as it is: what `prism replay` and `prism report` print in addition to
// the summary, on request.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "launch/inputs/options.h"
#include "replayer/blame/blame.h"
#include "replayer/blame/straggler.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/cost/measured_kernels.h"
#include "replayer/report/summary.h"
#include "replayer/what_matters.h"

namespace prism::replayer {
struct ReplayOptions;
}  // namespace prism::replayer

namespace prism::launch {

struct ExplanationChoice {
  bool costs = false;          // what determined the times of kernels
  bool critical_path = false;  // the longest path through all ranks, by kind of time
  bool straggler = false;      // the slow rank by its symptoms
  bool what_matters = false;   // the iteration with one thing faster
  bool links = false;          // the loads of a flow network's links
};

struct Explanation {
  std::optional<replayer::CostReport> costs;
  std::vector<replayer::HostCostRow> host;  // with `costs`, if it was measured beside a GPU
  std::optional<replayer::Blame> blame;
  std::optional<replayer::Symptoms> symptoms;
  std::optional<replayer::WhatMatters> matters;
  std::optional<replayer::LinkLoads> links;

  [[nodiscard]] bool empty() const { return !costs && !blame && !symptoms && !matters && !links; }
};

Result<Explanation> Explain(const ExplanationChoice& choice,
                            const graph::Graph& graph,
                            const replayer::ReplayOptions& options);

// A replay's summary and explanations. As JSON, the summary without any is summary.json; otherwise
// it is under one of the keys summary, costs, host, critical_path, straggler, what_matters and
// links.
std::string SummaryAndExplanation(const graph::Graph& graph,
                                  const replayer::Summary& summary,
                                  const Explanation& explanation,
                                  OutputFormat format);

}  // namespace prism::launch
