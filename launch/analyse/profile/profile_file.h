// Files that profilers write, by what they begin with.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/analyse/profile/rank_profile.h"

namespace prism::launch {

// Whether the file may be a profile: JSON, gzip or SQLite, which no graph is.
bool IsProfileFile(const std::string& file);

// One file of torch.profiler is of one rank, one of Nsight Systems of each process.
Result<std::vector<RankProfile>> ReadProfile(const std::string& file, const ProfileChoice& choice);

// kInvalidArgument where there are more.
Result<RankProfile> ReadOneProfile(const std::string& file, const ProfileChoice& choice);

}  // namespace prism::launch
