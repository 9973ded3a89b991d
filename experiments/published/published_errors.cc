#include "experiments/published/published_errors.h"

#include <array>

namespace prism::launch {
namespace {

// simulator_accuracy.csv: vTrain (arXiv 2312.12391), NeuSight (its repository), Calculon (its own
// validation command).
constexpr auto kErrors = std::to_array<PublishedError>({
    {"korthikanti_table5", "Calculon", "average", 3.65, "8 runs of the table"},
    {"korthikanti_table5", "Calculon", "max", 8.87, "8 runs of the table"},
    {"neusight_distributed", "NeuSight", "average", 7.71, "11 runs of the table"},
    {"vtrain_multi", "vTrain", "MAPE", 14.73, "116 runs, nearly those of the table"},
    {"vtrain_single", "vTrain", "MAPE", 8.37, "1440 runs of the table"},
});

}  // namespace

std::span<const PublishedError> PublishedErrors() {
  return kErrors;
}

}  // namespace prism::launch
