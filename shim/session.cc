// The single state of the shim in its process. Everything here may be called from any thread at any
// time, including before main and during exit, so the state is never destroyed.
#include "shim/session.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shim/channel/channel.h"
#include "shim/channel_finder.h"
#include "shim/clock/host_meter.h"
#include "shim/clock/hung_clock.h"
#include "shim/clock/virtual_clock.h"
#include "shim/clock/watchdogs.h"
#include "shim/counters.h"
#include "shim/fork_server/fork_server.h"
#include "shim/fork_server/imports.h"
#include "shim/issued_ops.h"
#include "shim/stack_writer.h"
#include "shim/standalone_config.h"

namespace prism::shim {
namespace {

using channel::Mode;
using channel::Record;
using channel::RecordKind;
using channel::Table;

constexpr auto kTables = static_cast<size_t>(Table::kFramework);  // ids from 1 on
constexpr const char* kTooLarge = "a name or a group's members exceed the channel (1 MiB)";
constexpr const char* kWorkerGone = "the run was aborted or its worker process has gone";

[[noreturn]] void Die(const char* what) {
  fprintf(stderr, "prism shim: %s\n", what);
  syscall(SYS_exit_group, 1);
  __builtin_unreachable();
}

// Whether this process writes to the channel: decided at the first record.
enum class Voice { kSilent, kUndecided, kSpeaks };

struct State {
  channel::Config config = StandaloneConfig();
  channel::Header* header = nullptr;
  pid_t process = 0;
  std::atomic<Voice> voice{Voice::kSilent};
  std::atomic<bool> exit_sent{false};
  std::atomic<bool> has_trained{false};   // communicated, or run a range of the program
  std::atomic<bool> begins_again{false};  // another process has written before
  std::mutex decision_mutex;
  std::mutex ring_mutex;     // the ring and the tables
  std::mutex request_mutex;  // the one answer slot
  uint32_t next_request = 1;
  uint16_t next_ordinal = 0;
  std::atomic<int> working_threads{0};  // that have given the device something to do
  std::unordered_map<std::string, uint32_t> tables[kTables];
};

State& Get();

thread_local uint16_t thread_ordinal = channel::kWatchingThread;
thread_local uint32_t thread_context = 0;
thread_local bool thread_in_graph = false;
thread_local int thread_open[8] = {};   // what SeePhase has seen begin, by flag
thread_local uint8_t thread_phase = 0;  // the flags of these
thread_local bool thread_works = false;

void PushLocked(State& state, const Record& record, const void* payload, uint32_t bytes) {
  if (state.begins_again.load(std::memory_order_relaxed)) {
    state.begins_again.store(false, std::memory_order_relaxed);
    Record begin = {};
    begin.kind = RecordKind::kBeginAgain;
    PushLocked(state, begin, nullptr, 0);
  }
  errno = 0;
  if (!channel::Push(state.header, record, payload, bytes)) {
    Die(errno == EMSGSIZE ? kTooLarge : kWorkerGone);
  }
}

bool Decide(State& state) {
  const std::lock_guard<std::mutex> lock(state.decision_mutex);
  if (state.voice.load() != Voice::kUndecided) {
    return state.voice.load() == Voice::kSpeaks;
  }
  const bool mine = channel::ClaimProducer(state.header);
  if (mine && state.header->ring.head.load() > 0) {
    state.begins_again = true;
    state.next_request = state.header->answer.sequence.load() + 1;
  }
  state.voice.store(mine ? Voice::kSpeaks : Voice::kSilent);
  return mine;
}

bool Speaks(State& state) {
  const Voice voice = state.voice.load(std::memory_order_acquire);
  return voice == Voice::kSpeaks || (voice == Voice::kUndecided && Decide(state));
}

// Ends the stream of records, once. A process that the program started to look at the device, and
// that did not train, leaves the channel to the program. A child of vfork shares this memory: only
// the process that owns the channel may write to it.
void SendExit(int code) {
  State& state = Get();
  if (state.voice.load() != Voice::kSpeaks || getpid() != state.process ||
      state.exit_sent.exchange(true)) {
    return;
  }
  const bool started_by_program = getppid() != state.header->worker_process;
  if (!state.has_trained.load() && started_by_program) {
    state.voice.store(Voice::kSilent);
    channel::ReleaseProducer(state.header);
    return;
  }
  // For the case that the launcher could not request the same addresses in every run.
  if ((personality(0xFFFFFFFF) & ADDR_NO_RANDOMIZE) == 0) {
    Count("addresses_random");
  }
  EmitCounters();
  Record record = {};
  record.kind = RecordKind::kExit;
  record.exit.code = code;
  Emit(record);
  state.voice.store(Voice::kSilent);
}

void OnExit(int code, void* /*unused*/) {
  SendExit(code);
}

// A forked child keeps working on the virtual device but sends nothing: the ring has one producer.
void LockForFork() {
  LockCounters();
  Get().ring_mutex.lock();
}

void UnlockAfterFork() {
  Get().ring_mutex.unlock();
  UnlockCounters();
}

// Nothing that its thread issues is timed: it sleeps for real, with a running clock.
void LeaveChannelInChild() {
  if (ForksRank()) {
    UnlockAfterFork();
    return;
  }
  Get().voice.store(Voice::kSilent);
  thread_ordinal = channel::kWatchingThread;
  LetClockRun();
  UnlockAfterFork();
}

// False if none was given.
bool TakeChannel(State& state) {
  const FoundChannel found = FindChannel();
  if (found.error != nullptr) {
    Die(found.error);
  }
  if (found.header == nullptr) {
    return false;
  }
  state.header = found.header;
  if (state.header->config.version != channel::kProtocolVersion) {
    Die(channel::kOtherVersion);
  }
  state.config = state.header->config;
  state.process = getpid();
  StartHostMeter(state.config.measures_host != 0);
  if (state.config.mode != Mode::kStandalone) {
    state.voice.store(Voice::kUndecided);
  }
  return true;
}

void OpenChannel(State& state) {
  if (!TakeChannel(state)) {
    return;
  }
  OpenForkServer();
  OpenImports();
  InstallStackWriter();
  pthread_atfork(LockForFork, UnlockAfterFork, LeaveChannelInChild);
  on_exit(OnExit, nullptr);
}

// False in a program started by the one that writes to the channel.
bool MaySpeak(const State& state) {
  const uint32_t producer = state.header->ring.producer_process.load();
  return producer == 0 || producer == static_cast<uint32_t>(state.process);
}

State& Get() {
  alignas(State) static std::byte storage[sizeof(State)];
  static State* const state = [] {
    State* const made = new (storage) State();
    OpenChannel(*made);
    StartVirtualClock(ServesForks() || (made->config.mode == Mode::kEmulate && MaySpeak(*made)));
    if (made->config.mode != Mode::kStandalone) {
      OrderWatchdogs(made->config.mode == Mode::kDevice);
    }
    return made;
  }();
  return *state;
}

__attribute__((constructor)) void StartSession() {
  Get();
}

// Blocks are freed by whichever thread drops the last reference; that by itself issues nothing.
bool IsIssued(RecordKind kind) {
  return kind != RecordKind::kBlockAlloc && kind != RecordKind::kBlockFree &&
         kind != RecordKind::kCounter && kind != RecordKind::kAllocatorStats &&
         kind != RecordKind::kFence && kind != RecordKind::kHold && kind != RecordKind::kDuration;
}

void FillLocked(State& state, Record& record) {
  if (thread_ordinal == channel::kWatchingThread && IsIssued(record.kind)) {
    if (state.next_ordinal == 0) {
      AdoptThreadClock();
    }
    constexpr int kLast = channel::kWatchingThread - 1;  // further threads share it
    thread_ordinal = state.next_ordinal;
    state.next_ordinal = static_cast<uint16_t>(std::min(state.next_ordinal + 1, kLast));
  }
  record.thread = thread_ordinal;
  record.context = thread_context;
}

bool IsWork(RecordKind kind) {
  return kind == RecordKind::kKernel || kind == RecordKind::kMatmul ||
         kind == RecordKind::kMemcpy || kind == RecordKind::kMemset ||
         kind == RecordKind::kCollective || kind == RecordKind::kPeerTransfer;
}

// The thread that runs the steps and autograd's take turns. What further threads issue, those that
// have ended included, comes in between in an order by chance.
void CountWorkingThread(State& state, RecordKind kind) {
  constexpr int kThreadsThatTakeTurns = 2;
  if (IsWork(kind) && !std::exchange(thread_works, true) &&
      ++state.working_threads > kThreadsThatTakeTurns) {
    Count("several_issuing_threads");
  }
}

uint32_t& RequestNumber(Record& record) {
  return record.kind == RecordKind::kSync      ? record.sync.request
         : record.kind == RecordKind::kElapsed ? record.elapsed.request
         : record.kind == RecordKind::kRound   ? record.round.request
                                               : record.event.request;
}

void AskWatchdogs(bool in_any_case) {
  if (!LetWatchdogsLook(in_any_case)) {
    Count("watchdog_did_not_look");
  }
}

void PushDefinitionLocked(State& state, Table table, uint32_t id, std::string_view payload) {
  Record record = {};
  record.kind = RecordKind::kDefine;
  record.define.table = table;
  record.define.id = id;
  record.define.payload_bytes = static_cast<uint32_t>(payload.size());
  PushLocked(state, record, payload.data(), record.define.payload_bytes);
}

uint32_t DefineLocked(State& state, Table table, std::string_view payload) {
  const size_t index = static_cast<size_t>(table) - 1;
  if (index >= kTables) {
    Die("a definition of an unknown table");
  }
  auto& ids = state.tables[index];
  const auto [entry, is_new] =
      ids.try_emplace(std::string(payload), static_cast<uint32_t>(ids.size() + 1));
  if (is_new && !ServesForks() && Speaks(state)) {
    PushDefinitionLocked(state, table, entry->second, payload);
  }
  return entry->second;
}

// What a fork server has defined, with the numbers that it gave it.
void PushDefinitionsLocked(State& state) {
  for (size_t index = 0; index < kTables; ++index) {
    const auto& ids = state.tables[index];
    std::vector<std::string_view> payloads(ids.size());
    for (const auto& [payload, id] : ids) {
      payloads[id - 1] = payload;
    }
    for (size_t i = 0; i < payloads.size(); ++i) {
      PushDefinitionLocked(state, static_cast<Table>(index + 1), static_cast<uint32_t>(i + 1),
                           payloads[i]);
    }
  }
}

}  // namespace

const channel::Config& SessionConfig() {
  return Get().config;
}

bool HasWorked() {
  return Get().working_threads > 0;
}

Mode SessionMode() {
  return Get().config.mode;
}

channel::Header* SessionChannel() {
  return Get().header;
}

void BeginAsRank() {
  State& state = Get();
  TakeChannel(state);
  if (state.config.mode != Mode::kEmulate) {
    LetClockRun();
  }
  if (!Speaks(state)) {
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(state.ring_mutex);
    PushDefinitionsLocked(state);
  }
  EmitCounters();
}

extern "C" void prism_shim_stay_silent() {
  Get().voice.store(Voice::kSilent);
}

void Emit(Record record) {
  Emit(record, nullptr, 0);
}

void Emit(Record record, const void* payload, uint32_t payload_bytes) {
  const InShim inside;
  State& state = Get();
  BecomeRank();
  record.flags |= thread_in_graph ? channel::kLaunchedWithPrevious : 0;
  record.flags |= thread_phase;
  const int64_t cost_ns = channel::HostCostNs(state.config, record);
  if (!Speaks(state)) {
    AdvanceVirtualClock(cost_ns);
    return;
  }
  CountWorkingThread(state, record.kind);
  if (record.kind == RecordKind::kCollective ||
      (record.kind == RecordKind::kMarker && record.marker.is_note == 0)) {
    state.has_trained.store(true, std::memory_order_relaxed);
  }
  if (cost_ns > 0 && record.kind != RecordKind::kHostGap) {
    ChargeHost(&record);
  }
  {
    const std::lock_guard<std::mutex> lock(state.ring_mutex);
    FillLocked(state, record);
    NumberOp(state.config, record.kind);
    PushLocked(state, record, payload, payload_bytes);
  }
  // As of the end of this op: what ends during a long sleep has ended before their time-out.
  if (WatchdogsAreDue(record.kind, cost_ns) && !thread_in_graph) {
    AskWatchdogs(/*in_any_case=*/cost_ns >= kWatchdogPeriodNs);
  }
  AdvanceVirtualClock(cost_ns);
}

namespace {

channel::AnswerValue Await(State& state, uint32_t request) {
  const channel::AnswerValue answer = channel::WaitAnswer(state.header, request, [] {
    LetTimePass();
    AskWatchdogs(/*in_any_case=*/true);
  });
  if (answer.status == channel::kAborted) {
    Die(kWorkerGone);
  }
  return answer;
}

// The worker's answer in kEmulate.
channel::AnswerValue Ask(State& state, Record record, bool watches) {
  const std::lock_guard<std::mutex> request_lock(state.request_mutex);
  const uint32_t request = state.next_request++;
  RequestNumber(record) = request;
  if (watches) {
    const std::lock_guard<std::mutex> lock(state.ring_mutex);
    record.thread = channel::kWatchingThread;
    PushLocked(state, record, nullptr, 0);
  } else {
    Emit(record);
  }
  return Await(state, request);
}

}  // namespace

Reply Request(Record record) {
  State& state = Get();
  BecomeRank();
  if (!Speaks(state)) {
    return {0, 0};
  }
  // A thread that has issued nothing watches others (c10d's watchdog): its queries are not ops.
  const bool watches =
      record.kind == RecordKind::kQueryEvent && thread_ordinal == channel::kWatchingThread;
  channel::AnswerValue answer = {};
  answer.status = watches && IsHung() ? channel::kNotReady : 0;
  const bool waits = state.config.mode == Mode::kEmulate || record.kind == RecordKind::kRound;
  if (waits && answer.status == 0) {
    answer = Ask(state, record, watches);
  } else if (!watches) {
    Emit(record);
  }
  // Before the clock moves, as in Emit: a wait may outlast the time-out of what it waits for.
  if (record.kind == RecordKind::kSync) {
    AskWatchdogs(/*in_any_case=*/false);
  }
  if (!watches) {
    SetVirtualClock(answer.host_time_ns);
  }
  return {answer.status, answer.value_ns};
}

void Fence() {
  State& state = Get();
  BecomeRank();
  if (state.config.fences == 0 || !Speaks(state)) {
    return;
  }
  const std::lock_guard<std::mutex> request_lock(state.request_mutex);
  Record record = {};
  record.kind = RecordKind::kFence;
  record.sync.request = state.next_request++;
  Emit(record);
  Await(state, record.sync.request);
}

uint32_t DefineOnce(Table table, std::string_view payload) {
  State& state = Get();
  const std::lock_guard<std::mutex> lock(state.ring_mutex);
  return DefineLocked(state, table, payload);
}

bool ThreadIssuesOps(bool or_will) {
  return thread_ordinal != channel::kWatchingThread ||
         (or_will && Get().next_ordinal == 0 && Get().voice.load() != Voice::kSilent &&
          gettid() == Get().process && getppid() == Get().header->worker_process);
}

void SetThreadContext(uint32_t context) {
  thread_context = context;
}

uint32_t ThreadContext() {
  return thread_context;
}

void SeePhase(channel::RecordFlag flag, bool begin) {
  int& open = thread_open[flag];
  open += begin ? 1 : -1;
  thread_phase = static_cast<uint8_t>(open > 0 ? thread_phase | flag : thread_phase & ~flag);
}

void SetThreadInGraph(bool in_graph) {
  thread_in_graph = in_graph;
}

}  // namespace prism::shim

extern "C" {

// Of a program that exits without exit handlers, too (os._exit, a failed fork child).
[[noreturn]] void _exit(int code) {
  prism::shim::SendExit(code);
  syscall(SYS_exit_group, code);
  __builtin_unreachable();
}

[[noreturn]] void _Exit(int code) {
  _exit(code);
}
}
