// Which ranks a named process group of a Chakra trace holds: from ASTRA-sim's group file ({"1": [0,
// 1], ...}), from the node in which PyTorch's traces list their groups, or from the dimensions of
// an ASTRA-sim network.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"

namespace prism::slicer {

using ProcessGroups = std::map<std::string, std::vector<uint32_t>>;  // ranks ascending

// kBadFile: "<file>: ...".
Status ReadGroupFile(std::string_view text,
                     const std::string& file,
                     uint32_t ranks,
                     ProcessGroups* groups);

// The values of a node "## process_group:init ##": ['[{"pg_name": "0", "ranks": [0, 1], ...}]'].
// An empty list of ranks means all of "pg_size", else of the job.
Status ReadGroupNode(std::string_view values,
                     const std::string& file,
                     uint32_t ranks,
                     ProcessGroups* groups);

// The same without the quotes of Python.
Status ReadGroupList(std::string_view json,
                     const std::string& file,
                     uint32_t ranks,
                     ProcessGroups* groups);

// The ranks that differ from `rank` only along the involved dimensions; the first dimension is the
// fastest.
std::vector<uint32_t> GroupAlong(uint32_t rank,
                                 const std::vector<int64_t>& dims,
                                 const std::vector<bool>& involved);

// The lowest rank of that group, which identifies it.
uint32_t GroupLeader(uint32_t rank,
                     const std::vector<int64_t>& dims,
                     const std::vector<bool>& involved);

}  // namespace prism::slicer
