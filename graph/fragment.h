// What one recorded rank contributes to a graph: its program and memory with its own string and
// signature tables, and which communicators and peers its slots refer to. Made by
// slicer/record/recorder.h in any process, sent to process 0 as bytes, joined by
// slicer/stitch/stitch.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/enum_names.h"
#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/graph.h"

namespace prism::graph {

// A communicator as one member saw it.
struct FragmentCommunicator {
  std::string name;           // of the process group, "" if the framework gave none
  std::vector<Rank> members;  // ascending global ranks
  // Number of its process group in the order in which the rank created its groups; groups of the
  // same members have the same number on all of them. 0: not known.
  uint32_t group_number = 0;
  // Of what it sums to all members in an iteration: what another thread than that of the forward
  // pass issued.
  int64_t backward_sum_bytes = 0;

  bool operator==(const FragmentCommunicator&) const = default;
};

// Who issues an op: the program itself, autograd's engine, an optimizer's step.
enum class HostPhase : uint8_t { kForward, kBackward, kOptimizer };
inline constexpr std::array<EnumName<HostPhase>, 3> kHostPhaseNames = {
    {{HostPhase::kForward, "forward"},
     {HostPhase::kBackward, "backward"},
     {HostPhase::kOptimizer, "optimizer"}}};

// How often a rank issued ops of one sort, and what that cost its threads: CPU time between ops, on
// the machine that recorded them.
struct HostTime {
  OpKind kind = OpKind::kKernel;
  bool is_product = false;  // of matrices, by a library
  HostPhase phase = HostPhase::kForward;
  // That began since the thread's op before; those without a kernel (views) are among them. The
  // highest is kMostFrameworkOps, for all beyond it.
  int32_t framework_ops = 0;
  int64_t calls = 0;
  DurationNs total_ns = 0;  // 0: not measured

  bool operator==(const HostTime&) const = default;
};
inline constexpr int32_t kMostFrameworkOps = 15;

// What a rank calls before its program is steady: a collective, or a message. Only the number of
// calls is kept. Parts of an exchange with more than two peers (an all_to_all) are kept separately,
// since NCCL leaves out the empty ones.
enum class EarlySort : uint8_t { kCollective, kMessage, kExchange };

// Members of a communicator, by rank in it, or sender and receiver of messages.
struct EarlyGroup {
  std::vector<Rank> members;
  uint64_t identity = 0;  // of the communicator, equal on all members; 0: not known, or of messages

  auto operator<=>(const EarlyGroup&) const = default;
};

struct EarlyCalls {
  int32_t iteration = -1;  // -1: before the first
  EarlySort sort = EarlySort::kCollective;
  CollectiveKind kind = CollectiveKind::kAllReduce;  // of a collective
  int32_t root = -1;                                 // likewise
  uint32_t group = 0;                                // of Fragment::early_groups
  int64_t count = 0;

  bool operator==(const EarlyCalls&) const = default;
};

struct Fragment {
  Rank rank;
  std::vector<std::string> strings;         // strings[0] is ""
  std::vector<KernelSignature> signatures;  // in order of first use
  Program program;
  std::vector<FragmentCommunicator> comm_slots;
  std::vector<Rank> peer_slots;
  MemoryProfile memory;
  std::vector<Warning> warnings;
  int32_t warmup_iterations = 0;        // run before the recorded one
  int32_t iterations = 0;               // run in total
  bool varies = false;                  // no two in a row are the same; this one stands for all
  std::vector<int32_t> odd_iterations;  // those after the recorded one that differ from it,
                                        // ascending
  std::string iteration_begin;          // what begins an iteration, in words
  int32_t steps_per_iteration = 1;      // how many such beginnings one iteration holds
  // Fewest rounds left out of an iteration (slicer/record/rounds.h); 0 if one left none out.
  int32_t rounds_left_out = 0;
  std::vector<HostTime> host_times;            // of the steady iterations, ascending
  std::vector<std::string> framework_modules;  // of channel::kFrameworks, that were loaded
  // Up to the iteration after the recorded one, which equals it.
  std::vector<EarlyGroup> early_groups;
  std::vector<EarlyCalls> early_calls;
  // Real time, for run.json only.
  double startup_seconds = 0;    // process start to first op
  double iteration_seconds = 0;  // of the last iteration that was seen completely

  bool operator==(const Fragment&) const = default;
};

// A hash over everything that makes two ranks the same role: program, signatures, names and slots'
// sizes; not the identity of communicators and peers, nor memory, nor ranges (a program may name
// these after its rank or step, or open them on one rank only). Stable across runs and machines.
uint64_t StructuralHash(const Fragment& fragment);

// Bytes to send between processes; Parse fails on anything that Serialize did not write.
std::string SerializeFragment(const Fragment& fragment);
Result<Fragment> ParseFragment(std::string_view bytes);

}  // namespace prism::graph
