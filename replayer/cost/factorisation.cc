#include "replayer/cost/factorisation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace prism::replayer {
namespace {

struct Kind {
  std::string_view name;  // within that of the call
  double flops;           // over rows, columns and the smaller of both
  double column_s;
};

// Columns of Cholesky from 0.19, 0.95 and 2.4 ms for 512, 2,048 and 4,096 rows on an L40S (mlx pull
// request 4262), of QR from 0.19 ms for 128 x 32 on an H100 (pytorch pull request 173788); those of
// the others are of the right order at most.
constexpr auto kKinds = std::to_array<Kind>({
    {"potrf", 1.0 / 3, 0.35e-6},
    {"getrf", 2.0 / 3, 2.5e-6},
    {"geqrf", 4.0 / 3, 3.5e-6},
    {"gqr", 4.0 / 3, 1.5e-6},
    {"mqr", 2, 1.5e-6},
    {"syev", 9, 30e-6},
    {"heev", 9, 30e-6},
    {"gesvd", 20, 150e-6},
    {"geev", 25, 300e-6},
    {"trsm", 1, 0.2e-6},
});

}  // namespace

std::optional<Factorisation> FindFactorisation(const KernelView& view) {
  const auto& inputs = view.signature.inputs;
  if (!view.kernel.starts_with("cu") || inputs.empty() || inputs[0].dims.size() < 2) {
    return std::nullopt;
  }
  const auto* const kind = std::ranges::find_if(
      kKinds, [&](const Kind& each) { return Contains(view.kernel, each.name); });
  if (kind == kKinds.end()) {
    return std::nullopt;
  }
  const std::vector<int64_t>& dims = inputs[0].dims;
  const auto rows = static_cast<double>(dims[dims.size() - 2]);
  // A triangle is solved for the columns of the other input.
  const bool solves = kind->name == "trsm" && inputs.size() > 1 && !inputs[1].dims.empty();
  const auto columns = static_cast<double>(solves ? inputs[1].dims.back() : dims.back());
  const double steps = solves ? rows : std::min(rows, columns);
  double matrices = 1;
  for (size_t i = 0; Contains(view.kernel, "Batched") && i + 2 < dims.size(); ++i) {
    matrices *= static_cast<double>(dims[i]);
  }
  return Factorisation{matrices * kind->flops * rows * columns * steps, steps * kind->column_s,
                       inputs[0].dtype};
}

}  // namespace prism::replayer
