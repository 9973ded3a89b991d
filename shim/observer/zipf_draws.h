// Rows of choices drawn by Zipf's law without replacement: choice i has the weight 1/(i+1)^s, and
// the next draw of a row is among those that the row does not have yet. No random numbers: the n-th
// draws of the rows are multiples of an irrational number, which fill (0, 1) evenly, so that shares
// come near their expected values in few rows. Each n has a number of its own, since the second
// draw must not depend on the first beyond the replacement.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace prism::shim {

// Golden section, then roots of primes without 5, whose root is golden section's.
inline std::vector<double> EvenSteps(int64_t count) {
  std::vector<double> steps = {0.6180339887498949};
  std::vector<int64_t> primes;
  for (int64_t number = 2; static_cast<int64_t>(steps.size()) < count; ++number) {
    if (std::ranges::none_of(primes, [&](int64_t prime) { return number % prime == 0; })) {
      primes.push_back(number);
      if (number != 5) {
        steps.push_back(std::sqrt(static_cast<double>(number)));
      }
    }
  }
  return steps;
}

// The choice at `share` of what is left of the weights, whose weight it sets to 0.
inline size_t TakeChoice(double share, std::vector<double>* weights) {
  double sum = 0;
  for (const double weight : *weights) {
    sum += weight;
  }
  double left = share * sum;
  size_t chosen = 0;  // the last one with a weight, in case rounding passes them all
  for (size_t choice = 0; choice < weights->size() && left >= 0; ++choice) {
    chosen = (*weights)[choice] > 0 ? choice : chosen;
    left -= (*weights)[choice];
  }
  (*weights)[chosen] = 0;
  return chosen;
}

// `selected` indices of each row, row by row; at most `choices`.
inline std::vector<int64_t> DrawByZipf(double exponent,
                                       int64_t rows,
                                       int64_t choices,
                                       int64_t selected) {
  const std::vector<double> steps = EvenSteps(selected);
  std::vector<int64_t> indices;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<double> weights;
    for (int64_t choice = 0; choice < choices; ++choice) {
      weights.push_back(std::pow(static_cast<double>(choice + 1), -exponent));
    }
    for (int64_t draw = 0; draw < selected; ++draw) {
      const double turns = (static_cast<double>(row) + 0.5) * steps[static_cast<size_t>(draw)];
      indices.push_back(static_cast<int64_t>(TakeChoice(turns - std::floor(turns), &weights)));
    }
  }
  return indices;
}

}  // namespace prism::shim
