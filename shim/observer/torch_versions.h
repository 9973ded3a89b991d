// What differs between the releases of torch that the observer, the rendezvous and the built-in
// program are built for (2.6 to 2.15): one row each, named after what it is. The symbols that the
// shim replaces are the same in all, except for std::string in wheels of 2.6
// (shim/observer/torch_symbol.h); what differs in Python is where shim/rendezvous/absent_ranks.py
// says so.
#pragma once

#include <torch/version.h>

#define PRISM_TORCH_FROM(minor) (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

// c10d::Store
#define PRISM_TORCH_CLONES_STORES PRISM_TORCH_FROM(8)  // clone()
#define PRISM_TORCH_LISTS_KEYS PRISM_TORCH_FROM(10)    // listKeys()

// c10d::ProcessGroupGloo
#define PRISM_TORCH_GLOO_KNOWS_MEMBERS PRISM_TORCH_FROM(8)  // its options; groupRanks(), local_id_
#define PRISM_TORCH_GLOO_SPLITS PRISM_TORCH_FROM(9)         // split(), merge()
#define PRISM_TORCH_GLOO_HAS_ALL_TO_ALL PRISM_TORCH_FROM(12)  // of lists
#define PRISM_TORCH_GLOO_RECONFIGURES PRISM_TORCH_FROM(14)
#define PRISM_TORCH_GLOO_NUMBERS_GROUP (!PRISM_TORCH_FROM(14))  // setSequenceNumberForGroup()

// c10d::nccl2::ProcessGroupNCCL, "nccl" from 2.15 on
#define PRISM_TORCH_HAS_SECOND_NCCL PRISM_TORCH_FROM(15)

// What the built-in program uses
#define PRISM_TORCH_MIXES_TYPES PRISM_TORCH_FROM(8)  // products of bf16 into fp32 in one kernel
#define PRISM_TORCH_SAYS_ASYNC PRISM_TORCH_FROM(8)   // asyncOp of all_reduce and all_to_all
#define PRISM_TORCH_SHUTS_DOWN PRISM_TORCH_FROM(7)   // Backend::shutdown()
#define PRISM_TORCH_VIEWS_NAMES PRISM_TORCH_FROM(9)  // RecordFunction::before(std::string_view)
#define PRISM_TORCH_DESCRIBES_OPTIONS PRISM_TORCH_FROM(11)  // Options::group_desc

// Collectives on one tensor were renamed; the base class forwards the earlier names.
#if PRISM_TORCH_FROM(14)
#define PRISM_TORCH_ALL_GATHER all_gather_single
#define PRISM_TORCH_ALL_GATHERS all_gather_single_coalesced
#define PRISM_TORCH_REDUCE_SCATTER reduce_scatter_single
#define PRISM_TORCH_REDUCE_SCATTERS reduce_scatter_single_coalesced
#define PRISM_TORCH_ALL_TO_ALL all_to_all_single
#else
#define PRISM_TORCH_ALL_GATHER _allgather_base
#define PRISM_TORCH_ALL_GATHERS allgather_into_tensor_coalesced
#define PRISM_TORCH_REDUCE_SCATTER _reduce_scatter_base
#define PRISM_TORCH_REDUCE_SCATTERS reduce_scatter_tensor_coalesced
#define PRISM_TORCH_ALL_TO_ALL alltoall_base
#endif
