// A plan is on the front unless another one covers it: is as fast and as cheap, and on ties comes
// first in the order of plans. Covering is transitive, so what a dropped plan covered is covered by
// the one that dropped it, and the order in which plans are added has no effect. For the same
// reason a bound settles a plan only if it is strictly worse: a tie may still be won by that order.
#include "launch/plan/answer.h"

#include <algorithm>

namespace prism::launch {
namespace {

double Price(const RunCost& cost) {
  return MeasureOf(Objective::kCost, cost);
}

// Whether `a` is at least as good as `b` in time and price; on ties, the first plan in order.
bool Covers(const EvaluatedPlan& a, const EvaluatedPlan& b) {
  const bool equal = a.cost.days == b.cost.days && Price(a.cost) == Price(b.cost);
  if (equal) {
    return a.plan < b.plan;
  }
  return a.cost.days <= b.cost.days && Price(a.cost) <= Price(b.cost);
}

}  // namespace

double MeasureOf(Objective objective, const RunCost& cost) {
  switch (objective) {
    case Objective::kTime:
      return cost.days;
    case Objective::kCost:
      return cost.price_usd.value_or(cost.gpu_hours);
    case Objective::kEnergy:
      return cost.energy_kwh.value_or(cost.gpu_hours);
  }
  PRISM_CHECK(false);
}

bool SearchAnswer::Before(const EvaluatedPlan& a, const EvaluatedPlan& b) const {
  const double of_a = MeasureOf(objective_, a.cost);
  const double of_b = MeasureOf(objective_, b.cost);
  return of_a != of_b ? of_a < of_b : a.plan < b.plan;
}

void SearchAnswer::Add(const EvaluatedPlan& plan) {
  const auto place = std::ranges::upper_bound(
      best_, plan, [this](const EvaluatedPlan& a, const EvaluatedPlan& b) { return Before(a, b); });
  best_.insert(place, plan);
  if (best_.size() > top_) {
    best_.pop_back();
  }
  AddToFront(plan);
}

void SearchAnswer::AddToFront(const EvaluatedPlan& plan) {
  if (std::ranges::any_of(front_, [&](const EvaluatedPlan& held) { return Covers(held, plan); })) {
    return;
  }
  std::erase_if(front_, [&](const EvaluatedPlan& held) { return Covers(plan, held); });
  const auto place = std::ranges::upper_bound(
      front_, plan,
      [](const EvaluatedPlan& a, const EvaluatedPlan& b) { return a.cost.days < b.cost.days; });
  front_.insert(place, plan);
}

bool SearchAnswer::IsSettled(const RunCost& floor) const {
  const bool among_best = best_.size() < top_ ||
                          MeasureOf(objective_, floor) <= MeasureOf(objective_, best_.back().cost);
  return !among_best && std::ranges::any_of(front_, [&](const EvaluatedPlan& held) {
    return held.cost.days < floor.days && Price(held.cost) < Price(floor);
  });
}

}  // namespace prism::launch
