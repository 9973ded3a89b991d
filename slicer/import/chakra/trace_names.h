// The files of a set of Chakra traces: PREFIX.<rank>.et, packed ones PREFIX.<rank>.et.gz.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/status.h"

namespace prism::slicer {

// "trace.12.et", "trace.12.et.gz" → 12; nothing when the name says no rank.
std::optional<uint32_t> RankOfTrace(const std::string& path);

// All files of the set in its folder, by name.
std::vector<std::string> TracesOf(const std::string& prefix);

// The files in the order of their ranks. kInvalidArgument where one is missing, or named twice.
Status SortByRank(std::vector<std::string>* files);

}  // namespace prism::slicer
