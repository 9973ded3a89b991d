// Fits the few parameters of a cluster's network and of a GPU generation's links to measured
// collectives, for the leave-one-curve-out errors and for writing profiles. Rows without a size
// (vendors' peaks) are not used.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"

#include "experiments/published/collective_row.h"

namespace prism::launch {

// At most six per cluster; those of a generation count among the twelve of its GPU types.
struct CollectiveParameters {
  std::vector<std::string> network;  // keys in the network's profile
  std::vector<std::string> links;    // keys in links/, one profile per GPU generation
};
const CollectiveParameters& FittedCollectiveParameters();

// Values by profile and key that minimise the mean |log(predicted / measured)| of `rows`, found by
// a pattern search starting at the profiles' own values (deterministic). Keys without effect keep
// their value and are left out.
Result<ProfileOverrides> FitCollectives(const std::vector<const CollectiveRow*>& rows);

}  // namespace prism::launch
