// What launchers take and what they set, as tables (launcher_line.h says how options are written).
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "launch/inputs/launcher_line.h"

namespace prism::launch {

extern const LauncherOptions kTorchrun;
extern const LauncherOptions kTorchLaunch;
extern const LauncherOptions kAccelerate;
extern const LauncherOptions kDeepSpeed;
extern const LauncherOptions kSrun;
extern const LauncherOptions kMpirun;

// Name and value; values are formats of a LaunchPlace (launchers.h), in which {node}, {nodes},
// {gpus} (0,1,2), {tasks} (8(x16)) and {hosts} (node[0-15]) follow from its numbers.
using LaunchVariables = std::vector<std::pair<std::string, std::string>>;

extern const LaunchVariables kTorchVariables;
extern const LaunchVariables kDeepSpeedVariables;
extern const LaunchVariables kSlurmVariables;
extern const LaunchVariables kOpenMpiVariables;

// Those of kSlurmVariables that a program without a launcher gets as well.
inline constexpr size_t kSlurmOfAll = 5;

}  // namespace prism::launch
