// What one rank of a program does with other ranks, from its first group to its exit: the calls
// that `prism check` compares across ranks. Made by call_recorder.h from the records of a process.
//
// Calls of one stream run in order. Others need what their thread or stream has waited for: a need
// says that the first `count` calls of a stream have ended. What blocks a thread (a wait, a new
// communicator) is a call of the thread's own stream, for the main one stream 0, and all its later
// calls need it, so that needs say everything about order, and neither kernels nor events appear.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/time.h"
#include "graph/program/op.h"

namespace prism::slicer {

// Of the program; line 0: not known.
struct SourceLine {
  std::string file = {};
  int32_t line = 0;
  std::string function = {};

  bool operator==(const SourceLine&) const = default;
};

// A process group, as a rank made it, whether it is a member or not.
struct CalledGroup {
  std::string name = {};           // the framework's
  std::vector<Rank> members = {};  // in the framework's order
  DurationNs timeout_ns = 0;       // 0: not known
  // Among the groups that every rank has to make, from 0; -1: only members make it.
  int32_t number = -1;
};

struct CalledCommunicator {
  uint64_t identity = 0;           // equal on all members
  std::vector<Rank> members = {};  // by rank in it; empty: not known
  std::string name = {};           // of its group; "" if the framework made one up
  DurationNs timeout_ns = 0;       // of its group; 0: not known
  bool is_default = false;         // of the first of the process's groups
  bool is_cpu = false;             // a CPU group
  int32_t node = -1;               // -1: it is not known on which GPU it is
  int32_t device = -1;             // of that node
  bool hides_calls = false;        // not all that this rank calls in it, or their order, are known
};

enum class CallKind : uint8_t {
  kHostWait,
  kMakeGroup,         // waits for nobody
  kMakeCommunicator,  // of all members at once
  kCollective,
  kTransfers,  // sends and receives on one stream, in one NCCL group
  kStore,      // the program sets keys of the store, or waits for them
};

struct CalledKeys {
  std::string text = {};               // "store.get of key go"
  bool is_set = false;                 // else: it waits until they are
  std::vector<std::string> keys = {};  // of the store that all ranks share

  bool operator==(const CalledKeys&) const = default;
};

struct CalledTransfer {
  bool is_send = false;
  Rank peer;
  uint32_t communicator = 0;
  int64_t bytes = 0;  // -1: not known
  int64_t tag = 0;
};

struct Need {
  uint16_t stream = 0;
  uint32_t count = 0;
};

struct Call {
  CallKind kind = CallKind::kHostWait;
  uint16_t stream = 0;
  uint32_t source = 0;                // of RankCalls::sources
  uint32_t object = 0;                // of RankCalls::groups, communicators or store_calls
  int32_t step = -1;                  // of the program; -1: before the first
  bool is_barrier = false;            // a collective that the program called so
  bool overlaps = false;              // its buffers do, other than NCCL allows
  bool is_dropped = false;            // nothing waits for it, on a stream of no kernels
  bool is_untimed = false;            // it is not known when its thread has begun
  bool is_of_daemon = false;          // of a thread for whose end nobody waits
  uint16_t thread = 0;                // the stream of the thread that makes it
  DurationNs gap_ns = 0;              // that the thread slept since the last call of its stream
  DurationNs timeout_ns = 0;          // its own; 0: that of its group, or not known
  graph::CollectiveShape shape = {};  // of a collective; its root is a rank of the job
  std::vector<CalledTransfer> transfers = {};
  std::vector<Need> needs = {};
};

// How a rank's calls end.
enum class CallsEnd : uint8_t {
  kExit,     // the program ended
  kFailed,   // likewise, with an error
  kCut,      // it went on, and was not followed
  kBlocked,  // it waits for a key of the store that no recorded rank sets
};

// What a rank contributed to one reduction or gathering of integers, as hashes.
struct CalledContribution {
  uint64_t call = 0;  // of communicator, operation and number: equal on all its members
  uint64_t value = 0;

  auto operator<=>(const CalledContribution&) const = default;
};

// A tensor that changes while a collective that began at `source` uses it.
struct CalledChange {
  uint32_t source = 0;
  std::string call = {};

  bool operator==(const CalledChange&) const = default;
};

// A rank for which a condition of the program's source does not hold as for the others.
struct ToldRank {
  int64_t number = 0;
  bool is_place = false;  // in some group: it is not known in which
};

struct RankCalls {
  Rank rank;
  std::vector<Call> calls = {};
  std::vector<CalledGroup> groups = {};
  std::vector<CalledCommunicator> communicators = {};
  std::vector<CalledKeys> store_calls = {};
  std::vector<SourceLine> sources = {{}};  // the first is unknown
  std::vector<CalledChange> changes = {};
  std::vector<std::string> assumptions = {};  // what --stand-in stood for, what is not compared
  std::vector<CalledContribution> contributions = {};
  std::vector<ToldRank> told_ranks = {};  // by rank 0, as they were found
  int32_t told_while_recorded = 0;        // the first so many: it is followed for longer
  bool is_told = false;                   // of: nobody is taken to be like it
  int32_t steps = 0;                      // that were begun
  CallsEnd end = CallsEnd::kExit;
  std::string failure = {};  // of kFailed: how
};

}  // namespace prism::slicer
