// Files that profilers write, by what they begin with.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/analyse/profile/rank_profile.h"

namespace prism::launch {

// Whether the file may be a profile: JSON, SQLite or nothing at all, which no graph is.
bool IsProfileFile(const std::string& file);

// One file of torch.profiler is of one rank, one of Nsight Systems of each process. Execution
// traces among them belong to the profiles in their order, and give these the shapes of their
// products.
Result<std::vector<RankProfile>> ReadProfiles(const std::vector<std::string>& files,
                                              const ProfileChoice& choice);

// Of a file of one rank; kInvalidArgument where there are more.
Result<RankProfile> ReadOneProfile(const std::string& file, const ProfileChoice& choice);

}  // namespace prism::launch
