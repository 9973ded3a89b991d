// What was assumed when a published row or a plan was turned into a job: one line each, always in
// the same words, so that they can be counted.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace prism::launch {

class Assumptions {
 public:
  // `spread`: by what ratio the iteration time may be off because of it.
  void Add(std::string text, double spread = 0) {
    texts_.push_back(std::move(text));
    squares_ += spread * spread;
  }

  // The value that the row states, else `otherwise`, noted as an assumption about `what`.
  template <typename T>
  T Or(const std::optional<T>& stated, T otherwise, const std::string& what, double spread = 0) {
    if (stated.has_value()) {
      return *stated;
    }
    Add(what, spread);
    return otherwise;
  }

  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }

  // The spread of all together, as if they were independent.
  [[nodiscard]] double spread() const { return std::sqrt(squares_); }

 private:
  std::vector<std::string> texts_;
  double squares_ = 0;
};

}  // namespace prism::launch
