// Classes of ranks that cannot differ: the coarsest partition in which two ranks of a class have
// the same role and colour, and for every slot communicators with the same multiset of classes and
// peers of the same class. Found by colour refinement. Because a replay is a max-plus dataflow over
// nothing but programs, communicators and peers, ranks of one class have the same timeline to the
// nanosecond, and one evaluation serves them all. What makes ranks differ (a straggler, a sandbox
// process, placement) is given as a colour; refinement then splits exactly the classes that it
// affects.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace prism::graph {

struct RankClasses {
  std::vector<uint32_t> class_of;        // by rank; numbered by lowest member
  std::vector<uint32_t> representative;  // by class: lowest member
  std::vector<uint32_t> size;            // by class: how many ranks
  // The same for communicators: two with the same multiset of member classes and the same cost
  // colour are one class.
  std::vector<uint32_t> comm_class_of;        // by communicator
  std::vector<uint32_t> comm_representative;  // by communicator class
};

// `rank_colour` (by rank) and `comm_colour` (by communicator; what its cost depends on: nodes
// spanned, slow links) start the refinement. Cost: a few passes over ranks × slots.
RankClasses RefineRanks(const Graph& graph,
                        const std::vector<uint32_t>& rank_colour,
                        const std::vector<uint32_t>& comm_colour);

}  // namespace prism::graph
