// Members share no lock, only two counters that grow: `arrived` and `left` increase by one per
// member and round. A member overwrites its chunk only when `left` shows that all have read the
// previous round, and reads the others' only when `arrived` shows that all have written this one.
// Both are compared with the round times the number of members, modulo 2^32, so nothing has to be
// reset between rounds or collectives.
#include "shim/nccl/exchange_rounds.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace prism::shim::internal {

Rounds::Rounds(ExchangeArena* arena, Memory* memory, const ExchangeCall& call)
    : arena_(arena), memory_(memory), call_(call) {
  own_index_ = static_cast<size_t>(std::max(0, IndexOf(call.group.rank)));
}

void Rounds::Describe(ExchangeOperation operation, uint64_t bytes, bool any_valid) {
  post_.sequence = call_.sequence;
  post_.bytes = bytes;
  post_.rank = call_.group.rank;
  post_.root = call_.root;
  post_.operation = static_cast<uint8_t>(operation);
  post_.element = static_cast<uint8_t>(call_.element);
  post_.reduce = static_cast<uint8_t>(call_.reduction.kind);
  post_.any_valid = any_valid ? 1 : 0;
}

int32_t Rounds::IndexOf(int32_t rank) const {
  const auto present = call_.group.present;
  const auto found = std::lower_bound(present.begin(), present.end(), rank);
  return found != present.end() && *found == rank ? static_cast<int32_t>(found - present.begin())
                                                  : -1;
}

const Post& Rounds::PostOf(size_t index) const {
  return members_ == nullptr ? post_ : members_[index].post;
}

// Finds what the members share.
ExchangeStatus Rounds::Attach() {
  if (members_ != nullptr) {
    return {};
  }
  if (arena_ == nullptr) {
    return Fail(ExchangeCode::kNoArena, "several members are present but share no memory");
  }
  staging_ = arena_->FindStagingArea(call_.group.identity, static_cast<uint32_t>(present_count()));
  if (staging_ == nullptr) {
    return Fail(ExchangeCode::kArenaFull, "no room, or members differ about who is present");
  }
  members_ = arena_->Members(*staging_);
  return {};
}

ExchangeStatus Rounds::Announce(uint32_t* number) {
  if (present_count() <= 1) {
    return {};
  }
  ExchangeStatus status = Attach();
  if (status.ok()) {
    *number = arena_->Announce(staging_, own_index_);
  }
  return status;
}

ExchangeStatus Rounds::WaitForOthers(uint32_t number, Patience patience) {
  if (present_count() <= 1) {
    return {};
  }
  ExchangeStatus status = Attach();
  if (status.ok()) {
    status = arena_->WaitForCall(staging_, number, patience, call_.given_up);
  }
  return status.ok() || status.code == ExchangeCode::kLate ? status
                                                           : Fail(status.code, status.message);
}

ExchangeStatus Rounds::Deposit(const void* source, size_t bytes) {
  const size_t count = present_count();
  if (count <= 1) {
    if (bytes != 0 && post_.any_valid != 0 && own_chunk_ == nullptr) {
      own_chunk_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    }
    const bool valid = own_chunk_ != nullptr && memory_->Read(source, bytes, own_chunk_.get());
    post_.chunk_bytes = valid ? static_cast<uint32_t>(bytes) : 0;
    return {};
  }
  if (const ExchangeStatus attached = Attach(); !attached.ok()) {
    return attached;
  }
  MemberArea& own = members_[own_index_];
  const ExchangeStatus free =
      arena_->WaitUntil(&staging_->left, own.round * staging_->member_count, call_.given_up);
  if (!free.ok()) {
    return Fail(free.code, free.message);
  }
  const bool valid = bytes != 0 && post_.any_valid != 0 && memory_->Read(source, bytes, own.chunk);
  post_.chunk_bytes = valid ? static_cast<uint32_t>(bytes) : 0;
  own.post = post_;
  return ArriveAndWait();
}

ExchangeStatus Rounds::ArriveAndWait() {
  MemberArea& own = members_[own_index_];
  const uint32_t target = ++own.round * staging_->member_count;
  staging_->arrived.AddAndWakeAt(1, target);
  const ExchangeStatus arrived = arena_->WaitUntil(&staging_->arrived, target, call_.given_up);
  if (arrived.ok()) {
    return ComparePosts();
  }
  if (arrived.code == ExchangeCode::kAborted) {
    return Fail(arrived.code, arrived.message);
  }
  char missing[128];
  DescribeMissing(missing, sizeof(missing));
  return Fail(arrived.code, missing);
}

// Names the ranks that have not arrived at this member's round.
void Rounds::DescribeMissing(char* out, size_t size) const {
  const uint32_t round = members_[own_index_].round;
  size_t used = static_cast<size_t>(std::snprintf(out, size, "no sign of rank"));
  for (size_t i = 0; i < present_count() && used + 16 < size; ++i) {
    if (static_cast<int32_t>(members_[i].round - round) < 0) {
      used += static_cast<size_t>(
          std::snprintf(out + used, size - used, " %d", call_.group.present[i]));
    }
  }
  std::snprintf(out + used, size - used, " for %d s", arena_->stall_seconds());
}

void Rounds::Release() {
  if (members_ != nullptr) {
    staging_->left.AddAndWakeAt(1, members_[own_index_].round * staging_->member_count);
  }
}

bool Rounds::NothingValid() const {
  for (size_t i = 0; i < present_count(); ++i) {
    if (PostOf(i).any_valid != 0) {
      return false;
    }
  }
  return true;
}

const std::byte* Rounds::Chunk(size_t index) const {
  if (PostOf(index).chunk_bytes == 0) {
    return nullptr;
  }
  return members_ == nullptr ? own_chunk_.get() : members_[index].chunk;
}

void Rounds::ReduceTo(void* target, size_t bytes) {
  std::vector<const std::byte*> chunks(present_count());
  bool any = false;
  for (size_t i = 0; i < chunks.size(); ++i) {
    chunks[i] = Chunk(i);
    any = any || chunks[i] != nullptr;
  }
  if (!any) {
    memory_->Invalidate(target, bytes);
    return;
  }
  for (const std::byte*& chunk : chunks) {
    if (chunk == nullptr) {
      if (zeros_ == nullptr) {
        zeros_ = std::make_unique<std::byte[]>(std::min(bytes, kChunkBytes));
      }
      chunk = zeros_.get();
    }
  }
  if (scratch_ == nullptr) {
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  }
  auto absent = call_.group.size - static_cast<int32_t>(chunks.size());
  if (!call_.recorded.empty()) {
    chunks = WithRecorded(chunks);
    absent = 0;
  }
  memory_->Reduce(
      {{chunks, absent}, call_.element, call_.reduction, bytes / ElementBytes(call_.element)},
      target, scratch_.get());
}

// A chunk for every member, by those who stand for them.
std::vector<const std::byte*> Rounds::WithRecorded(
    const std::vector<const std::byte*>& present) const {
  const StandIns stand_ins(call_);
  std::vector<const std::byte*> all;
  for (int32_t member = 0; member < call_.group.size; ++member) {
    const auto own = std::ranges::lower_bound(call_.group.present, member);
    const size_t index = own != call_.group.present.end() && *own == member
                             ? static_cast<size_t>(own - call_.group.present.begin())
                             : stand_ins.Of(member);
    all.push_back(index < present.size() ? present[index]
                                         : call_.recorded[index - present.size()].bytes.data());
  }
  return all;
}

void Rounds::CopyTo(void* target, size_t index, size_t bytes) {
  const std::byte* chunk = Chunk(index);
  if (chunk == nullptr) {
    memory_->Invalidate(target, bytes);
  } else {
    memory_->Write(target, bytes, chunk);
  }
}

ExchangeStatus Rounds::ComparePosts() {
  for (size_t i = 0; i < present_count(); ++i) {
    const Post& other = members_[i].post;
    if (other.operation == post_.operation && other.bytes == post_.bytes &&
        other.element == post_.element && other.reduce == post_.reduce &&
        other.root == post_.root && other.sequence == post_.sequence) {
      continue;
    }
    char detail[192];
    std::snprintf(detail, sizeof(detail),
                  "rank %d calls %s of %llu bytes (%s, %s, root %d) as number %llu", other.rank,
                  ExchangeOperationName(static_cast<ExchangeOperation>(other.operation)),
                  static_cast<unsigned long long>(other.bytes),
                  ElementName(static_cast<Element>(other.element)),
                  ReduceKindName(static_cast<ReduceKind>(other.reduce)), other.root,
                  static_cast<unsigned long long>(other.sequence));
    return Fail(ExchangeCode::kMismatch, detail);
  }
  return {};
}

// "rank 3 of 8 in communicator 0123456789abcdef, all_reduce of 4096 bytes (…) as number 7: detail".
ExchangeStatus Rounds::Fail(ExchangeCode code, const char* detail) {
  ExchangeStatus status;
  status.code = code;
  std::snprintf(status.message, sizeof(status.message),
                "rank %d of %d in communicator %016llx, %s of %llu bytes (%s, %s, root %d) as "
                "number %llu: %s",
                call_.group.rank, call_.group.size,
                static_cast<unsigned long long>(call_.group.identity),
                ExchangeOperationName(static_cast<ExchangeOperation>(post_.operation)),
                static_cast<unsigned long long>(post_.bytes), ElementName(call_.element),
                ReduceKindName(call_.reduction.kind), post_.root,
                static_cast<unsigned long long>(post_.sequence), detail);
  if (arena_ != nullptr && code != ExchangeCode::kAborted) {
    arena_->Abort(status.message);
  }
  return status;
}

}  // namespace prism::shim::internal
