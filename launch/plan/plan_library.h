// launch/plan/prism_plan.h for C++: owned evaluators, spans of plans. Needs nothing but the
// library.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>

#include "launch/plan/prism_plan.h"

namespace prism {

class PlanLibrary {
 public:
  using Plan = prism_plan_choice;
  using Cost = prism_plan_result;

  // If an evaluator is not ok(), only error() may be called.
  explicit PlanLibrary(const prism_plan_problem& problem) {
    std::array<char, 1024> error = {};
    evaluator_.reset(prism_plan_create(&problem, error.data(), error.size()));
    error_ = error.data();
  }

  [[nodiscard]] bool ok() const { return evaluator_ != nullptr; }
  [[nodiscard]] const std::string& error() const { return error_; }

  // `costs` must be at least as long as `plans`. Returns how many plans fit.
  int64_t Evaluate(std::span<const Plan> plans, std::span<Cost> costs, int32_t threads = 1) const {
    return prism_plan_evaluate(evaluator_.get(), plans.data(), static_cast<int64_t>(plans.size()),
                               threads, costs.data());
  }

 private:
  struct Destroy {
    void operator()(prism_plan_evaluator* evaluator) const { prism_plan_destroy(evaluator); }
  };

  std::unique_ptr<prism_plan_evaluator, Destroy> evaluator_;
  std::string error_;
};

}  // namespace prism
