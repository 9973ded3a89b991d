#include "shim/nccl/exchange.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "shim/nccl/exchange_rounds.h"

namespace prism::shim {

namespace {

using internal::Rounds;

const std::byte* At(const void* base, size_t offset) {
  return base == nullptr ? nullptr : static_cast<const std::byte*>(base) + offset;
}

std::byte* At(void* base, size_t offset) {
  return base == nullptr ? nullptr : static_cast<std::byte*>(base) + offset;
}

// Runs a round without data, so that even a call that transfers nothing is compared with the
// others.
ExchangeStatus Meet(Rounds* rounds) {
  ExchangeStatus status = rounds->Deposit(nullptr, 0);
  if (status.ok()) {
    rounds->Release();
  }
  return status;
}

// Runs rounds over `bytes`: deposits source chunk by chunk and passes every completed round to
// `consume(offset, chunk_bytes)`. Ends after one round, `nothing()`, when no member has anything.
template <typename Consume, typename Nothing>
ExchangeStatus RunRounds(Rounds* rounds,
                         const void* source,
                         size_t bytes,
                         const Consume& consume,
                         const Nothing& nothing) {
  size_t offset = 0;
  do {
    const size_t chunk = std::min(bytes - offset, kChunkBytes);
    ExchangeStatus status = rounds->Deposit(At(source, offset), source == nullptr ? 0 : chunk);
    if (!status.ok()) {
      return status;
    }
    if (rounds->NothingValid()) {
      rounds->Release();
      nothing();
      return {};
    }
    consume(offset, chunk);
    rounds->Release();
    offset += chunk;
  } while (offset < bytes);
  return {};
}

}  // namespace

bool Memory::Read(const void* source, size_t bytes, void* out) {
  std::memcpy(out, source, bytes);
  return true;
}

void Memory::Write(void* target, size_t bytes, const void* data) {
  std::memcpy(target, data, bytes);
}

void Memory::Invalidate(void* target, size_t bytes) {
  if (bytes != 0) {
    std::memset(target, 0, bytes);
  }
}

void Memory::Reduce(const ReductionCall& call, void* target, void* scratch) {
  CombineContributions(call.input, call.element, call.reduction, call.count, scratch);
  Write(target, call.count * ElementBytes(call.element), scratch);
}

bool Memory::AnyValid(const void* source, size_t bytes) {
  return source != nullptr && bytes != 0;
}

bool IsPresent(const ExchangeGroup& group, int32_t member) {
  return std::binary_search(group.present.begin(), group.present.end(), member);
}

void WriteZeros(void* target, size_t bytes, Memory* memory) {
  if (bytes > kSmallTransferBytes) {
    memory->Invalidate(target, bytes);
    return;
  }
  const auto zeros = std::make_unique<std::byte[]>(bytes);
  memory->Write(target, bytes, zeros.get());
}

ExchangeStatus Exchange::MeetWithoutRoot(Rounds* rounds, void* target, size_t bytes) {
  ExchangeStatus status = Meet(rounds);
  if (status.ok() && !memory_->AnyValid(target, bytes)) {
    WriteZeros(target, bytes, memory_);
  }
  return status;
}

void Exchange::Copy(void* target, const void* source, size_t bytes) {
  if (target == source) {
    return;
  }
  if (!memory_->AnyValid(source, bytes)) {
    memory_->Invalidate(target, bytes);
    return;
  }
  const auto chunk = std::make_unique_for_overwrite<std::byte[]>(std::min(bytes, kChunkBytes));
  for (size_t offset = 0; offset < bytes; offset += kChunkBytes) {
    const size_t size = std::min(bytes - offset, kChunkBytes);
    if (memory_->Read(At(source, offset), size, chunk.get())) {
      memory_->Write(At(target, offset), size, chunk.get());
    } else {
      memory_->Invalidate(At(target, offset), size);
    }
  }
}

StandIns::StandIns(const ExchangeCall& call) {
  const std::span<const int32_t> present = call.group.present;
  for (size_t i = 0; i < present.size(); ++i) {
    known_.emplace_back(present[i], i);
  }
  if (call.recorded.empty()) {
    known_.resize(1);
  }
  for (size_t i = 0; i < call.recorded.size(); ++i) {
    known_.emplace_back(call.recorded[i].member, present.size() + i);
  }
  std::ranges::sort(known_);
}

size_t StandIns::Of(int32_t member) const {
  const auto above =
      std::ranges::lower_bound(known_, member, {}, &std::pair<int32_t, size_t>::first);
  if (above == known_.begin()) {
    return above->second;
  }
  const auto below = std::prev(above);
  const bool is_below = above == known_.end() || member - below->first <= above->first - member;
  return is_below ? below->second : above->second;
}

void Exchange::FillAbsentSlots(const ExchangeCall& call, std::byte* slots) {
  const ExchangeGroup& group = call.group;
  const size_t bytes = call.bytes();
  const StandIns stand_ins(call);
  for (int32_t rank = 0; rank < group.size; ++rank) {
    std::byte* slot = slots + static_cast<size_t>(rank) * bytes;
    const bool keep =
        memory_->KeepsLargeSlots() && bytes > kSmallSlotBytes && memory_->AnyValid(slot, bytes);
    if (IsPresent(group, rank) || keep) {
      continue;
    }
    const size_t index = stand_ins.Of(rank);
    if (index < group.present.size()) {
      Copy(slot, slots + static_cast<size_t>(group.present[index]) * bytes, bytes);
    } else {
      memory_->Write(slot, bytes, call.recorded[index - group.present.size()].bytes.data());
    }
  }
}

ExchangeStatus Exchange::Announce(ExchangeOperation operation,
                                  const ExchangeCall& call,
                                  uint32_t* number) {
  Rounds rounds(arena_, memory_, call);
  rounds.Describe(operation, call.bytes(), false);
  return rounds.Announce(number);
}

ExchangeStatus Exchange::WaitForOthers(ExchangeOperation operation,
                                       const ExchangeCall& call,
                                       uint32_t number,
                                       Patience patience) {
  Rounds rounds(arena_, memory_, call);
  rounds.Describe(operation, call.bytes(), false);
  return rounds.WaitForOthers(number, patience);
}

ExchangeStatus Exchange::Collective(ExchangeOperation operation,
                                    const ExchangeCall& call,
                                    const void* send,
                                    void* recv) {
  switch (operation) {
    case ExchangeOperation::kAllReduce:
    case ExchangeOperation::kReduce:
      return Reduce(operation, call, send, recv);
    case ExchangeOperation::kAllGather:
    case ExchangeOperation::kGather:
      return Gather(operation, call, send, recv);
    case ExchangeOperation::kReduceScatter:
      return ReduceScatter(call, send, recv);
    case ExchangeOperation::kBroadcast:
      return Broadcast(call, send, recv);
    case ExchangeOperation::kAllToAll:
      return AllToAll(call, send, recv);
    case ExchangeOperation::kScatter:
      return Scatter(call, send, recv);
    case ExchangeOperation::kBarrier:
    case ExchangeOperation::kSend:
    case ExchangeOperation::kRecv:
      break;
  }
  return Barrier(call);
}

ExchangeStatus Exchange::Barrier(const ExchangeCall& call) {
  Rounds rounds(arena_, memory_, call);
  rounds.Describe(ExchangeOperation::kBarrier, 0, false);
  return Meet(&rounds);
}

ExchangeStatus Exchange::Reduce(ExchangeOperation operation,
                                const ExchangeCall& call,
                                const void* send,
                                void* recv) {
  const size_t bytes = call.bytes();
  const bool receives = operation == ExchangeOperation::kAllReduce || call.group.rank == call.root;
  Rounds rounds(arena_, memory_, call);
  rounds.Describe(operation, bytes, memory_->AnyValid(send, bytes));
  if (operation == ExchangeOperation::kReduce && !IsPresent(call.group, call.root)) {
    return Meet(&rounds);
  }
  return RunRounds(
      &rounds, send, bytes,
      [&](size_t offset, size_t chunk) {
        if (receives) {
          rounds.ReduceTo(At(recv, offset), chunk);
        }
      },
      [&] {
        if (receives) {
          memory_->Invalidate(recv, bytes);
        }
      });
}

ExchangeStatus Exchange::Gather(ExchangeOperation operation,
                                const ExchangeCall& call,
                                const void* send,
                                void* recv) {
  const size_t bytes = call.bytes();
  const bool receives = operation == ExchangeOperation::kAllGather || call.group.rank == call.root;
  Rounds rounds(arena_, memory_, call);
  rounds.Describe(operation, bytes, memory_->AnyValid(send, bytes));
  if (operation == ExchangeOperation::kGather && !IsPresent(call.group, call.root)) {
    return Meet(&rounds);
  }
  const auto slot = [&](size_t index) {
    return At(recv, static_cast<size_t>(call.group.present[index]) * bytes);
  };
  ExchangeStatus status = RunRounds(
      &rounds, send, bytes,
      [&](size_t offset, size_t chunk) {
        for (size_t i = 0; receives && i < rounds.present_count(); ++i) {
          rounds.CopyTo(slot(i) + offset, i, chunk);
        }
      },
      [&] {
        for (size_t i = 0; receives && i < rounds.present_count(); ++i) {
          memory_->Invalidate(slot(i), bytes);
        }
      });
  if (status.ok() && receives) {
    FillAbsentSlots(call, static_cast<std::byte*>(recv));
  }
  return status;
}

// For every member in turn: its block of `source` to `recv` there, by `take(target, chunk_bytes)`.
template <typename Take>
ExchangeStatus Exchange::RunBlocks(
    Rounds* rounds, const ExchangeCall& call, const void* source, void* recv, const Take& take) {
  const size_t bytes = call.bytes();
  for (const int32_t owner : call.group.present) {
    bool nothing = false;
    const ExchangeStatus status = RunRounds(
        rounds, At(source, static_cast<size_t>(owner) * bytes), bytes,
        [&](size_t offset, size_t chunk) {
          if (owner == call.group.rank) {
            take(At(recv, offset), chunk);
          }
        },
        [&] { nothing = true; });
    if (!status.ok()) {
      return status;
    }
    if (nothing) {
      memory_->Invalidate(recv, bytes);
      return {};
    }
  }
  return {};
}

ExchangeStatus Exchange::ReduceScatter(const ExchangeCall& call, const void* send, void* recv) {
  const size_t all = call.bytes() * static_cast<size_t>(call.group.size);
  Rounds rounds(arena_, memory_, call);
  rounds.Describe(ExchangeOperation::kReduceScatter, call.bytes(), memory_->AnyValid(send, all));
  return RunBlocks(&rounds, call, send, recv,
                   [&](void* target, size_t chunk) { rounds.ReduceTo(target, chunk); });
}

ExchangeStatus Exchange::Broadcast(const ExchangeCall& call, const void* send, void* recv) {
  const size_t bytes = call.bytes();
  const bool is_root = call.group.rank == call.root;
  Rounds rounds(arena_, memory_, call);
  rounds.Describe(ExchangeOperation::kBroadcast, bytes, is_root && memory_->AnyValid(send, bytes));
  if (!IsPresent(call.group, call.root)) {
    return MeetWithoutRoot(&rounds, recv, bytes);
  }
  const auto root = static_cast<size_t>(rounds.IndexOf(call.root));
  ExchangeStatus status;
  if (rounds.present_count() > 1) {
    status = RunRounds(
        &rounds, is_root ? send : nullptr, bytes,
        [&](size_t offset, size_t chunk) {
          if (!is_root) {
            rounds.CopyTo(At(recv, offset), root, chunk);
          }
        },
        [&] {
          if (!is_root) {
            memory_->Invalidate(recv, bytes);
          }
        });
  }
  if (status.ok() && is_root) {
    Copy(recv, send, bytes);
  }
  return status;
}

ExchangeStatus Exchange::AllToAll(const ExchangeCall& call, const void* send, void* recv) {
  const size_t bytes = call.bytes();
  const size_t all = bytes * static_cast<size_t>(call.group.size);
  const auto present = call.group.present;
  Rounds rounds(arena_, memory_, call);
  rounds.Describe(ExchangeOperation::kAllToAll, bytes, memory_->AnyValid(send, all));
  const auto own = static_cast<size_t>(rounds.IndexOf(call.group.rank));
  const size_t count = present.size();
  const auto block = [&](size_t index) { return static_cast<size_t>(present[index]) * bytes; };
  // In step s every member sends to the one s positions after it and receives from the one s
  // before.
  for (size_t step = 0; step < count; ++step) {
    const size_t source = (own + count - step) % count;
    bool nothing = false;
    ExchangeStatus status = RunRounds(
        &rounds, At(send, block((own + step) % count)), bytes,
        [&](size_t offset, size_t chunk) {
          rounds.CopyTo(At(recv, block(source) + offset), source, chunk);
        },
        [&] { nothing = true; });
    if (!status.ok()) {
      return status;
    }
    if (nothing) {
      memory_->Invalidate(recv, all);
      return {};
    }
  }
  FillAbsentSlots(call, static_cast<std::byte*>(recv));
  return {};
}

ExchangeStatus Exchange::Scatter(const ExchangeCall& call, const void* send, void* recv) {
  const size_t bytes = call.bytes();
  const size_t all = bytes * static_cast<size_t>(call.group.size);
  const bool is_root = call.group.rank == call.root;
  Rounds rounds(arena_, memory_, call);
  rounds.Describe(ExchangeOperation::kScatter, bytes, is_root && memory_->AnyValid(send, all));
  if (!IsPresent(call.group, call.root)) {
    return MeetWithoutRoot(&rounds, recv, bytes);
  }
  const auto root = static_cast<size_t>(rounds.IndexOf(call.root));
  return RunBlocks(&rounds, call, is_root ? send : nullptr, recv,
                   [&](void* target, size_t chunk) { rounds.CopyTo(target, root, chunk); });
}

}  // namespace prism::shim
