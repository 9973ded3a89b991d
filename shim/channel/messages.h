// The messages between a sandbox process and its worker: fixed layouts in one shared memory object.
// Included on both sides; standard library only; no pointers, no STL types.
//
// The object is a memfd created by the worker and inherited by the process (environment variable
// PRISM_CHANNEL_FD), so there is no name that could be left behind. It holds a Header, written by
// the worker before the process starts, and a ring of 64-byte records from the process to the
// worker (channel.h). A record that needs an answer (kSync, kQueryEvent, kElapsed, kFence) carries
// a request number; the worker writes the answer into Header::answer.
//
// Names and other variable-length things travel once, as kDefine records whose payload occupies the
// following `payload_slots` ring slots, and are then referred to by id. Ids are dense per table and
// start at 1; 0 means none.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstdint>

#include "shim/channel/hold_streams.h"

namespace prism::channel {

inline constexpr uint32_t kProtocolVersion = 13;

// What a program prints if its shim was built with a different version of this file; the launcher
// looks for it.
inline constexpr const char* kOtherVersion =
    "the worker speaks another version of the channel protocol";
inline constexpr uint32_t kRingSlots = 1U << 14U;  // 1 MiB of records; a full ring blocks
inline constexpr uint32_t kSlotBytes = 64;
inline constexpr int kMaxSandboxRanks = 256;

// Asks a process for its stacks (stack_writer.h). A real-time signal that neither libc nor any
// framework uses.
inline int StackSignal() {
  return SIGRTMAX - 3;
}

enum class Mode : uint32_t {
  kStandalone = 0,  // no channel: the device works, nothing is recorded or timed
  kRecord = 1,      // ops stream out; synchronisation returns at once; clocks are real
  kEmulate = 2,     // ops stream out; synchronisation waits for virtual time; clocks are virtual
  kDevice = 3,      // on a real GPU: ops stream out, holds wait for their deadline, clocks are real
};

// What cudaGetDeviceProperties and the device memory allocator report; from graph::GpuSpec.
struct DeviceProfile {
  char name[64];
  int32_t compute_major;
  int32_t compute_minor;
  int32_t sm_count;
  int32_t device_count;  // devices of a node that the program sees
  int64_t memory_bytes;
  int64_t context_bytes;  // taken by the context; not available to cudaMalloc
  int64_t l2_bytes;
  int64_t shared_memory_per_sm;
  int64_t shared_memory_per_block_optin;
  int32_t segments_ascending;
  int32_t reserved;
};

// How much device memory NCCL takes, read by shim/nccl/ballast.h (formulas:
// graph/job/nccl_memory.h). Filled from the cluster preset.
struct NcclProfile {
  int32_t collective_channels;
  int32_t p2p_channels;
  int32_t p2p_channels_per_peer;
  int32_t nvls_channels;  // 0: no NVLS on this GPU
  int64_t granularity_bytes;
  int64_t local_bytes_per_s;    // nominal, of a GPU's link to others on its node
  int64_t network_bytes_per_s;  // likewise, of a NIC
};

// Host time of one issued op by kind, nanoseconds; from the preset, the same numbers that the
// replayer uses. Index: RecordKind.
inline constexpr int kHostCostKinds = 32;

struct Config {
  uint32_t version;
  Mode mode;
  int32_t rank;
  int32_t world_size;
  uint64_t seed;
  DeviceProfile device;
  NcclProfile nccl;
  int64_t host_cost_ns[kHostCostKinds];
  uint32_t fences;                          // 1: kFence in each NCCL call
  uint32_t measures_host;                   // 1: Record::host_ns is filled
  uint32_t measures_device;                 // 1: kDuration for what the real GPU ran
  uint32_t repeats_rounds;                  // 1: the worker answers kRound
  int32_t sandbox_rank_count;               // how many ranks are present (this one included)
  int32_t sandbox_ranks[kMaxSandboxRanks];  // ascending
};

// Values of Answer::status other than 0 (success).
inline constexpr int32_t kNotReady = 1;  // of a kQueryEvent
inline constexpr int32_t kAborted = 2;   // the process has to end

// How the worker answers a request. The process sleeps on `sequence` (futex).
struct Answer {
  std::atomic<uint32_t> sequence;  // request number that the answer below belongs to
  int32_t status;
  int64_t host_time_ns;  // virtual time of the host thread after the call
  int64_t value_ns;      // kElapsed: difference of the two events
};

// head and tail count slots since the start; each is also the futex on which its waiter sleeps. The
// process writes head, the worker writes tail.
struct RingControl {
  alignas(64) std::atomic<uint64_t> head;
  alignas(64) std::atomic<uint64_t> tail;
  alignas(64) std::atomic<uint32_t> producer_waits;  // process sleeps: worker wakes `tail_futex`
  std::atomic<uint32_t> tail_futex;
  std::atomic<uint32_t> consumer_waits;  // worker sleeps: process wakes `head_futex`
  std::atomic<uint32_t> head_futex;
  std::atomic<uint32_t> closed;            // the process has exited normally
  std::atomic<uint32_t> producer_process;  // id of the producer process; 0: none yet
};

// When the hold in progress on a hold stream may end, by the GPU's timer. One at a time per hold
// stream.
struct HoldDeadline {
  std::atomic<uint64_t> of;  // sequence + 1, written after the time
  uint64_t time_ns;          // 0: at once
};

struct Header {
  Config config;
  RingControl ring;
  int32_t worker_process;  // its id
  alignas(64) Answer answer;
  alignas(64) HoldDeadline deadlines[kHoldStreams];
  std::atomic<uint32_t> hung;  // 1: no more answers will come, and the clock runs by itself
};

// The kinds of record. Numbers index Config::host_cost_ns.
enum class RecordKind : uint8_t {
  kDefine = 0,
  // What is issued to the device.
  kKernel = 1,
  kMatmul = 2,
  kMemcpy = 3,
  kMemset = 4,
  kEventRecord = 5,
  kEventWait = 6,
  kCollective = 7,
  kPeerTransfer = 8,
  kGroupEnd = 9,
  // What the host waits for, queries or spends.
  kSync = 10,
  kQueryEvent = 11,
  kElapsed = 12,
  kFence = 13,    // the process stays in an NCCL call until the worker lets it continue
  kHostGap = 14,  // on a stream: time of a data loader's worker
  // Communicators, and the traffic on them.
  kCommInit = 15,
  kCommName = 16,  // the framework named a communicator's group after creating it
  kCommDestroy = 17,
  kValue = 18,  // a small value that this rank sent to absent ranks; the value follows
  kGuess = 19,  // a value of an absent rank that may steer the program was not, or not certainly,
                // that rank's
  kHold = 20,   // a hold on a real GPU began or ended; asks for a deadline when it began
  // Device memory.
  kSegmentAlloc = 21,
  kSegmentFree = 22,
  kBlockAlloc = 23,
  kBlockFree = 24,
  kOutsideAlloc = 25,
  kOutOfMemory = 26,
  kAllocatorStats = 27,
  // The program.
  kMarker = 28,
  kCounter = 29,
  kExit = 30,
  // What came before was another process's, which has ended without training: it looked at the
  // device, say. Names, threads, requests and all else begin anew.
  kBeginAgain = 31,
  kDuration = 32,  // how long the real GPU took for an op issued before
  kRound = 33,     // a round of the program has ended; asks how many of the next need not run
};

// Tables that kDefine fills. The payload layout is given beside each.
enum class Table : uint8_t {
  kKernelName = 1,   // demangled name, UTF-8, no terminator
  kContext = 2,      // framework op with its inputs: see ContextHeader
  kMarkerName = 3,   // UTF-8
  kCounterName = 4,  // UTF-8
  kGroupName = 5,    // UTF-8, name of a process group as the framework knows it
  kOutsideName = 6,  // UTF-8, who holds device memory outside the allocator: "context", "nccl ring"
  kFramework = 7,    // a module of kFrameworks that was loaded when an optimizer first stepped
};

// Payload of a kContext definition: this header, `name_bytes` of UTF-8, then per tensor one byte
// data type (DataType), one byte number of dimensions, and that many int64, unaligned.
struct ContextHeader {
  uint16_t name_bytes;
  uint16_t tensor_count;
};

struct DefineBody {
  Table table;
  uint8_t padding[3];
  uint32_t id;
  uint32_t payload_bytes;  // in the following ceil(payload_bytes / 64) slots
};

struct KernelBody {
  uint32_t name;  // kKernelName
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
};

struct MatmulBody {
  uint32_t name;  // kKernelName: the library call
  int32_t m, n, k, batch;
  uint8_t input_dtype;  // DataType
  uint8_t output_dtype;
  uint8_t transpose_a;
  uint8_t transpose_b;
};

struct CopyBody {  // kMemcpy, kMemset
  int64_t bytes;
  uint8_t host_to_device;
  uint8_t device_to_host;  // a blocking copy is followed by a kSync of its stream
};

struct EventBody {   // kEventRecord, kEventWait, kQueryEvent
  uint32_t event;    // dense id of the event object in this process, from 1; kQueryEvent: 0 queries
                     // the header's stream itself
  uint32_t request;  // kQueryEvent only
};

struct CollectiveBody {
  uint32_t comm;
  uint8_t collective;  // graph::CollectiveKind
  uint8_t dtype;       // DataType
  uint8_t reduce;      // graph::ReduceOp
  uint8_t grouped_with_next;
  int32_t root;       // -1 none
  uint32_t sequence;  // per communicator
  int64_t bytes;      // graph::CollectiveShape::bytes
};

struct PeerTransferBody {  // between the first of a group and kGroupEnd
  uint32_t comm;
  int32_t peer;  // rank in the communicator
  int64_t bytes;
  uint8_t is_send;
  uint8_t dtype;
};

enum class SyncKind : uint8_t { kStream = 0, kEvent = 1, kDevice = 2 };

struct SyncBody {
  SyncKind kind;  // the header's stream names the stream of kStream
  uint8_t padding[3];
  uint32_t event;  // kEvent
  uint32_t request;
};

struct ElapsedBody {
  uint32_t start_event;
  uint32_t end_event;
  uint32_t request;
};

struct HostGapBody {
  int64_t duration_ns;
};

// Membership comes from the framework (the observer), as an arithmetic progression of global ranks
// or as a list; where it is not known, a negative start without a list.
struct CommInitBody {
  uint32_t comm;  // dense id in this process
  int32_t size;
  int32_t rank;         // in the communicator
  uint32_t group_name;  // kGroupName; 0 unknown
  int32_t global_start;
  int32_t global_stride;
  uint64_t identity;       // equal on all members
  uint32_t parent;         // comm id for split and shrink, else 0
  uint32_t payload_bytes;  // explicit members, int32 each, in the following slots; else 0
  uint32_t group_number;   // of its group, in the order in which this process created them; 0:
                           // unknown
};

struct CommNameBody {
  uint32_t comm;
  uint32_t group_name;  // kGroupName
};

struct CommDestroyBody {
  uint32_t comm;
};

// A value that one rank sent to others in a collective or a send; later runs of other ranks are
// given it in that rank's place (value_book.h).
struct ValueHead {
  uint64_t communicator;  // equal on all members
  uint64_t shape;         // equal for communicators of members equally far apart; 0: not known
  uint32_t place;         // equal for those between the same two ranks of such groups; 0: not known
  uint32_t sequence;      // number among the root's calls of that operation, among the sends to
                          // target, or among all calls to which members contribute that type
  int32_t producer;       // global rank; filled by the worker
  int32_t source;         // rank in the communicator
  int32_t target;         // for a send: rank in the communicator; else -1
  int32_t iteration;      // 0: the steady one, negative before it; filled by the worker
  uint32_t payload_bytes;  // at most kMaxValueBytes; 0: a root sent bytes that were never written
  uint8_t operation;       // shim/nccl/exchange.h; of a contribution with its Element above
  uint8_t speculative;     // 1: sent after the producer itself had been given a guess (GuessBody);
                           // filled by the worker
  uint8_t steers;          // 1: a contribution of integers, on which control flow may depend
  uint8_t odd;             // 1: sent in an iteration that is not like the steady one; filled by the
                           // worker
};

// Once per absent rank and communicator for each of the two.
struct GuessBody {
  int32_t producer;     // global rank
  uint8_t speculative;  // 1: the value was that rank's, but speculative
  uint8_t padding[3];
};

// Larger values are data that does not affect control flow.
inline constexpr uint32_t kMaxValueBytes = 256U << 10U;
inline constexpr uint64_t kMaxValuesOfRank = 16U << 20U;

struct HoldBody {
  uint64_t time_ns;   // of the GPU's timer
  uint64_t sequence;  // of the hold on its hold stream, from 0
  uint32_t hold_stream;
  uint8_t ended;  // else it began
};

// A pipeline's steady part, say: rounds that the program knows to be alike.
struct RoundBody {
  uint32_t request;
  int32_t left;  // how many rounds like it come next
};

// A kernel, product, copy or memset may have several, which add up.
struct DurationBody {
  uint64_t op;  // number among the process's records of these four kinds, from 0
  int64_t duration_ns;
};

struct SegmentBody {  // kSegmentAlloc, kSegmentFree, kBlockAlloc, kBlockFree, kOutOfMemory
  uint64_t address;
  int64_t bytes;
  int64_t device_used_bytes;  // after the call, by this process
};

// Device memory taken by a library outside the framework's allocator, at its first use.
struct OutsideBody {
  uint32_t name;  // kOutsideName
  uint32_t comm;  // comm id for NCCL memory, else 0
  int64_t bytes;  // negative when given back
  int64_t device_used_bytes;
};

struct AllocatorStatsBody {  // bytes, as in libtorch's device statistics
  int64_t peak_allocated;
  int64_t peak_reserved;
  int64_t allocated;
  int64_t reserved;
};

struct MarkerBody {
  uint32_t name;        // kMarkerName
  uint8_t begin;        // 1 begin, 0 end
  uint8_t in_backward;  // 1: on a thread that runs a backward pass, by one of the program's hooks
  uint8_t is_note;      // 1: no range, but what the check of a program wants to know
};

struct CounterBody {  // something assumed, masked or refused, counted: becomes a warning
  uint32_t name;      // kCounterName
  int64_t count;      // total so far
};

struct ExitBody {
  int32_t code;
};

// Bits of Record::flags.
enum RecordFlag : uint8_t {
  kLaunchedWithPrevious = 1U << 0U,  // by the same host call (a graph): costs the host nothing
  kInBackward = 1U << 1U,            // by a framework op in a backward pass
  kInOptimizer = 1U << 2U,           // in an optimizer's step
};

// Record::thread of a thread that has issued nothing: it only watches others (c10d's watchdog), or
// reports blocks and counters.
inline constexpr uint16_t kWatchingThread = 0xFFFF;

struct Record {
  RecordKind kind;
  uint8_t payload_slots;  // following slots that belong to this record (kDefine: see DefineBody;
                          // 255 = more than fits here, use the body's payload_bytes)
  uint16_t stream;        // dense stream index in this process; 0 is the default stream
  uint16_t thread;        // ordinal of the issuing thread at its first issue, or kWatchingThread
  uint8_t flags;          // RecordFlag
  uint8_t framework_ops;  // that began on the issuing thread since its last op with a host cost
  uint32_t context;       // kContext id current on the issuing thread; 0: none
  union {
    uint32_t hold_stream;  // kDevice, kCollective and kGroupEnd: of the hold, + 1; 0 none
    uint32_t host_ns;  // if Config::measures_host: what the issuing thread computed outside of shim
                       // and observer since its last op with a host cost; < 2^32
  };
  union {
    DefineBody define;
    KernelBody kernel;
    MatmulBody matmul;
    CopyBody copy;
    EventBody event;
    CollectiveBody collective;
    PeerTransferBody peer;
    SyncBody sync;
    ElapsedBody elapsed;
    HostGapBody host_gap;
    CommInitBody comm_init;
    CommNameBody comm_name;
    CommDestroyBody comm_destroy;
    ValueHead value;
    GuessBody guess;
    HoldBody hold;
    DurationBody duration;
    RoundBody round;
    SegmentBody segment;
    OutsideBody outside;
    AllocatorStatsBody stats;
    MarkerBody marker;
    CounterBody counter;
    ExitBody exit;
    uint8_t bytes[48];
  };
};

static_assert(sizeof(Record) == kSlotBytes);
static_assert(sizeof(ContextHeader) == 4);
static_assert(sizeof(ValueHead) == 48);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace prism::channel
