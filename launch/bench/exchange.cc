// `prism bench exchange`: what it costs two sandbox ranks to send each other bytes, on one host and
// on two. The ranks are threads that use a mailbox of the arena as the program's do; between hosts
// the first process of each carries what they write, as the first worker of a run does.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launch/bench/bench.h"
#include "launch/emulate/run/host_meeting.h"
#include "launch/emulate/run/hosts.h"
#include "launch/emulate/run/messages.h"
#include "launch/process/host_watch.h"
#include "launch/process/interrupt.h"
#include "launch/process/mpi_session.h"
#include "launch/process/wire.h"
#include "shim/nccl/exchange_arena.h"

namespace prism::launch {
namespace {

using shim::ExchangeArena;
using shim::Mailbox;

constexpr int64_t kCarrierNapNs = 50'000;  // as EmulationWorker naps while its programs run
constexpr size_t kSmallBytes = 8;
constexpr size_t kArenaBytes = size_t{64} << 20;
constexpr size_t kPartBytes = size_t{1} << 20;  // what a rank sends and takes at a time

struct Load {
  int round_trips;
  int parts;
};
constexpr Load kWithin = {20'000, 1024};
constexpr Load kBetween = {1000, 128};

// One of two ranks.
class Peer {
 public:
  Peer(ExchangeArena* arena, bool first)
      : arena_(arena),
        out_(arena->FindMailbox(first ? 1 : 2)),
        in_(arena->FindMailbox(first ? 2 : 1)) {}

  bool Send(const std::byte* bytes, size_t size) {
    return Move(size, [&](size_t done, size_t most) {
      const uint32_t head = out_->head.load();
      const size_t part =
          std::min<size_t>({most, shim::kMailboxBytes - (head - out_->tail.load()), ToEnd(head)});
      std::memcpy(arena_->Bytes(*out_) + head % shim::kMailboxBytes, bytes + done, part);
      out_->head.store(head + static_cast<uint32_t>(part));
      return part;
    });
  }

  bool Take(std::byte* bytes, size_t size) {
    return Move(size, [&](size_t done, size_t most) {
      const uint32_t tail = in_->tail.load();
      const size_t part = std::min<size_t>({most, in_->head.load() - tail, ToEnd(tail)});
      std::memcpy(bytes + done, arena_->Bytes(*in_) + tail % shim::kMailboxBytes, part);
      in_->tail.store(tail + static_cast<uint32_t>(part));
      return part;
    });
  }

 private:
  // Until the end of the ring.
  static size_t ToEnd(uint32_t place) { return shim::kMailboxBytes - place % shim::kMailboxBytes; }

  template <typename Step>
  bool Move(size_t size, const Step& step) {
    for (size_t done = 0; done < size;) {
      const uint32_t seen = arena_->activity()->value.load();
      const size_t part = step(done, size - done);
      done += part;
      if (part > 0) {
        arena_->activity()->Add(1);
      } else if (arena_->aborted()) {
        return false;
      } else {
        arena_->WaitActivity(seen);
      }
    }
    return true;
  }

  ExchangeArena* arena_;
  Mailbox* out_;
  Mailbox* in_;
};

// What the second rank does; false: the other is gone.
bool Answer(ExchangeArena* arena, const Load& load) {
  Peer peer(arena, /*first=*/false);
  std::vector<std::byte> bytes(kPartBytes);
  bool good = true;
  for (int i = 0; good && i < load.round_trips; ++i) {
    good = peer.Take(bytes.data(), kSmallBytes) && peer.Send(bytes.data(), kSmallBytes);
  }
  for (int i = 0; good && i < load.parts; ++i) {
    good = peer.Take(bytes.data(), kPartBytes);
  }
  return good && peer.Send(bytes.data(), kSmallBytes);
}

// What the first one does, and measures; null: the other is gone.
std::optional<BenchCase> Ask(ExchangeArena* arena, const Load& load, const std::string& name) {
  Peer peer(arena, /*first=*/true);
  std::vector<std::byte> bytes(kPartBytes);
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto begin = now();
  bool good = true;
  for (int i = 0; good && i < load.round_trips; ++i) {
    good = peer.Send(bytes.data(), kSmallBytes) && peer.Take(bytes.data(), kSmallBytes);
  }
  const auto middle = now();
  for (int i = 0; good && i < load.parts; ++i) {
    good = peer.Send(bytes.data(), kPartBytes);
  }
  if (!good || !peer.Take(bytes.data(), kSmallBytes)) {
    return std::nullopt;
  }
  const std::chrono::duration<double, std::micro> trips = middle - begin;
  const std::chrono::duration<double> stream = now() - middle;
  const double total = static_cast<double>(load.parts) * kPartBytes;
  return BenchCase{"exchange",
                   name,
                   {{"us_per_message", trips.count() / (2 * load.round_trips), "us"},
                    {"bytes_per_s", total / stream.count(), "B/s"},
                    {"messages", 2.0 * load.round_trips, "messages of 8 B"},
                    {"bytes", total, "B"}}};
}

Result<BenchCase> BenchWithin() {
  ExchangeArena arena = ExchangeArena::Create(kArenaBytes);
  if (!arena.valid()) {
    return EnvironmentLacks("cannot create shared memory for data between sandbox ranks");
  }
  std::thread second([&] { Answer(&arena, kWithin); });
  std::optional<BenchCase> measured =
      Ask(&arena, kWithin, fmt::format("within a host, {}", ThisHost().name));
  second.join();
  return *std::move(measured);
}

// Carries what the ranks of this host write until its own rank is done (process 0) or the other
// process says so. Only the first word of a message is looked at.
Status Carry(MpiSession& session, HostMeeting& meeting, const std::atomic<bool>* done) {
  while (done == nullptr || !*done) {
    PRISM_RETURN_IF_ERROR(InterruptStatus());
    bool busy = false;
    while (const std::optional<PeerMessage> message = session.TryReceive()) {
      WireReader in(message->bytes);
      const auto kind = in.Get<MessageKind>();
      if (kind == MessageKind::kStop) {
        return OkStatus();
      }
      meeting.Take(kind, &in);
      busy = true;
    }
    if (!meeting.Step() && !busy) {
      const timespec nap = {.tv_sec = 0, .tv_nsec = kCarrierNapNs};
      nanosleep(&nap, nullptr);
    }
  }
  return OkStatus();
}

// Runs a rank of this host beside the carrier.
template <typename Rank>
Status RunBeside(MpiSession& session, const MeetMessage& meet, bool first, const Rank& rank) {
  PRISM_ASSIGN_OR_RETURN(const std::unique_ptr<HostMeeting> meeting,
                         HostMeeting::Open(meet, session));
  ExchangeArena arena = ExchangeArena::MapPath(meeting->Describe().exchange.c_str());
  if (!arena.valid()) {
    return EnvironmentLacks("cannot map shared memory for data between sandbox ranks");
  }
  std::atomic<bool> done = false;
  std::thread thread([&] {
    rank(&arena);
    done = true;
  });
  const Status status = Carry(session, *meeting, first ? &done : nullptr);
  if (!status.ok()) {
    arena.Abort(status.message().c_str());
  }
  thread.join();
  return status;
}

// Tells each process whether it is the first of the second host.
Result<std::vector<BenchCase>> AsFirst(MpiSession& session) {
  std::vector<WorkerHost> workers(static_cast<size_t>(session.size()), ThisHost());
  for (int known = 1; known < session.size(); ++known) {
    PRISM_ASSIGN_OR_RETURN(const PeerMessage message, session.Receive());
    WireReader in(message.bytes);
    WorkerHost& host = workers[static_cast<size_t>(message.from)];
    host.name = in.GetText();
    host.identity = in.GetText();
    session.NameHost(std::string(in.GetText()), host.name);
  }
  PRISM_ASSIGN_OR_RETURN(BenchCase within, BenchWithin());
  std::vector<BenchCase> cases = {std::move(within)};
  const Hosts hosts = GroupWorkers(workers);
  MeetMessage meet;
  meet.leaders = {0, hosts.several() ? hosts.leaders[1] : 0};
  for (int worker = 1; worker < session.size(); ++worker) {
    const bool meets = hosts.several() && worker == meet.leaders[1];
    meet.host = 1;
    session.Send(worker, meets ? Encode(meet) : WireWriter().Put(MessageKind::kStop).Take());
  }
  if (!hosts.several()) {
    return cases;
  }
  meet.host = 0;
  const std::string name = fmt::format("between {} and {}", hosts.names[0], hosts.names[1]);
  PRISM_RETURN_IF_ERROR(RunBeside(session, meet, /*first=*/true, [&](ExchangeArena* arena) {
    if (std::optional<BenchCase> between = Ask(arena, kBetween, name)) {
      cases.push_back(*std::move(between));
    }
  }));
  session.Send(meet.leaders[1], WireWriter().Put(MessageKind::kStop).Take());
  return cases;
}

Result<std::vector<BenchCase>> AsOther(MpiSession& session) {
  const WorkerHost host = ThisHost();
  session.Send(
      0,
      WireWriter().PutText(host.name).PutText(host.identity).PutText(AddressesOfThisHost()).Take());
  PRISM_ASSIGN_OR_RETURN(const PeerMessage message, session.Receive());
  WireReader in(message.bytes);
  if (in.Get<MessageKind>() == MessageKind::kMeet) {
    PRISM_RETURN_IF_ERROR(RunBeside(session, GetMeet(&in), /*first=*/false,
                                    [](ExchangeArena* arena) { Answer(arena, kBetween); }));
  }
  return std::vector<BenchCase>();
}

}  // namespace

BenchResult BenchExchange(const BenchOptions& /*options*/) {
  PRISM_ASSIGN_OR_RETURN(MpiSession session, MpiSession::Start());
  return session.rank() == 0 ? AsFirst(session) : AsOther(session);
}

}  // namespace prism::launch
