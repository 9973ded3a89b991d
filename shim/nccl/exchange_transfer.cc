// Sends and receives of the exchange. A message is a header and, if any of it was ever written,
// pieces: each a small head and its bytes. Units (a header, a piece) enter and leave the mailbox
// whole, so every transfer is a small state machine that either advances by a unit or has to wait;
// all transfers of a call advance in turn, and no order of sends and receives can deadlock.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "graph/base/mix.h"
#include "shim/nccl/exchange.h"

namespace prism::shim {

namespace {

constexpr size_t kPieceBytes = 64U << 10U;

// Precedes a message (bytes of the whole) and each piece (bytes of the piece).
struct UnitHead {
  uint64_t bytes;
  uint64_t valid;  // some of it was ever written; if not, no bytes follow
};

static_assert(sizeof(UnitHead) + kPieceBytes < kMailboxBytes);

uint64_t MailboxKey(uint64_t identity, int32_t sender, int32_t receiver) {
  const uint64_t pair = (static_cast<uint64_t>(static_cast<uint32_t>(sender)) << 32U) |
                        static_cast<uint32_t>(receiver);
  return MixBits(identity ^ MixBits(pair + 1));
}

// Copies to the place in the ring that `position` refers to, in at most two runs.
void CopyIn(std::byte* ring, uint32_t position, const void* data, size_t bytes) {
  const size_t place = position % kMailboxBytes;
  const size_t first = std::min(bytes, kMailboxBytes - place);
  std::memcpy(ring + place, data, first);
  std::memcpy(ring, static_cast<const std::byte*>(data) + first, bytes - first);
}

void CopyOut(const std::byte* ring, uint32_t position, void* out, size_t bytes) {
  const size_t place = position % kMailboxBytes;
  const size_t first = std::min(bytes, kMailboxBytes - place);
  std::memcpy(out, ring + place, first);
  std::memcpy(static_cast<std::byte*>(out) + first, ring, bytes - first);
}

// One send or receive in progress.
class Machine {
 public:
  Machine(const ExchangeTransfer& transfer, Memory* memory)
      : transfer_(transfer), memory_(memory), bytes_(transfer.call.bytes()) {}

  void Attach(Mailbox* mailbox, std::byte* ring) {
    mailbox_ = mailbox;
    ring_ = ring;
  }

  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] bool is_send() const { return transfer_.send != nullptr; }
  [[nodiscard]] const ExchangeCall& call() const { return transfer_.call; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  // What the sender announced, if it is not what the receiver expected; 0 as long as they match.
  [[nodiscard]] bool mismatch() const { return mismatch_; }
  [[nodiscard]] uint64_t announced_bytes() const { return announced_bytes_; }

  [[nodiscard]] bool SharesOrderWith(const Machine& other) const {
    return mailbox_ == other.mailbox_ && is_send() == other.is_send();
  }

  // Transfers as many units as there is room or data for. True: at least one moved.
  bool Advance(std::byte* piece) {
    bool moved = false;
    while (!done_ && !mismatch_ && (is_send() ? SendUnit(piece) : ReceiveUnit(piece))) {
      moved = true;
    }
    return moved;
  }

 private:
  bool SendUnit(std::byte* piece) {
    const size_t size = started_ ? std::min(bytes_ - offset_, kPieceBytes) : 0;
    const uint32_t head = mailbox_->head.load();
    const size_t free = kMailboxBytes - (head - mailbox_->tail.load());
    if (free < sizeof(UnitHead) + size) {
      return false;
    }
    UnitHead unit = {bytes_, memory_->AnyValid(transfer_.send, bytes_) ? 1U : 0U};
    if (started_) {
      const auto* source = static_cast<const std::byte*>(transfer_.send) + offset_;
      unit = {size, memory_->Read(source, size, piece) ? 1U : 0U};
    }
    CopyIn(ring_, head, &unit, sizeof(unit));
    size_t moved = sizeof(unit);
    if (started_ && unit.valid != 0) {
      CopyIn(ring_, head + static_cast<uint32_t>(moved), piece, size);
      moved += size;
    }
    offset_ += size;
    done_ = started_ ? offset_ == bytes_ : unit.valid == 0;
    started_ = true;
    mailbox_->head.store(head + static_cast<uint32_t>(moved));
    return true;
  }

  bool ReceiveUnit(std::byte* piece) {
    const uint32_t tail = mailbox_->tail.load();
    if (mailbox_->head.load() == tail) {
      return false;
    }
    UnitHead unit = {};
    CopyOut(ring_, tail, &unit, sizeof(unit));
    size_t moved = sizeof(unit);
    if (!started_) {
      announced_bytes_ = unit.bytes;
      mismatch_ = unit.bytes != bytes_;
      if (!mismatch_ && unit.valid == 0) {
        memory_->Invalidate(transfer_.recv, bytes_);
        done_ = true;
      }
    } else {
      const auto size = static_cast<size_t>(unit.bytes);
      std::byte* target = static_cast<std::byte*>(transfer_.recv) + offset_;
      if (unit.valid != 0) {
        CopyOut(ring_, tail + static_cast<uint32_t>(moved), piece, size);
        memory_->Write(target, size, piece);
        moved += size;
      } else {
        memory_->Invalidate(target, size);
      }
      offset_ += size;
      done_ = offset_ == bytes_;
    }
    started_ = true;
    mailbox_->tail.store(tail + static_cast<uint32_t>(moved));
    return true;
  }

  const ExchangeTransfer& transfer_;
  Memory* memory_;
  size_t bytes_;
  Mailbox* mailbox_ = nullptr;
  std::byte* ring_ = nullptr;
  size_t offset_ = 0;
  uint64_t announced_bytes_ = 0;
  bool started_ = false;  // the header of the message has passed
  bool done_ = false;
  bool mismatch_ = false;
};

ExchangeStatus Fail(ExchangeArena* arena,
                    ExchangeCode code,
                    const Machine& machine,
                    const char* detail) {
  const ExchangeCall& call = machine.call();
  ExchangeStatus status;
  status.code = code;
  std::snprintf(status.message, sizeof(status.message),
                "rank %d of %d in communicator %016llx, %s of %zu bytes %s rank %d: %.180s",
                call.group.rank, call.group.size,
                static_cast<unsigned long long>(call.group.identity),
                machine.is_send() ? "send" : "recv", machine.bytes(),
                machine.is_send() ? "to" : "from", call.root, detail);
  if (arena != nullptr && code != ExchangeCode::kAborted) {
    arena->Abort(status.message);
  }
  return status;
}

// Advances every machine that is not blocked by an older one of the same order. True: something
// moved.
bool AdvanceAll(std::vector<Machine>* machines, std::byte* piece) {
  bool moved = false;
  for (size_t i = 0; i < machines->size(); ++i) {
    Machine& machine = (*machines)[i];
    const bool held_up = std::any_of(
        machines->begin(), machines->begin() + static_cast<std::ptrdiff_t>(i),
        [&](const Machine& older) { return !older.done() && older.SharesOrderWith(machine); });
    if (!machine.done() && !held_up) {
      moved = machine.Advance(piece) || moved;
    }
  }
  return moved;
}

ExchangeStatus RunAll(ExchangeArena* arena, std::vector<Machine>* machines, Patience patience) {
  const auto piece = std::make_unique_for_overwrite<std::byte[]>(kPieceBytes);
  ShortWait wait(arena, patience);
  int64_t since = MachineSeconds();
  while (true) {
    const uint32_t seen = arena->activity()->value.load();
    const bool moved = AdvanceAll(machines, piece.get());
    if (moved) {
      arena->activity()->Add(1);
      since = MachineSeconds();
      wait.Move();
    }
    const Machine* waiting = nullptr;
    for (const Machine& machine : *machines) {
      if (machine.mismatch()) {
        char detail[96];
        std::snprintf(detail, sizeof(detail), "the other side sends %llu bytes",
                      static_cast<unsigned long long>(machine.announced_bytes()));
        return Fail(arena, ExchangeCode::kMismatch, machine, detail);
      }
      if (!machine.done() && waiting == nullptr) {
        waiting = &machine;
      }
    }
    if (waiting == nullptr) {
      return {};
    }
    if (arena->aborted()) {
      return Fail(arena, ExchangeCode::kAborted, *waiting, arena->AbortedStatus().message);
    }
    if (MachineSeconds() - since >= arena->stall_seconds()) {
      return Fail(arena, ExchangeCode::kStalled, *waiting, "no sign of the other side");
    }
    if (wait.IsOver()) {
      ExchangeStatus late;
      late.code = ExchangeCode::kLate;
      return late;
    }
    if (!moved) {
      arena->WaitActivity(seen, patience);
    }
  }
}

// Whether a transfer is from a rank to itself.
bool IsToSelf(const ExchangeTransfer& transfer) {
  return transfer.call.root == transfer.call.group.rank;
}

// The receive that matches a send to oneself: among such sends and receives of one communicator the
// one at the same place. nullptr: not among these transfers.
const ExchangeTransfer* OtherHalf(std::span<const ExchangeTransfer> transfers,
                                  const ExchangeTransfer& half) {
  const auto matches = [&half](const ExchangeTransfer& other, bool is_send) {
    return IsToSelf(other) && other.call.group.identity == half.call.group.identity &&
           (other.send != nullptr) == is_send;
  };
  const bool is_send = half.send != nullptr;
  auto before = std::count_if(transfers.data(), &half,
                              [&](const auto& other) { return matches(other, is_send); });
  for (const ExchangeTransfer& other : transfers) {
    if (matches(other, !is_send) && before-- == 0) {
      return &other;
    }
  }
  return nullptr;
}

}  // namespace

struct TransferRun::Machines {
  std::vector<Machine> all;
};

TransferRun::TransferRun(ExchangeArena* arena,
                         Memory* memory,
                         std::vector<ExchangeTransfer> transfers)
    : arena_(arena), memory_(memory), transfers_(std::move(transfers)) {
}

TransferRun::~TransferRun() = default;

ExchangeStatus TransferRun::Begin() {
  machines_ = std::make_unique<Machines>();
  for (const ExchangeTransfer& transfer : transfers_) {
    const ExchangeGroup& group = transfer.call.group;
    const int32_t peer = transfer.call.root;
    Machine machine(transfer, memory_);
    if (machine.bytes() == 0) {
      continue;
    }
    const ExchangeTransfer* const other =
        IsToSelf(transfer) ? OtherHalf(transfers_, transfer) : nullptr;
    if (other != nullptr && Machine(*other, memory_).bytes() == machine.bytes()) {
      if (!machine.is_send()) {
        Exchange(arena_, memory_).Copy(transfer.recv, other->send, machine.bytes());
      }
      continue;
    }
    if (arena_ == nullptr) {
      return Fail(nullptr, ExchangeCode::kNoArena, machine, "members share no memory");
    }
    Mailbox* mailbox =
        arena_->FindMailbox(machine.is_send() ? MailboxKey(group.identity, group.rank, peer)
                                              : MailboxKey(group.identity, peer, group.rank));
    if (mailbox == nullptr) {
      return Fail(arena_, ExchangeCode::kArenaFull, machine, "no room for a mailbox");
    }
    machine.Attach(mailbox, arena_->Bytes(*mailbox));
    machines_->all.push_back(machine);
  }
  return {};
}

ExchangeStatus TransferRun::Run(Patience patience) {
  if (machines_ == nullptr) {
    if (const ExchangeStatus begun = Begin(); !begun.ok()) {
      return begun;
    }
  }
  return machines_->all.empty() ? ExchangeStatus{} : RunAll(arena_, &machines_->all, patience);
}

ExchangeStatus Exchange::Transfers(std::span<const ExchangeTransfer> transfers) {
  return TransferRun(arena_, memory_, {transfers.begin(), transfers.end()}).Run(Patience::kLong);
}

}  // namespace prism::shim
