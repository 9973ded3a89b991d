// The shared memory through which present members of communicators exchange data, and waiting on
// it. One arena serves all communicators of a run: processes map one memfd, threads share one
// object.
//
// Zero-filled memory of the right size is a valid, empty arena, so there is no set-up to race for.
// It hands out two kinds of bounded areas, found by key and never freed: one staging area per
// communicator (one chunk per member, for collectives) and one mailbox per (communicator, sender,
// receiver). Pages become resident when first touched.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace prism::shim {

inline constexpr size_t kChunkBytes = 256U << 10U;    // staging of one member
inline constexpr uint32_t kMailboxBytes = 1U << 20U;  // in flight from one rank to another
inline constexpr int32_t kDefaultStallSeconds = 600;

// Why an exchange did not happen. The message says what, where and who; for humans.
enum class ExchangeCode : uint8_t {
  kOk,
  kAborted,   // somebody called Abort; the message repeats the reason
  kStalled,   // a peer did not arrive within the stall time
  kMismatch,  // members called different operations, types or sizes
  kArenaFull,
  kNoArena,  // several members are present but there is no shared memory
  kLate,     // others did not arrive within the patience of this wait; nothing is wrong yet
};

// How long to wait for other members.
enum class Patience : uint8_t {
  kShort,  // until all ranks wait, perhaps for each other's next calls; else kLateMs
  kLong,   // until the stall time
};
inline constexpr int64_t kAllWaitMs = 20;  // how long all ranks have been waiting
inline constexpr int64_t kLateMs = 1000;

struct [[nodiscard]] ExchangeStatus {
  ExchangeCode code = ExchangeCode::kOk;
  char message[320] = {};

  [[nodiscard]] bool ok() const { return code == ExchangeCode::kOk; }
};

// A counter in shared memory that can be slept on. Wraps around.
struct Signal {
  std::atomic<uint32_t> value;
  std::atomic<uint32_t> sleepers;

  // Adds and wakes all sleepers; the second form wakes only when the value becomes `wake_at`.
  void Add(uint32_t amount);
  void AddAndWakeAt(uint32_t amount, uint32_t wake_at);
};

// What a member states about its call in a round; all others compare it with theirs.
struct Post {
  uint64_t sequence;
  uint64_t bytes;        // of the whole operation, counted as the operation does
  int32_t rank;          // in the communicator
  int32_t root;          // -1 none
  uint8_t operation;     // ExchangeOperation
  uint8_t element;       // Element
  uint8_t reduce;        // ReduceKind
  uint8_t any_valid;     // some byte of the send buffer was ever written
  uint32_t chunk_bytes;  // of this round's chunk; 0: none of it was ever written
};

// Staging of one communicator. A round: wait until all have left the previous round, write post and
// chunk, arrive, wait until all have arrived, read the others, leave.
struct StagingArea {
  std::atomic<uint64_t> key;
  std::atomic<uint32_t> ready;
  uint32_t member_count;
  uint64_t offset;  // of MemberArea[member_count] in the arena
  Signal arrived;   // members that arrived, over all rounds
  Signal left;
  Signal calls;  // that members have reached, summed over members
};

struct MemberArea {
  Post post;
  std::atomic<uint32_t> round;  // written by its member; others read it to say who is missing
  std::atomic<uint32_t> calls;  // that its member has reached (ExchangeArena::Announce)
  alignas(64) std::byte chunk[kChunkBytes];
};

// A bounded stream of bytes from one rank to another. head and tail wrap around; modulo
// kMailboxBytes they are positions. Waiters for either sleep on the arena's activity.
struct Mailbox {
  std::atomic<uint64_t> key;
  std::atomic<uint32_t> ready;
  uint64_t offset;             // of kMailboxBytes in the arena
  std::atomic<uint32_t> head;  // bytes written so far, by the sender
  std::atomic<uint32_t> tail;  // bytes read so far, by the receiver
};

// Seconds of the machine's own monotonic clock, whatever clock the program sees.
int64_t MachineSeconds();

struct ArenaHeader;

class ExchangeArena {
 public:
  // New shared memory (a memfd): address space, of which only touched pages take memory. Check
  // valid().
  static ExchangeArena Create(size_t bytes);
  // Maps existing shared memory behind a descriptor or a path; the size is that of the file.
  static ExchangeArena Map(int descriptor);
  static ExchangeArena MapPath(const char* path);

  ExchangeArena() = default;
  ~ExchangeArena();
  ExchangeArena(ExchangeArena&& other) noexcept;
  ExchangeArena& operator=(ExchangeArena&& other) noexcept;

  [[nodiscard]] bool valid() const { return header_ != nullptr; }
  // After Create: to be inherited or opened as /proc/<pid>/fd/<descriptor>. -1 otherwise.
  [[nodiscard]] int descriptor() const { return descriptor_; }

  // How long a wait may last without any progress.
  void set_stall_seconds(int32_t seconds) { stall_seconds_ = seconds; }

  // Makes every wait of every rank, now and later, return kAborted with this reason. The first call
  // counts.
  void Abort(const char* reason);
  [[nodiscard]] bool aborted() const;

  // nullptr when the arena is full or, for staging, when another member gave a different member
  // count.
  StagingArea* FindStagingArea(uint64_t key, uint32_t member_count);
  Mailbox* FindMailbox(uint64_t key);
  MemberArea* Members(const StagingArea& area);
  std::byte* Bytes(const Mailbox& mailbox);

  // Sleeps until signal.value - target is not negative (as a wrapped difference). On kStalled and
  // kAborted the message contains only the reason. Also returns kAborted within a second of
  // `given_up` being set.
  ExchangeStatus WaitUntil(Signal* signal,
                           uint32_t target,
                           const std::atomic<bool>* given_up = nullptr);

  // The number of ranks that share the arena. If fewer are known, or none, a short wait ends only
  // by time.
  void set_ranks(uint32_t ranks) { ranks_ = ranks; }

  // Before the rounds of a call, for callers that may continue without the others: a member
  // announces that it has reached its next call, and gets the call's number; the second function
  // waits until all members have reached that call. From then on all carry it out, whatever else
  // they do.
  uint32_t Announce(StagingArea* area, size_t member);
  ExchangeStatus WaitForCall(StagingArea* area,
                             uint32_t call,
                             Patience patience,
                             const std::atomic<bool>* given_up);

  // Counts every movement of a mailbox, for those that wait for one of several. WaitActivity
  // returns at the next movement, or after a second at the latest.
  Signal* activity();
  void WaitActivity(uint32_t seen, Patience patience = Patience::kLong);
  [[nodiscard]] int32_t stall_seconds() const { return stall_seconds_; }
  [[nodiscard]] ExchangeStatus AbortedStatus() const;

  // For what keeps arenas of several hosts equal (launch/emulate/run/exchange_mirror.h). An entry
  // is in use if its key is not 0 and `ready` is 1. `used` grows with every new entry, before it is
  // ready.
  std::span<StagingArea> staging_areas();
  std::span<Mailbox> mailboxes();
  [[nodiscard]] uint64_t used() const;
  std::atomic<uint32_t>* waiting();  // ranks in a short wait
  [[nodiscard]] const char* abort_reason() const;

 private:
  friend class ShortWait;

  bool Reserve(uint64_t bytes, uint64_t* offset);

  ArenaHeader* header_ = nullptr;
  size_t bytes_ = 0;
  int descriptor_ = -1;
  int32_t stall_seconds_ = kDefaultStallSeconds;
  uint32_t ranks_ = 0;
};

// A wait that may be short: while the object exists this rank counts as waiting.
class ShortWait {
 public:
  ShortWait(ExchangeArena* arena, Patience patience);
  ~ShortWait();
  ShortWait(const ShortWait&) = delete;
  ShortWait& operator=(const ShortWait&) = delete;

  // Something moved: the patience starts again.
  void Move();
  // The patience is over.
  bool IsOver();

 private:
  ExchangeArena* arena_;
  Patience patience_;
  int64_t since_ms_ = 0;
  int64_t all_wait_since_ms_ = 0;
};

}  // namespace prism::shim
