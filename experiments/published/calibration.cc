#include "experiments/published/calibration.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace prism::launch {
namespace {

struct FactorKind {
  std::string_view name;
  std::string_view parameters;
  double Site::* value;
  double spread;  // standard deviation of the logarithm over sites
};

// Spreads of a run's logarithm of seconds around what a site of its own explains, and of sites,
// both with tails: chosen among some dozens by the errors of the other rows of 110 groups of one
// table, model and machine, of which two rows were drawn six times (seed 40), with seconds taken as
// linear in the factors: 5.95 % before, 5.11 after, and as much with each table left out of the
// choice. Normal runs with spreads of 0.05 and 0.1, 0.2, 0.5 gave 5.71, one factor for all 5.22,
// one fitted to all rows of a group 4.31. By whole replays, and two fixed rows of each group
// (`prism bench accuracy --calibrated 2`): 5.58 % before, 5.41 after.
constexpr double kRunSpread = 0.04;
constexpr double kFreedom = 3;  // of Student's t
constexpr std::array<FactorKind, kSiteFactors> kSiteFactorKinds = {{
    {"rate of the GPU", "gpu.sustained_clock, hbm_efficiency", &Site::compute, 0.04},
    {"share of the links", "net.*_efficiency, nccl.*_efficiency", &Site::network, 0.1},
    {"time of the host", "host.*_ns", &Site::host, 0.3},
}};

constexpr double kFurthest = 1.2;  // of a logarithm: a factor of 3.3

using Vector = std::array<double, kSiteFactors>;
using Matrix = std::array<Vector, kSiteFactors>;

Site SiteAt(const Vector& logarithms) {
  Site site;
  for (size_t i = 0; i < kSiteFactors; ++i) {
    site.*kSiteFactorKinds[i].value = std::exp(logarithms[i]);
  }
  return site;
}

// What a value that is this far off weighs, so that squares have the slope of the tails.
double Precision(double spread, double off) {
  return (kFreedom + 1) / (kFreedom * spread * spread + off * off);
}

double Improbability(double spread, double off) {
  return (kFreedom + 1) / 2 * std::log1p(off * off / (kFreedom * spread * spread));
}

// Of a positive definite matrix, by Gauss and Jordan.
Matrix Inverse(Matrix matrix) {
  Matrix inverse = {};
  for (size_t i = 0; i < kSiteFactors; ++i) {
    inverse[i][i] = 1;
  }
  for (size_t pivot = 0; pivot < kSiteFactors; ++pivot) {
    const double scale = matrix[pivot][pivot];
    for (size_t j = 0; j < kSiteFactors; ++j) {
      matrix[pivot][j] /= scale;
      inverse[pivot][j] /= scale;
    }
    for (size_t i = 0; i < kSiteFactors; ++i) {
      const double factor = i == pivot ? 0 : matrix[i][pivot];
      for (size_t j = 0; j < kSiteFactors; ++j) {
        matrix[i][j] -= factor * matrix[pivot][j];
        inverse[i][j] -= factor * inverse[pivot][j];
      }
    }
  }
  return inverse;
}

class Fit {
 public:
  Fit(const std::vector<double>& measured_s, const PredictRuns& predict)
      : measured_s_(measured_s), predict_(predict) {}

  // From the profile, and from where all runs are believed: the more probable end of both.
  Status Run() {
    PRISM_RETURN_IF_ERROR(Descend());
    PRISM_ASSIGN_OR_RETURN(const double improbability, Measure());
    const Vector at = at_;
    const Matrix covariance = covariance_;
    believes_ = true;
    PRISM_RETURN_IF_ERROR(Descend());
    believes_ = false;
    PRISM_RETURN_IF_ERROR(Descend());
    PRISM_ASSIGN_OR_RETURN(const double believed, Measure());
    if (improbability <= believed) {
      at_ = at;
      covariance_ = covariance;
    }
    return OkStatus();
  }

  [[nodiscard]] Site site() const { return SiteAt(at_); }
  [[nodiscard]] double SpreadOf(size_t factor) const {
    return std::sqrt(covariance_[factor][factor]);
  }

 private:
  Result<double> Measure() const {
    PRISM_ASSIGN_OR_RETURN(const std::vector<double> errors, Errors(at_));
    double sum = 0;
    for (const double error : errors) {
      sum += Improbability(kRunSpread, error);
    }
    for (size_t i = 0; i < kSiteFactors; ++i) {
      sum += Improbability(kSiteFactorKinds[i].spread, at_[i]);
    }
    return sum;
  }

  // Newton's method on squares that are weighed anew at each step, by differences.
  Status Descend() {
    constexpr int kMostSteps = 20;
    constexpr double kStill = 1e-3;
    for (int step = 0; step < kMostSteps; ++step) {
      Vector slope = {};
      Matrix curvature = {};
      PRISM_RETURN_IF_ERROR(Differentiate(&slope, &curvature));
      covariance_ = Inverse(curvature);
      double furthest = 0;
      for (size_t i = 0; i < kSiteFactors; ++i) {
        double move = 0;
        for (size_t j = 0; j < kSiteFactors; ++j) {
          move -= covariance_[i][j] * slope[j];
        }
        const double to = std::clamp(at_[i] + move, -kFurthest, kFurthest);
        furthest = std::max(furthest, std::abs(to - at_[i]));
        at_[i] = to;
      }
      if (furthest < kStill) {
        break;
      }
    }
    return OkStatus();
  }

  // Logarithms of predicted over measured seconds.
  Result<std::vector<double>> Errors(const Vector& at) const {
    PRISM_ASSIGN_OR_RETURN(std::vector<double> errors, predict_(SiteAt(at)));
    for (size_t run = 0; run < errors.size(); ++run) {
      errors[run] = std::log(errors[run] / measured_s_[run]);
    }
    return errors;
  }

  Status Differentiate(Vector* slope, Matrix* curvature) const {
    constexpr double kStep = 0.02;
    PRISM_ASSIGN_OR_RETURN(const std::vector<double> errors, Errors(at_));
    std::array<std::vector<double>, kSiteFactors> effects;
    for (size_t i = 0; i < kSiteFactors; ++i) {
      Vector beside = at_;
      beside[i] += kStep;
      PRISM_ASSIGN_OR_RETURN(effects[i], Errors(beside));
      for (size_t run = 0; run < errors.size(); ++run) {
        effects[i][run] = (effects[i][run] - errors[run]) / kStep;
      }
    }
    for (size_t i = 0; i < kSiteFactors; ++i) {
      const double precision = Precision(kSiteFactorKinds[i].spread, at_[i]);
      (*slope)[i] = at_[i] * precision;
      (*curvature)[i][i] = precision;
      for (size_t run = 0; run < errors.size(); ++run) {
        // A single run is believed: nothing says that it is the one that is off.
        const double tail = errors.size() > 1 && !believes_ ? errors[run] : 0;
        const double weighed = effects[i][run] * Precision(kRunSpread, tail);
        (*slope)[i] += weighed * errors[run];
        for (size_t j = 0; j < kSiteFactors; ++j) {
          (*curvature)[i][j] += weighed * effects[j][run];
        }
      }
    }
    return OkStatus();
  }

  const std::vector<double>& measured_s_;
  const PredictRuns& predict_;
  bool believes_ = false;  // that no run is off
  Vector at_ = {};
  Matrix covariance_ = {};
};

void Scale(double factor,
           std::string_view key,
           std::string_view source,
           graph::ParameterTable* table) {
  const graph::Parameter* const found = table->Find(key);
  if (found == nullptr || factor == 1) {
    return;
  }
  graph::Parameter parameter = *found;
  parameter.value *= factor;
  if (parameter.unit == "ratio" && key.ends_with("_efficiency")) {
    parameter.value = std::min(parameter.value, 1.0);
  }
  parameter.source = source;
  parameter.mark = graph::Mark::kFitted;
  table->Put({std::move(parameter)});
}

}  // namespace

void ApplySite(const Site& site, std::string_view source, graph::ClusterSpec* cluster) {
  graph::ParameterTable& table = cluster->parameters;
  Scale(site.compute, "gpu.sustained_clock", source, &table);
  Scale(site.compute, "gpu.hbm_efficiency", source, &table);
  const std::vector<graph::Parameter> all = table.all();
  for (const graph::Parameter& parameter : all) {
    if (!parameter.key.starts_with("gpu.") && parameter.key.ends_with("_efficiency")) {
      Scale(site.network, parameter.key, source, &table);
    }
    if (parameter.key.starts_with("host.") && parameter.unit == "ns") {
      Scale(site.host, parameter.key, source, &table);
    }
  }
}

Result<Calibration> Calibrate(const std::vector<double>& measured_s, const PredictRuns& predict) {
  constexpr double kDetermined = 0.5;
  constexpr double kUnlikely = 6;
  Calibration calibration;
  Fit fit(measured_s, predict);
  PRISM_RETURN_IF_ERROR(fit.Run());
  calibration.site = fit.site();
  for (size_t i = 0; i < kSiteFactors; ++i) {
    const auto& [name, parameters, value, spread] = kSiteFactorKinds[i];
    const double after = fit.SpreadOf(i);
    const double at = calibration.site.*value;
    calibration.factors[i] = {
        name,   parameters, at,
        spread, after,      after<kDetermined * spread, std::abs(std::log(at))> kUnlikely * spread};
  }
  PRISM_ASSIGN_OR_RETURN(calibration.before_s, predict(Site()));
  PRISM_ASSIGN_OR_RETURN(calibration.after_s, predict(calibration.site));
  return calibration;
}

}  // namespace prism::launch
