// `prism bench collectives`: measured collectives, predicted by the profiles of their clusters, by
// those profiles fitted to all other curves, and by latency and bandwidth fitted to the curve
// itself.

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "graph/base/csv_field.h"
#include "graph/base/divide.h"
#include "graph/base/file.h"

#include "experiments/published/benches.h"
#include "experiments/published/collective_fit.h"
#include "experiments/published/collective_row.h"
#include "experiments/published/error_statistics.h"

namespace prism::launch {
namespace {

constexpr int64_t kElement = 4;  // bytes of a float, nccl-tests' default type

struct Curve {
  std::vector<size_t> rows;
  std::vector<PredictedPoint> model;
  std::vector<PredictedPoint> left_out;  // predicted from the other curves
  std::vector<PredictedPoint> baseline;  // latency and bandwidth fitted to this curve itself
};

// latency + bytes / bandwidth, the two by least squares of the relative error over the curve's own
// rows: the best that a tool without a model of NCCL could reach.
std::vector<PredictedPoint> AlphaBeta(const std::vector<CollectiveRow>& rows,
                                      const std::vector<size_t>& members) {
  double w = 0;
  double wx = 0;
  double wxx = 0;
  double wy = 0;
  double wxy = 0;
  for (size_t member : members) {
    const auto x = static_cast<double>(rows[member].shape.bytes);
    const double y = rows[member].measured_s;
    const double weight = 1 / (y * y);
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wy += weight * y;
    wxy += weight * x * y;
  }
  const double determinant = w * wxx - wx * wx;
  double slope = wxy / wxx;
  double latency = 0;
  if (members.size() > 1 && determinant > 1e-12 * w * wxx) {
    slope = (w * wxy - wx * wy) / determinant;
    latency = (wy - slope * wx) / w;
  }
  std::vector<PredictedPoint> points;
  for (size_t member : members) {
    PredictedPoint point;
    point.predicted = latency + slope * static_cast<double>(rows[member].shape.bytes);
    point.measured = rows[member].measured_s;
    points.push_back(point);
  }
  return points;
}

class CollectiveBench {
 public:
  explicit CollectiveBench(std::vector<CollectiveRow> rows) : rows_(std::move(rows)) {
    for (size_t row = 0; row < rows_.size(); ++row) {
      if (rows_[row].reason_skipped.empty()) {
        curves_[rows_[row].curve].rows.push_back(row);
      }
    }
  }

  Status Fit() {
    PRISM_ASSIGN_OR_RETURN(fitted_, FitCollectives(AllBut("")));
    return OkStatus();
  }

  Status Predict() {
    predictions_.resize(rows_.size());
    for (size_t row = 0; row < rows_.size(); ++row) {
      if (rows_[row].reason_skipped.empty()) {
        PRISM_ASSIGN_OR_RETURN(const replayer::CollectiveCost* cost,
                               CostOf(rows_[row].platform, fitted_, &costs_));
        predictions_[row] = launch::Predict(rows_[row], *cost);
      }
    }
    for (auto& [name, curve] : curves_) {
      curve.baseline = AlphaBeta(rows_, curve.rows);
      for (size_t row : curve.rows) {
        curve.model.push_back(PointOf(row, predictions_[row].seconds));
      }
    }
    return OkStatus();
  }

  // Each curve from a fit to the others that share its network or its GPU type.
  Status LeaveOut() {
    for (auto& [name, curve] : curves_) {
      PRISM_ASSIGN_OR_RETURN(const ProfileOverrides values, FitCollectives(Near(name)));
      std::map<CollectivePlatform, replayer::CollectiveCost> costs;
      for (size_t row : curve.rows) {
        PRISM_ASSIGN_OR_RETURN(const replayer::CollectiveCost* cost,
                               CostOf(rows_[row].platform, values, &costs));
        curve.left_out.push_back(PointOf(row, launch::Predict(rows_[row], *cost).seconds));
      }
    }
    return OkStatus();
  }

  [[nodiscard]] std::string RowsCsv() const;
  [[nodiscard]] PublishedOutput Summary() const;

 private:
  [[nodiscard]] PredictedPoint PointOf(size_t row, double seconds) const {
    PredictedPoint point;
    point.predicted = seconds;
    point.measured = rows_[row].measured_s;
    return point;
  }

  static Result<const replayer::CollectiveCost*> CostOf(
      const CollectivePlatform& platform,
      const ProfileOverrides& values,
      std::map<CollectivePlatform, replayer::CollectiveCost>* costs) {
    auto found = costs->find(platform);
    if (found == costs->end()) {
      PRISM_ASSIGN_OR_RETURN(const graph::ClusterSpec cluster, ClusterOf(platform, values));
      found = costs->emplace(platform, replayer::CollectiveCost(cluster)).first;
    }
    return &found->second;
  }

  [[nodiscard]] std::vector<const CollectiveRow*> AllBut(const std::string& curve) const {
    std::vector<const CollectiveRow*> rows;
    for (const CollectiveRow& row : rows_) {
      if (row.curve != curve && row.reason_skipped.empty()) {
        rows.push_back(&row);
      }
    }
    return rows;
  }

  [[nodiscard]] std::vector<const CollectiveRow*> Near(const std::string& curve) const {
    const CollectivePlatform& its = rows_[curves_.at(curve).rows.front()].platform;
    std::vector<const CollectiveRow*> rows;
    for (const CollectiveRow* row : AllBut(curve)) {
      if (row->platform.network == its.network || row->platform.gpu == its.gpu) {
        rows.push_back(row);
      }
    }
    return rows;
  }

  std::vector<CollectiveRow> rows_;
  std::map<std::string, Curve> curves_;
  std::vector<CollectivePrediction> predictions_;
  std::map<CollectivePlatform, replayer::CollectiveCost> costs_;
  ProfileOverrides fitted_;
};

// The columns of nccl-tests, whose words these are.
const char* ReductionOf(const std::string& collective) {
  return collective == "all_reduce" || collective.starts_with("reduce") ? "sum" : "none";
}

int RootOf(const std::string& collective) {
  return collective == "broadcast" || collective == "reduce" ? 0 : -1;
}

constexpr const char* kWrong = "N/A";  // no data is moved, so nothing can be checked

// And two more.
std::string_view AlgorithmOf(const CollectivePrediction& prediction) {
  return prediction.choice ? replayer::NcclAlgorithmName(prediction.choice->algorithm) : "P2P";
}

std::string_view ProtocolOf(const CollectivePrediction& prediction) {
  return prediction.choice ? replayer::NcclProtocolName(prediction.choice->protocol) : "Simple";
}

std::string CollectiveBench::RowsCsv() const {
  std::string text =
      "id,size,count,type,redop,root,time_us,algbw_gb_s,busbw_gb_s,wrong,algo,proto,measured_us,"
      "measured_busbw_gb_s,error_pct,measured_inplace_us,error_inplace_pct,reason_skipped\n";
  for (size_t i = 0; i < rows_.size(); ++i) {
    const CollectiveRow& row = rows_[i];
    if (!row.reason_skipped.empty()) {
      text += fmt::format("{},,,,,,,,,,,,,,,,,{}\n", row.id, CsvField(row.reason_skipped));
      continue;
    }
    const CollectivePrediction& prediction = predictions_[i];
    const auto bytes = static_cast<double>(row.shape.bytes);
    const double factor = BusFactor(row.collective, row.topology.size);
    const double rate = bytes / prediction.seconds * 1e-9;
    const auto error = [&](double measured) {
      return measured > 0 ? fmt::format("{:.2f}", 100 * (prediction.seconds / measured - 1)) : "";
    };
    const bool in_place = row.measured_in_place_s > 0;
    text += fmt::format(
        "{},{},{},float,{},{},{:.2f},{:.2f},{:.2f},{},{},{},{:.2f},{:.2f},{},{},{},\n", row.id,
        row.shape.bytes, row.shape.bytes / kElement, ReductionOf(row.collective),
        RootOf(row.collective), prediction.seconds * 1e6, rate, rate * factor, kWrong,
        AlgorithmOf(prediction), ProtocolOf(prediction), row.measured_s * 1e6,
        bytes / row.measured_s * factor * 1e-9, error(row.measured_s),
        in_place ? fmt::format("{:.2f}", row.measured_in_place_s * 1e6) : "",
        error(row.measured_in_place_s));
  }
  return text;
}

BenchCase CaseOf(const std::string& name, const Curve& curve) {
  const ErrorStatistics model = SummariseErrors(curve.model);
  const ErrorStatistics left_out = SummariseErrors(curve.left_out);
  const ErrorStatistics baseline = SummariseErrors(curve.baseline);
  BenchCase result = {"collectives", name, {}};
  result.metrics = {{"rows", static_cast<double>(model.points), "1"},
                    {"mape", model.mape_pct, "%"},
                    {"median", model.median_pct, "%"},
                    {"p90", model.p90_pct, "%"},
                    {"worst", model.worst_pct, "%"},
                    {"bias", model.bias_pct, "%"},
                    {"alpha_beta_mape", baseline.mape_pct, "%"},
                    {"alpha_beta_median", baseline.median_pct, "%"}};
  if (left_out.points > 0) {
    result.metrics.push_back({"left_out_mape", left_out.mape_pct, "%"});
    result.metrics.push_back({"left_out_median", left_out.median_pct, "%"});
  }
  return result;
}

std::string LineOf(const BenchCase& line) {
  std::string text = fmt::format("{:<92}{:>5}", line.name.substr(0, 91), line.metrics[0].value);
  for (size_t i = 1; i < line.metrics.size(); ++i) {
    text += fmt::format("{:>8.1f}", line.metrics[i].value);
  }
  return text + "\n";
}

PublishedOutput CollectiveBench::Summary() const {
  PublishedOutput output;
  Curve all;
  const auto append = [](const std::vector<PredictedPoint>& from, std::vector<PredictedPoint>* to) {
    to->insert(to->end(), from.begin(), from.end());
  };
  for (const auto& [name, curve] : curves_) {
    append(curve.model, &all.model);
    append(curve.left_out, &all.left_out);
    append(curve.baseline, &all.baseline);
    output.cases.push_back(CaseOf(name, curve));
  }
  output.cases.push_back(CaseOf("all", all));
  output.text = fmt::format("{:<92}{:>5}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}\n",
                            "error of time in %", "rows", "mape", "median", "p90", "worst", "bias",
                            "a-b", "a-b med", "out", "out med");
  for (const BenchCase& line : output.cases) {
    output.text += LineOf(line);
  }
  output.text += fmt::format(
      "a-b: latency and bandwidth fitted to the curve itself. out: the curve left out of the fit.\n"
      "Fitted: {} numbers a network, {} a GPU generation; {} of {} rows skipped.\n",
      FittedCollectiveParameters().network.size(), FittedCollectiveParameters().links.size(),
      rows_.size() - all.model.size(), rows_.size());
  for (const auto& [profile, values] : fitted_) {
    for (const auto& [key, value] : values) {
      output.text += fmt::format("fitted {} {} = {:.4g}\n", profile, key, value);
    }
  }
  output.rows = RowsCsv();
  return output;
}

}  // namespace

Result<PublishedOutput> BenchCollectives(const BenchCollectivesOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.table));
  PRISM_ASSIGN_OR_RETURN(const CsvTable table, CsvTable::Parse(text, options.table));
  PRISM_ASSIGN_OR_RETURN(std::vector<CollectiveRow> rows, ReadCollectiveRows(table));
  CollectiveBench bench(std::move(rows));
  if (options.fit) {
    PRISM_RETURN_IF_ERROR(bench.Fit());
  }
  PRISM_RETURN_IF_ERROR(bench.Predict());
  if (options.leave_out) {
    PRISM_RETURN_IF_ERROR(bench.LeaveOut());
  }
  return bench.Summary();
}

Result<PublishedOutput> SweepCollective(const CollectiveSweepOptions& options) {
  constexpr int64_t kLargest = int64_t{8} << 30;
  PRISM_ASSIGN_OR_RETURN(const graph::ClusterSpec cluster, LoadCluster(options.cluster));
  const replayer::CollectiveCost cost(cluster);
  CollectiveRow row;
  row.collective = options.collective;
  row.topology.size = options.ranks;
  row.topology.nodes = DivideUp(options.ranks, cluster.gpus_per_node);
  row.topology.ranks_per_node = std::min(options.ranks, cluster.gpus_per_node);
  PRISM_RETURN_IF_ERROR(SetCollective(options.collective, &row));
  PublishedOutput sweep;
  sweep.text = fmt::format(
      "# {} on {} ranks of {}\n"
      "#{:>14}{:>14}{:>8}{:>8}{:>7}{:>12}{:>9}{:>9}{:>8}{:>8}{:>9}\n"
      "#{:>14}{:>14}{:>35}{:>9}{:>9}\n",
      options.collective, options.ranks, options.cluster, "size", "count", "type", "redop", "root",
      "time", "algbw", "busbw", "#wrong", "algo", "proto", "(B)", "(elements)", "(us)", "(GB/s)",
      "(GB/s)");
  for (row.shape.bytes = 8; row.shape.bytes <= kLargest; row.shape.bytes *= 2) {
    const CollectivePrediction prediction = Predict(row, cost);
    const double rate = static_cast<double>(row.shape.bytes) / prediction.seconds * 1e-9;
    const double bus = rate * BusFactor(options.collective, options.ranks);
    sweep.cases.push_back({"collectives",
                           fmt::format("{} of {} B on {} ranks of {}", options.collective,
                                       row.shape.bytes, options.ranks, options.cluster),
                           {{"time", prediction.seconds * 1e6, "us"},
                            {"algbw", rate, "GB/s"},
                            {"busbw", bus, "GB/s"}}});
    sweep.text += fmt::format(
        " {:>14}{:>14}{:>8}{:>8}{:>7}{:>12.2f}{:>9.2f}{:>9.2f}{:>8}{:>8}{:>9}\n", row.shape.bytes,
        row.shape.bytes / kElement, "float", ReductionOf(options.collective),
        RootOf(options.collective), prediction.seconds * 1e6, rate, bus, kWrong,
        AlgorithmOf(prediction), ProtocolOf(prediction));
  }
  return sweep;
}

}  // namespace prism::launch
