#include "experiments/published/row_plan.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/job/stage_layers.h"
#include "launch/inputs/presets.h"
#include "launch/plan/assumptions.h"
#include "launch/plan/job_limits.h"
#include "launch/plan/peak_flops.h"

#include "experiments/published/row_arguments.h"
#include "experiments/published/row_job.h"
#include "experiments/published/row_memory.h"
#include "experiments/published/row_style.h"
#include "experiments/published/search_difference.h"

namespace prism::launch {
namespace {

// Checks that there are enough replicas for expert parallelism and that experts divide evenly among
// its ranks; if not, uses the largest divisor of its degree for which both hold.
void CheckExperts(const PublishedRow& row, graph::JobSpec* job) {
  graph::ParallelSizes& sizes = job->parallel;
  const int64_t ranks = int64_t{sizes.tp} * sizes.cp * sizes.dp;
  const int64_t experts = job->model.moe.experts;
  const int32_t stated = sizes.ep;
  if (ranks % sizes.etp != 0) {
    sizes.etp = 1;
  }
  while (sizes.ep > 1 && (experts == 0 || experts % sizes.ep != 0 || stated % sizes.ep != 0 ||
                          ranks % (int64_t{sizes.ep} * sizes.etp) != 0)) {
    --sizes.ep;
  }
  if (sizes.ep != stated) {
    row.Assume("expert parallel: cut to what fits experts and ranks");
  }
}

// Transformer Engine before 1.7 spends 2.1 ms of host time on both passes of an 8-bit layer, four
// times as much as in 16 bits (its issues 445 and 761): as long as the device takes for layers of
// which only adapters are trained.
bool IssuesSlowly(const PublishedRow& row, const RowPlan& plan) {
  return FrameworkOfRow(row) == kMegatronCore &&
         plan.style.precision == graph::Precision::kFloat8 &&
         plan.style.host_cost == graph::HostCost::kEager && BuiltBefore(row, 24, 6);
}

// What widens an interval beyond parameters and repetitions. The sizes were chosen on held-out
// models: they miss the fewest rows at the least width. experiments/fit/intervals.py finds one
// factor for all of them.
void NoteUncertain(const PublishedRow& row, const RowPlan& plan) {
  constexpr double kSecondHand = 0.2;
  constexpr double kOtherFramework = 0.25;
  constexpr double kExperts = 0.03;
  constexpr double kPacked = 0.08;
  constexpr double kAdapters = 0.04;
  constexpr double kEager = 0.15;
  constexpr double kPlainProducts = 0.06;
  if (KnownFramework(row) == nullptr) {
    const bool container = row.Is("mlperf");
    row.Assume(container ? "framework: a container is named, taken for Megatron-Core"
                         : "framework: not known, taken for Megatron-Core",
               container ? 0 : kOtherFramework);
  }
  if (row.Text("verified") == "no") {
    row.Assume("row: second hand, or its configuration uncertain", kSecondHand);
  }
  if (plan.job.model.moe.experts > 0) {
    row.Assume("experts: kernels and host time as of releases of early 2026", kExperts);
  }
  if (plan.style.packed_length > 0) {
    row.Assume("fine-tuning: lengths of the sequences", kPacked);
  } else if (plan.style.frozen_weights) {
    row.Assume(plan.style.adapters_of_all ? "adapters: kernels of their own"
                                          : "adapters: of the attention's products",
               kAdapters);
  }
  if (plan.style.frozen_weights && IssuesSlowly(row, plan)) {
    row.Assume("8-bit layers: host time of releases before mid-2024 not counted", kEager);
  }
  if (plan.style.precision == graph::Precision::kFloat32) {
    row.Assume("fp32: efficiency of the GPU's generation, not fitted", kPlainProducts);
  }
}

// Notes a format that the GPU lacks, and what is used instead.
void NoteLackingFormat(const PublishedRow& row, const RowPlan& plan) {
  constexpr double kSpread = 0.1;
  const graph::Precision precision = plan.style.precision;
  const bool is_wide = precision == graph::Precision::kBfloat16 ||
                       precision == graph::Precision::kFloat16 ||
                       precision == graph::Precision::kFloat32;
  const Result<graph::ClusterSpec> cluster =
      is_wide ? InvalidArgument("every GPU has it") : ComposeCluster(plan.cluster.profiles, {});
  if (!cluster.ok()) {
    return;
  }
  const std::string lacking = LackingFormat(*cluster, precision);
  if (!lacking.empty()) {
    row.Assume(lacking, kSpread);
  }
}

// Cells that are not understood, as "column: text".
std::vector<std::string> UnknownCells(const PublishedRow& row) {
  std::vector<std::string> cells;
  for (const std::string& column : row.UnknownColumns()) {
    const bool known = (column == "precision" && PrecisionNamed(row.Text(column)).has_value()) ||
                       (column == "zero_stage" && StatedZeroStage(row).has_value());
    if (!known) {
      cells.push_back(fmt::format("{}: {}", column, row.Text(column)));
    }
  }
  // Megatron-LM's arguments have a list of their own: what is not modelled is assumed.
  const std::vector<std::string> entries =
      StatesArguments(row) ? std::vector<std::string>() : row.UnknownEntries();
  for (const std::string& entry : entries) {
    cells.push_back(fmt::format("extra: {}", entry));
  }
  return cells;
}

Result<double> BytesOfPlan(const PublishedRow& row, const RowPlan& plan) {
  PRISM_ASSIGN_OR_RETURN(const graph::ClusterSpec cluster,
                         ComposeCluster(plan.cluster.profiles, {}));
  return PredictedBytes(row, plan.job, plan.style, cluster);
}

}  // namespace

RowPlan PlanRow(const PublishedRow& stated) {
  Assumptions assumptions;
  const PublishedRow row = stated.With(&assumptions);
  RowPlan plan;
  plan.id = row.Text("id");
  plan.source = row.Source();
  plan.group = fmt::format("{}|{}|{}|{}|{}|{}|{}", plan.source, row.Text("model"), row.Text("gpu"),
                           row.Text("num_gpus"), row.Text("global_batch"), row.Text("seq_len"),
                           row.Text("precision"));
  plan.cannot_predict = row.Fault();
  if (!plan.cannot_predict.empty()) {
    return plan;
  }
  plan.unknown_cells = UnknownCells(row);
  if (!row.Is("not measured")) {
    plan.measured_s = row.MeasuredSeconds();
    plan.measured_bytes = row.PeakMemoryBytes();
  }
  Result<graph::JobSpec> job = JobOfRow(row);
  const Status usable = job.ok() ? CheckLimits(*job) : job.status();
  if (!usable.ok()) {
    plan.cannot_predict = usable.message();
    return plan;
  }
  plan.job = *std::move(job);
  CheckExperts(row, &plan.job);
  plan.style = StyleOfRow(row, plan.job);
  if (plan.style.first_stage_layers + plan.style.last_stage_layers > 0 &&
      !graph::HasUnevenEnds(plan.job, plan.style)) {
    constexpr double kSpread = 0.1;
    row.Assume("stages: layers of the first or last one do not fit, dealt out evenly", kSpread);
  }
  plan.job.compute_dtype = graph::ActivationType(plan.style.precision);
  plan.cluster = ClusterOfRow(row, plan.job.parallel.world_size());
  plan.style.moe_node_ranks = NodeRanksOfExperts(plan.job.parallel, plan.cluster.gpus_per_node);
  if (plan.measured_bytes.has_value()) {
    const Result<double> bytes = BytesOfPlan(row, plan);
    if (bytes.ok()) {
      plan.predicted_bytes = *bytes;
    } else {
      plan.cannot_predict_bytes = bytes.status().message();
    }
  }
  NoteLackingFormat(row, plan);
  NoteUncertain(row, plan);
  plan.differs_from_search = DifferencesFromSearch(FrameworkOfRow(row), plan);
  plan.assumptions = assumptions.texts();
  plan.assumption_spread = assumptions.spread();
  return plan;
}

Result<std::vector<RowPlan>> PlanTables(const std::vector<std::string>& paths) {
  std::vector<RowPlan> plans;
  for (const std::string& path : paths) {
    PRISM_ASSIGN_OR_RETURN(const PublishedTable table, ReadPublishedTable(path));
    for (const PublishedRow& row : table.Rows()) {
      plans.push_back(PlanRow(row));
      if (!table.absent_columns.empty()) {
        plans.back().assumptions.push_back(
            fmt::format("columns that the table lacks, taken as empty: {}",
                        fmt::join(table.absent_columns, ", ")));
      }
    }
  }
  return plans;
}

}  // namespace prism::launch
