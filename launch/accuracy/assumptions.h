// What was taken for granted while a row became a job: one line each, the same words in every row,
// so that they can be counted.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace prism::launch {

class Assumptions {
 public:
  void Add(std::string text) { texts_.push_back(std::move(text)); }

  // The value that the row states, else `otherwise`, noted as an assumption about `what`.
  template <typename T>
  T Or(const std::optional<T>& stated, T otherwise, const std::string& what) {
    if (stated.has_value()) {
      return *stated;
    }
    Add(what);
    return otherwise;
  }

  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
};

}  // namespace prism::launch
