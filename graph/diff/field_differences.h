// The fields of two specifications whose values differ, as text.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "graph/base/enum_names.h"
#include "graph/diff/diff.h"

namespace prism::graph {

// Appends to `out`, which must outlive this object. `prefix` comes before each name: "job.".
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

  // Enumerators are shown by their names in the table.
  template <typename Enum, size_t N>
  void Named(std::string_view name,
             const std::array<EnumName<Enum>, N>& names,
             Enum left,
             Enum right) {
    (*this)(name, std::string_view(NameOf(names, left)), std::string_view(NameOf(names, right)));
  }

 private:
  DifferenceKind kind_;
  std::string_view prefix_;
  std::vector<Difference>& out_;
};

}  // namespace prism::graph
