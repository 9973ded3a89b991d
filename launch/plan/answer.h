// The answer of a search while it grows: the best plans by the objective and the Pareto front of
// time and cost. Its contents do not depend on the order in which plans are added.
#pragma once

#include <cstddef>
#include <vector>

#include "launch/plan/search.h"

namespace prism::launch {

class SearchAnswer {
 public:
  // `top`: how many plans to keep by the objective.
  SearchAnswer(Objective objective, size_t top) : objective_(objective), top_(top) {}

  void Add(const EvaluatedPlan& plan);

  // Whether a plan whose run takes at least `floor` can no longer change the answer.
  [[nodiscard]] bool IsSettled(const RunCost& floor) const;

  [[nodiscard]] const std::vector<EvaluatedPlan>& best() const { return best_; }
  [[nodiscard]] const std::vector<EvaluatedPlan>& front() const { return front_; }

 private:
  [[nodiscard]] bool Before(const EvaluatedPlan& a, const EvaluatedPlan& b) const;
  void AddToFront(const EvaluatedPlan& plan);

  Objective objective_;
  size_t top_;
  std::vector<EvaluatedPlan> best_;   // by measure, then by plan
  std::vector<EvaluatedPlan> front_;  // by time
};

}  // namespace prism::launch
