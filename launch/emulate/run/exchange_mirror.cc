// Counters of the arena grow and wrap around, so differences are exact; those of another host's
// ranks are sent as they stand, and what has been added here is remembered by host, so that a rank
// of this host and the mirror may both add to one.
#include "launch/emulate/run/exchange_mirror.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace prism::launch {
namespace {

using shim::kMailboxBytes;
using shim::MemberArea;

constexpr size_t kLongMessage = 4U << 20U;

// A stretch of a mailbox's ring, which may go around its end.
std::string ReadRing(const std::byte* ring, uint32_t from, uint32_t size) {
  std::string bytes(size, '\0');
  const size_t place = from % kMailboxBytes;
  const size_t first = std::min<size_t>(size, kMailboxBytes - place);
  std::memcpy(bytes.data(), ring + place, first);
  std::memcpy(bytes.data() + first, ring, size - first);
  return bytes;
}

void WriteRing(std::byte* ring, uint32_t from, std::string_view bytes) {
  const size_t place = from % kMailboxBytes;
  const size_t first = std::min<size_t>(bytes.size(), kMailboxBytes - place);
  std::memcpy(ring + place, bytes.data(), first);
  std::memcpy(ring, bytes.data() + first, bytes.size() - first);
}

template <typename Shared>
bool IsInUse(const Shared& entry, bool* complete) {
  if (entry.key.load() == 0) {
    return false;
  }
  *complete = *complete && entry.ready.load() != 0;
  return entry.ready.load() == 1;
}

}  // namespace

ExchangeMirror::ExchangeMirror(shim::ExchangeArena* arena, int hosts, int own, Send send)
    : arena_(arena),
      hosts_(hosts),
      own_(own),
      send_(std::move(send)),
      unsent_(static_cast<size_t>(hosts)) {
}

WireWriter& ExchangeMirror::To(int host, Entry entry) {
  WireWriter& unsent = unsent_[static_cast<size_t>(host)];
  if (unsent.size() > kLongMessage) {
    send_(host, std::exchange(unsent, WireWriter()).Take());
  }
  return unsent.Put(entry);
}

void ExchangeMirror::ToAll(const std::function<void(int host)>& put) {
  for (int host = 0; host < hosts_; ++host) {
    if (host != own_) {
      put(host);
    }
  }
}

bool ExchangeMirror::Flush() {
  bool any = false;
  ToAll([&](int host) {
    WireWriter& unsent = unsent_[static_cast<size_t>(host)];
    if (!unsent.empty()) {
      any = true;
      send_(host, std::exchange(unsent, WireWriter()).Take());
    }
  });
  return any;
}

// Announces new entries, and joins them with what other hosts have announced.
void ExchangeMirror::FindEntries() {
  const uint64_t used = arena_->used();
  if (used == found_until_) {
    return;
  }
  bool complete = true;
  for (shim::StagingArea& shared : arena_->staging_areas()) {
    const uint64_t key = shared.key.load();
    if (!IsInUse(shared, &complete) || areas_.contains(key)) {
      continue;
    }
    Area& area = areas_[key];
    area.shared = &shared;
    area.round.resize(shared.member_count);
    area.calls.resize(shared.member_count);
    area.is_elsewhere.resize(shared.member_count);
    ToAll([&](int host) { To(host, Entry::kHere).Put(key).Put(shared.member_count); });
    for (const auto& [host, members] : areas_elsewhere_[key]) {
      TakeHere(key, members, host);
    }
  }
  for (shim::Mailbox& shared : arena_->mailboxes()) {
    const uint64_t key = shared.key.load();
    if (!IsInUse(shared, &complete) || boxes_.contains(key)) {
      continue;
    }
    const auto elsewhere = boxes_elsewhere_.find(key);
    boxes_[key] = {&shared, 0, 0, elsewhere == boxes_elsewhere_.end() ? -1 : elsewhere->second};
    crosses_ = crosses_ || elsewhere != boxes_elsewhere_.end();
    ToAll([&](int host) { To(host, Entry::kBoxHere).Put(key); });
  }
  found_until_ = complete ? used : found_until_;
}

// The state of one of this host's members; with its deposit, if that is new.
void ExchangeMirror::PutMember(uint64_t key, const Area& area, const Moved& moved, int host) {
  const MemberArea& own = arena_->Members(*area.shared)[moved.member];
  WireWriter& out = To(host, Entry::kMember);
  out.Put(key).Put(moved.member).Put(area.calls[moved.member]).Put(area.round[moved.member]);
  if (moved.deposited) {
    out.Put(own.post);
    out.PutText({reinterpret_cast<const char*>(own.chunk), own.post.chunk_bytes});
  }
}

// A host has the area as well. No round can have ended before, so its state is all there is.
void ExchangeMirror::Meet(uint64_t key, Area* area, int host) {
  StepArea(key, area);  // for the hosts that have it already
  crosses_ = true;
  area->hosts.insert(host);
  const MemberArea* members = arena_->Members(*area->shared);
  for (uint32_t i = 0; i < area->round.size(); ++i) {
    area->round[i] = members[i].round.load();
    area->calls[i] = members[i].calls.load();
    const bool has_moved = area->round[i] != 0 || area->calls[i] != 0;
    if (has_moved && !area->is_elsewhere[i]) {
      PutMember(key, *area, {i, area->round[i] != 0}, host);
    }
  }
}

void ExchangeMirror::StepArea(uint64_t key, Area* area) {
  if (area->hosts.empty()) {
    return;
  }
  const uint32_t arrived = area->shared->arrived.value.load();
  const uint32_t left = area->shared->left.value.load();
  const uint32_t calls = area->shared->calls.value.load();
  const MemberArea* members = arena_->Members(*area->shared);
  if (std::exchange(area->seen_arrived, arrived) != arrived ||
      std::exchange(area->seen_calls, calls) != calls) {
    area->seen_calls = calls;
    for (uint32_t i = 0; i < area->round.size(); ++i) {
      const uint32_t round = members[i].round.load();
      const uint32_t called = members[i].calls.load();
      const bool deposited = std::exchange(area->round[i], round) != round;
      const bool moved = std::exchange(area->calls[i], called) != called || deposited;
      for (const int host : area->hosts) {
        if (moved && !area->is_elsewhere[i]) {
          PutMember(key, *area, {i, deposited}, host);
        }
      }
    }
  }
  if (std::exchange(area->seen_left, left) != left) {
    uint32_t own = left;
    for (const auto& [host, of_host] : area->left_of) {
      own -= of_host;
    }
    if (std::exchange(area->left, own) != own) {
      for (const int host : area->hosts) {
        To(host, Entry::kLeft).Put(key).Put(own);
      }
    }
  }
}

void ExchangeMirror::StepBox(uint64_t key, Box* box) {
  if (box->host < 0) {
    return;
  }
  const uint32_t head = box->shared->head.load();
  if (head != box->head) {
    To(box->host, Entry::kBytes)
        .Put(key)
        .PutText(ReadRing(arena_->Bytes(*box->shared), box->head, head - box->head));
    box->head = head;
  }
  const uint32_t tail = box->shared->tail.load();
  if (std::exchange(box->tail, tail) != tail) {
    To(box->host, Entry::kTaken).Put(key).Put(tail);
  }
}

void ExchangeMirror::StepWaiting() {
  uint32_t own = arena_->waiting()->load();
  for (const auto& [host, of_host] : waiting_of_) {
    own -= of_host;
  }
  if (crosses_ && std::exchange(waiting_, own) != own) {
    ToAll([&](int host) { To(host, Entry::kWaiting).Put(own); });
  }
}

bool ExchangeMirror::Step() {
  FindEntries();
  for (auto& [key, area] : areas_) {
    StepArea(key, &area);
  }
  for (auto& [key, box] : boxes_) {
    StepBox(key, &box);
  }
  StepWaiting();
  if (arena_->aborted() && !std::exchange(abort_told_, true)) {
    ToAll([&](int host) { To(host, Entry::kAbort).PutText(arena_->abort_reason()); });
  }
  return Flush();
}

void ExchangeMirror::TakeHere(uint64_t key, uint32_t members, int host) {
  areas_elsewhere_[key][host] = members;
  const auto found = areas_.find(key);
  if (found == areas_.end()) {
    return;
  }
  if (found->second.round.size() != members) {
    arena_->Abort(fmt::format("communicator {:016x}: ranks of two hosts differ about how many of "
                              "its members are present, {} and {}",
                              key, found->second.round.size(), members)
                      .c_str());
    return;
  }
  Meet(key, &found->second, host);
}

void ExchangeMirror::TakeMember(WireReader* message) {
  Area& area = areas_.at(message->Get<uint64_t>());
  const auto member = message->Get<uint32_t>();
  MemberArea& shared = arena_->Members(*area.shared)[member];
  const auto calls = message->Get<uint32_t>();
  const auto round = message->Get<uint32_t>();
  area.is_elsewhere[member] = true;
  const uint32_t called = calls - std::exchange(area.calls[member], calls);
  if (std::exchange(area.round[member], round) != round) {
    shared.post = message->Get<shim::Post>();
    const std::string_view chunk = message->GetText();
    PRISM_CHECK_LE(chunk.size(), shim::kChunkBytes);
    std::memcpy(shared.chunk, chunk.data(), chunk.size());
    shared.round.store(round);
    area.shared->arrived.Add(1);
  }
  if (called != 0) {
    shared.calls.store(calls);
    area.shared->calls.Add(called);
  }
}

void ExchangeMirror::TakeLeft(Area* area, int host, uint32_t left) {
  area->shared->left.Add(left - std::exchange(area->left_of[host], left));
}

void ExchangeMirror::TakeBytes(Box* box, std::string_view bytes) {
  WriteRing(arena_->Bytes(*box->shared), box->head, bytes);
  box->head += static_cast<uint32_t>(bytes.size());
  box->shared->head.store(box->head);
  arena_->activity()->Add(1);
}

void ExchangeMirror::Take(int host, std::string_view message) {
  WireReader in(message);
  while (!in.empty()) {
    const auto entry = in.Get<Entry>();
    if (entry == Entry::kMember) {
      TakeMember(&in);
    } else if (entry == Entry::kAbort) {
      abort_told_ = true;  // the host that aborted tells all others itself
      arena_->Abort(std::string(in.GetText()).c_str());
    } else if (entry == Entry::kWaiting) {
      const auto waiting = in.Get<uint32_t>();
      arena_->waiting()->fetch_add(waiting - std::exchange(waiting_of_[host], waiting));
    } else if (const auto key = in.Get<uint64_t>(); entry == Entry::kHere) {
      TakeHere(key, in.Get<uint32_t>(), host);
    } else if (entry == Entry::kLeft) {
      TakeLeft(&areas_.at(key), host, in.Get<uint32_t>());
    } else if (entry == Entry::kBytes) {
      TakeBytes(&boxes_.at(key), in.GetText());
    } else if (entry == Entry::kTaken) {
      Box& box = boxes_.at(key);
      box.tail = in.Get<uint32_t>();
      box.shared->tail.store(box.tail);
      arena_->activity()->Add(1);
    } else if (boxes_elsewhere_[key] = host; boxes_.contains(key)) {
      boxes_[key].host = host;
      crosses_ = true;
    }
  }
}

}  // namespace prism::launch
