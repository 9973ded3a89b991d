// What one recorded rank does, in a form that can be compared with other ranks.
#pragma once

#include <cstdint>
#include <string>

#include "graph/base/status.h"
#include "graph/fragment.h"
#include "graph/job/rank_grid.h"
#include "slicer/stitch/rank_tables.h"

namespace prism::slicer {

struct RecordedRole {
  std::string name;
  int32_t stage = 0;
  const graph::Fragment* fragment = nullptr;
  SlotPatterns patterns;
  uint64_t structural_hash = 0;     // of everything
  uint64_t communication_hash = 0;  // of collectives, sends and receives only
};

enum class Likeness : uint8_t {
  kDifferent,
  kSameCommunication,  // differs in kernels or memory: e.g. a sharded optimizer, whose shards cut
                       // parameters differently on each rank
  kSame,               // one role
};

// `fragment` must outlive the result.
Result<RecordedRole> DescribeRecorded(const graph::RankGrid& grid, const graph::Fragment& fragment);

Likeness Compare(const RecordedRole& a, const RecordedRole& b);

// Where a rank differs from its role, with both sides.
std::string DescribeDeparture(const RecordedRole& role, const RecordedRole& other);

}  // namespace prism::slicer
