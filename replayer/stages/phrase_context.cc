// What is owed to waits before and after the phrase being compiled.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "graph/base/content_hash.h"
#include "replayer/stages/phrase_compiler.h"

namespace prism::replayer {
namespace {

uint64_t HashOf(const PhraseContext& context) {
  ContentHash hash;
  hash.Add(context.computed);
  hash.Add(context.debts);
  hash.Add(int64_t{context.tails.behind} << 32U | context.tails.never);
  for (const PhraseContext::Owed& owed : context.owed) {
    hash.Add(owed.stream);
    hash.Add(owed.transfer);
    for (const DurationNs beside : owed.beside) {
      hash.Add(beside);
    }
  }
  for (const PhraseContext::Slot& slot : context.slots) {
    hash.Add(slot.slot);
    hash.Add(slot.covers);
  }
  return hash.Digest();
}

}  // namespace

uint32_t PhraseCompiler::NumberOfContext() {
  const uint64_t hash = HashOf(context_);
  for (size_t i = 0; i < contexts_.size(); ++i) {
    if ((i == 0 || context_hashes_[i] == hash) && contexts_[i] == context_) {
      return static_cast<uint32_t>(i);
    }
  }
  contexts_.push_back(context_);
  context_hashes_.push_back(hash);
  return static_cast<uint32_t>(contexts_.size() - 1);
}

void PhraseCompiler::LoadContext(const PhraseContext& context) {
  context_ = context;
  compute_ = {};
  owed_count_ = {};
  owing_ = context_.debts;
  for (PhraseContext::Owed& owed : context_.owed) {
    for (DurationNs& beside : owed.beside) {
      beside = -beside;  // compute since then is what runs from now on minus this
    }
    ++owed_count_[owed.stream];
    owing_ |= Bit(owed.stream);
  }
  owed_before_ = owed_count_;
}

void PhraseCompiler::KeepBody(uint32_t phrase) {
  PhraseBody& body = bodies_[phrase].emplace_back(body_);
  body.phrase = phrase_;
  body.computed_after = context_.computed;
  body.tails_after = context_.tails;
  body.compute = compute_;
  const size_t before = std::reduce(owed_before_.begin(), owed_before_.end());
  body.owed.assign(context_.owed.begin() + static_cast<std::ptrdiff_t>(before),
                   context_.owed.end());
}

// As Write, if the phrase was already written for a context that is equivalent for it.
bool PhraseCompiler::Recall(uint32_t phrase) {
  const std::vector<PhraseBody>& bodies = bodies_[phrase];
  const auto body = std::find_if(bodies.begin(), bodies.end(), [&](const PhraseBody& known) {
    return known.computed == context_.computed && known.tails == context_.tails &&
           (known.waits & owing_) == 0;
  });
  if (body == bodies.end()) {
    return false;
  }
  phrase_ = body->phrase;
  context_.computed = body->computed_after;
  context_.tails = body->tails_after;
  compute_ = body->compute;
  for (const PhraseContext::Slot& slot : body->slots) {
    SetSlot({slot.slot, slot.stream, owed_before_[slot.stream] + slot.covers});
  }
  for (const PhraseContext::Owed& owed : body->owed) {
    context_.owed.push_back(owed);
    ++owed_count_[owed.stream];
    owing_ |= Bit(owed.stream);
  }
  return true;
}

void PhraseCompiler::StoreContext() {
  for (PhraseContext::Owed& owed : context_.owed) {
    for (size_t k = 0; k < compute_.size(); ++k) {
      owed.beside[k] = std::min(owed.transfer, compute_[k] - owed.beside[k]);
    }
  }
  StoreDebts();
}

// The first collectives that a stream owes, if their charge is final, are added to its debt, as
// long as every slot that covers any of the stream covers them: then whoever waits pays for all of
// them. If no slot covers any, that is whoever waits on the host or for an event still to be
// recorded.
void PhraseCompiler::StoreDebts() {
  std::array<uint32_t, graph::kStageStreamCount> most = {};
  std::array<DurationNs, graph::kStageStreamCount> added = {};
  most.fill(kNone);
  for (const PhraseContext::Slot& slot : context_.slots) {
    most[slot.stream] = std::min(most[slot.stream], slot.covers);
  }
  StreamSet adding = 0;
  std::erase_if(context_.owed, [&](const PhraseContext::Owed& owed) {
    if (most[owed.stream] == 0 || !IsSettled(owed)) {
      most[owed.stream] = 0;
      return false;
    }
    most[owed.stream] -= most[owed.stream] == kNone ? 0 : 1;
    for (PhraseContext::Slot& slot : context_.slots) {
      slot.covers -= slot.stream == owed.stream ? 1 : 0;
    }
    added[owed.stream] += ChargeOf(owed.transfer);
    adding |= Bit(owed.stream);
    return true;
  });
  context_.debts |= adding;
  for (uint16_t stream = 0; stream < graph::kStageStreamCount; ++stream) {
    if ((adding & Bit(stream)) != 0) {
      WriteDebt(stream, added[stream]);
    }
  }
}

// After the ops of the phrase, which are copied if it was recalled.
void PhraseCompiler::WriteDebt(uint16_t stream, DurationNs added) {
  const auto begin = static_cast<uint32_t>(ops_.size());
  if (phrase_.ops + phrase_.op_count != begin) {
    for (uint32_t op = 0; op < phrase_.op_count; ++op) {
      ops_.push_back(PhraseOp(ops_[phrase_.ops + op]));
    }
    phrase_.ops = begin;
  }
  PhraseOp& owe = Push(PhraseOpKind::kOwe, stream);
  owe.index = uint32_t{first_debt_} + stream;
  owe.halves = Halves(added);
  ++phrase_.op_count;
}

// Whether every stream that computes has done so for as long as the transfer takes.
bool PhraseCompiler::IsSettled(const PhraseContext::Owed& owed) const {
  for (size_t k = 0; k < plan_.kernel_streams.size(); ++k) {
    if (plan_.kernel_streams[k] != owed.stream && owed.beside[k] < owed.transfer) {
      return false;
    }
  }
  return true;
}

// Whether the stream had a debt, which is thereby taken.
bool PhraseCompiler::TakeDebt(uint16_t stream) {
  if ((context_.debts & Bit(stream)) == 0) {
    return false;
  }
  context_.debts &= ~Bit(stream);
  owing_ &= owed_count_[stream] == 0 ? ~Bit(stream) : ~StreamSet{0};
  std::erase_if(context_.slots, [&](const PhraseContext::Slot& slot) {
    return slot.stream == stream && slot.covers == 0;
  });
  return true;
}

DurationNs PhraseCompiler::ChargeOf(DurationNs beside) const {
  return std::llround((costs_.overlap_slowdown() - 1) * static_cast<double>(beside));
}

// As ChargeTracker.
bool PhraseCompiler::Follows(uint16_t stream) const {
  const std::vector<uint16_t>& kernels = plan_.kernel_streams;
  return !kernels.empty() && !(kernels.size() == 1 && kernels.front() == stream);
}

void PhraseCompiler::Owe(uint16_t stream, uint32_t transfer) {
  context_.owed.push_back({stream, TransferNs(transfer), compute_});
  ++owed_count_[stream];
  owing_ |= Bit(stream);
}

void PhraseCompiler::SetSlot(const PhraseContext::Slot& slot) {
  const auto place = std::lower_bound(
      context_.slots.begin(), context_.slots.end(), slot.slot,
      [](const PhraseContext::Slot& known, uint16_t number) { return known.slot < number; });
  const bool known = place != context_.slots.end() && place->slot == slot.slot;
  const bool listed = slot.covers > 0 || (context_.debts & Bit(slot.stream)) != 0;
  if (known && !listed) {
    context_.slots.erase(place);
  } else if (known) {
    *place = slot;
  } else if (listed) {
    context_.slots.insert(place, slot);
  }
}

// What a wait pays for the first `covers` collectives that the stream owes.
DurationNs PhraseCompiler::Settle(uint16_t stream,
                                  uint32_t covers,
                                  uint16_t waiting,
                                  bool any_stream) {
  const std::vector<uint16_t>& kernels = plan_.kernel_streams;
  DurationNs charge = 0;
  uint32_t left = covers;
  if (covers == 0) {
    return 0;
  }
  std::erase_if(context_.owed, [&](const PhraseContext::Owed& owed) {
    if (owed.stream != stream || left == 0) {
      return false;
    }
    --left;
    DurationNs compute = 0;
    for (size_t k = 0; k < kernels.size(); ++k) {
      const bool counts = kernels[k] != stream && (any_stream || kernels[k] == waiting);
      compute += counts ? compute_[k] - owed.beside[k] : 0;
    }
    charge += ChargeOf(std::min(owed.transfer, compute));
    return true;
  });
  const uint32_t settled = covers - left;
  owed_count_[stream] -= settled;
  const bool clear = owed_count_[stream] == 0 && (context_.debts & Bit(stream)) == 0;
  owing_ &= clear ? ~Bit(stream) : ~StreamSet{0};
  for (Event& event : events_) {
    event.covers -= event.stream == stream ? std::min(settled, event.covers) : 0;
  }
  std::erase_if(context_.slots, [&](PhraseContext::Slot& slot) {
    slot.covers -= slot.stream == stream ? std::min(settled, slot.covers) : 0;
    return slot.covers == 0 && (context_.debts & Bit(slot.stream)) == 0;
  });
  return charge;
}

}  // namespace prism::replayer
