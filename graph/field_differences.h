// The fields of two specifications whose values differ, as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "graph/diff.h"

namespace prism::graph {

// Adds to `out`, which must outlive it. `prefix` comes before each name: "job.".
class FieldDifferences {
 public:
  FieldDifferences(DifferenceKind kind, std::string_view prefix, std::vector<Difference>* out)
      : kind_(kind), prefix_(prefix), out_(*out) {}

  template <typename T>
  void operator()(std::string_view name, const T& left, const T& right) {
    if (!(left == right)) {
      out_.push_back({kind_, fmt::format("{}{}", prefix_, name), fmt::format("{}", left),
                      fmt::format("{}", right)});
    }
  }

 private:
  DifferenceKind kind_;
  std::string_view prefix_;
  std::vector<Difference>& out_;
};

}  // namespace prism::graph
