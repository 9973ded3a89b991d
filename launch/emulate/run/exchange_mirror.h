// The exchange arena of one host, kept equal to those of the other hosts of the run in what ranks
// of several hosts share, so that present ranks exchange values in the same order and with the same
// bytes wherever they run (shim/nccl/exchange_arena.h).
//
// No rank knows of it. What a rank of this host writes (a deposit, a departure from a round, bytes
// in a mailbox) is sent to the hosts whose arenas have the same entry; what comes from them is
// written here as their ranks would have. Every entry is announced to all other hosts; one that no
// other host has is of this host's ranks alone, and costs nothing more. A member's chunk is left as
// it is until all members have read it, and a mailbox is bounded, so nothing has to be kept here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launch/process/wire.h"
#include "shim/nccl/exchange_arena.h"

namespace prism::launch {

class ExchangeMirror {
 public:
  using Send = std::function<void(int host, std::string message)>;

  // Of `hosts` hosts this is number `own`. `arena` must outlive the mirror.
  ExchangeMirror(shim::ExchangeArena* arena, int hosts, int own, Send send);

  // Sends what has moved on this host since the last call. True: something had.
  bool Step();

  // A message of the mirror of another host.
  void Take(int host, std::string_view message);

 private:
  struct Area {
    shim::StagingArea* shared = nullptr;
    // By member, as last sent or received.
    std::vector<uint32_t> round;
    std::vector<uint32_t> calls;
    std::vector<bool> is_elsewhere;   // runs on another host
    uint32_t left = 0;                // of the ranks of this host, as last sent
    std::map<int, uint32_t> left_of;  // by other host, as last received
    uint32_t seen_arrived = 0;        // values of the area's signals at the last look
    uint32_t seen_left = 0;
    uint32_t seen_calls = 0;
    std::set<int> hosts;  // others that have it
  };
  struct Box {
    shim::Mailbox* shared = nullptr;
    uint32_t head = 0;  // as last sent or received
    uint32_t tail = 0;
    int host = -1;  // that the other rank runs on; -1: this one, as far as known
  };
  struct Moved {
    uint32_t member = 0;
    bool deposited = false;
  };
  enum class Entry : uint8_t { kHere, kMember, kLeft, kBoxHere, kBytes, kTaken, kWaiting, kAbort };

  void FindEntries();
  void Meet(uint64_t key, Area* area, int host);
  void StepArea(uint64_t key, Area* area);
  void StepBox(uint64_t key, Box* box);
  void StepWaiting();
  void PutMember(uint64_t key, const Area& area, const Moved& moved, int host);
  void TakeHere(uint64_t key, uint32_t members, int host);
  void TakeMember(WireReader* message);
  void TakeLeft(Area* area, int host, uint32_t left);
  void TakeBytes(Box* box, std::string_view bytes);
  WireWriter& To(int host, Entry entry);
  void ToAll(const std::function<void(int host)>& put);
  bool Flush();

  shim::ExchangeArena* arena_;
  int hosts_;
  int own_;
  Send send_;
  std::map<uint64_t, Area> areas_;
  std::map<uint64_t, Box> boxes_;
  std::map<uint64_t, std::map<int, uint32_t>> areas_elsewhere_;  // members, by host that has it
  std::map<uint64_t, int> boxes_elsewhere_;                      // a host that has it
  uint64_t found_until_ = 0;  // ExchangeArena::used() at the last complete look for entries
  uint32_t waiting_ = 0;      // ranks of this host in a short wait, as last sent
  std::map<int, uint32_t> waiting_of_;  // by other host, as last received
  bool crosses_ = false;                // some entry is shared with another host
  bool abort_told_ = false;
  std::vector<WireWriter> unsent_;  // by host
};

}  // namespace prism::launch
