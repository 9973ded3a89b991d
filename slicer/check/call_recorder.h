// The records of one process → its calls (calls.h).
//
// Source lines and groups come as notes, markers that the shim writes for a check only
// (shim/rendezvous/absent_ranks.py): "prism:line:LINE:FUNCTION:FILE" before a call on the same
// thread, and "prism:group:TIMEOUT_MS:MEMBERS:NAME" where a group is made, whose members are
// FIRST/STRIDE/COUNT, or numbers with commas. Calls of CPU groups are
// "prism:cpu:IDENTITY:MEMBERS:CHANNEL:KIND:PEER:TIMEOUT_MS:BYTES:TYPE"
// (shim/rendezvous/cpu_group.h), PEER being a root where it is a collective, and
// "prism:cpu-wait:IDENTITY:CHANNEL:COUNT" where it waits for the first so many of a channel;
// "prism:cpu-unknown:IDENTITY:MEMBERS" is a call that cannot be compared. "prism:objects:" says
// of the call of the last line that it moves Python objects: its size follows from what other ranks
// have. "prism:store:TIMEOUT_MS:CALL" is a wait for keys of the store, "prism:store-set:CALL" sets
// some, and "prism:store-key:KEY" behind it is one of them. "prism:overlap:" stands before a
// collective whose buffers overlap, "prism:change:CALL" behind the line of one whose tensor
// changed. "prism:rank:NUMBER:LINE:FILE" and "prism:place:…" are what
// shim/rendezvous/rank_conditions.py finds. "prism:device:NODE:DEVICE" stands before a new
// communicator: its GPU. What another of Python's threads than the main one does in CPU groups or
// with the store begins with "prism:side:"; "prism:thread:IS_DAEMON" says of a record's thread that
// it is a new one of these, "prism:word:NUMBER" that a thread leaves word of what it has done, and
// "prism:heard:NUMBER" that another one goes on upon that (host_threads.h).
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "shim/channel/messages.h"
#include "slicer/check/calls.h"
#include "slicer/check/host_threads.h"
#include "slicer/record/op_stream.h"

namespace prism::slicer {

class CallRecorder {
 public:
  explicit CallRecorder(Rank rank);

  // Fails, naming the rank, on a stream that violates the protocol.
  Status Consume(const channel::Record& record, std::span<const std::byte> payload);

  [[nodiscard]] const RankCalls& calls() const { return calls_; }
  RankCalls TakeCalls();

  // Steps that have begun.
  [[nodiscard]] int32_t steps() const { return stream_.iteration() + 1; }

  // Enough steps were seen, every kind of them at least twice, but for the first ones, and no new
  // kind has come for as long as it took to see the last one.
  [[nodiscard]] bool HasSeenAllTwice() const;

 private:
  void See(const channel::Record& record);
  void EndStep();
  Status SeeNote(const channel::Record& record);
  void SeeLine(std::string_view text, uint16_t thread);
  void SeeGroup(std::string_view text, uint16_t thread);
  void SeeStand(const channel::Record& record);
  void BeginThread(uint16_t thread, HostThread host);
  void SeeStoreCall(CalledKeys called, DurationNs timeout_ns, uint16_t thread);
  void SeeCpuCall(std::string_view text, uint16_t thread);
  void SeeCpuWait(std::string_view text, uint16_t thread);
  void SeeUnknown(uint32_t communicator);
  uint16_t CpuStreamOf(std::string_view identity, std::string_view channel);
  [[nodiscard]] int32_t RootOf(uint32_t communicator, int64_t root) const;
  uint32_t CpuGroupOf(std::string_view identity, std::string_view members);
  void SeeCommunicator(const channel::Record& record);
  void SeeCollective(const channel::Record& record);
  void SeeTransfer(const channel::Record& record);
  void SeeSync(const channel::Record& record);
  void WaitFor(const Clock& clock, uint16_t thread);
  void MarkDropped();
  void AddOnHost(Call call, uint16_t thread);
  void AddOnStream(Call call, uint16_t stream, uint16_t thread, bool grouped);
  [[nodiscard]] uint16_t NumberOf(uint16_t stream);
  [[nodiscard]] Call Begin(CallKind kind, uint16_t thread);
  [[nodiscard]] bool IsBarrier(uint32_t context) const;

  OpStream stream_;
  RankCalls calls_;
  std::map<uint16_t, uint32_t> line_;            // of RankCalls::sources, by thread
  std::map<uint32_t, uint32_t> communicators_;   // of RankCalls, by id
  std::map<uint64_t, uint32_t> cpu_groups_;      // likewise, by identity
  std::map<std::string, uint16_t> cpu_streams_;  // of the process, by identity and channel
  std::set<uint16_t> moving_objects_;            // threads: the call of their last line
  std::map<uint16_t, uint16_t> numbers_;         // of the process's streams, from 1
  std::map<uint16_t, uint32_t> counts_;          // of calls, by number
  std::map<uint16_t, Clock> tails_;              // by the process's streams
  std::map<uint32_t, Clock> events_;
  std::map<uint16_t, std::vector<CalledTransfer>> pending_;  // by thread
  HostThreads threads_;
  Clock awaited_;  // what a thread or another stream has waited for
  std::map<uint16_t, std::pair<int32_t, int32_t>> devices_;  // by thread, of its next communicator
  std::set<uint16_t> overlapping_;                           // threads: of their next collective
  std::set<uint16_t> computing_;                             // the process's streams with kernels
  std::map<std::vector<Rank>, uint32_t> nameless_;           // communicators without a group
  int32_t groups_for_all_ = 0;
  uint16_t begun_threads_ = 0;         // besides the main one
  std::map<uint64_t, int32_t> kinds_;  // of steps: how often each was seen
  int32_t last_new_kind_ = 0;
  size_t step_begin_ = 0;  // of RankCalls::calls
  int32_t seen_steps_ = 0;
  bool group_open_ = false;  // the next collective is in one NCCL group with the last
  std::vector<Need> group_needs_;
};

}  // namespace prism::slicer
