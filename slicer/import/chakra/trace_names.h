// The files of a set of Chakra traces: PREFIX.<rank>.et or, as JSON, .json, packed (.gz, .zst) or
// not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/status.h"

namespace prism::slicer {

// "trace.12.et", "trace.12.et.gz" → 12; null when the name has no rank.
std::optional<uint32_t> RankOfTrace(const std::string& path);

// All files of the set in its folder, sorted by name.
std::vector<std::string> TracesOf(const std::string& prefix);

// Sorts the files by rank. kInvalidArgument if one is missing, or listed twice.
Status SortByRank(std::vector<std::string>* files);

}  // namespace prism::slicer
