#include "replayer/stages/phrase_compiler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <span>
#include <utility>

namespace prism::replayer {

using graph::GroupAxis;
using graph::OpKind;

namespace {

// Index into kPhraseAxes; -1 for other axes.
int ChannelAxis(uint16_t axis) {
  const auto* found =
      std::find(kPhraseAxes.begin(), kPhraseAxes.end(), static_cast<GroupAxis>(axis));
  return found == kPhraseAxes.end() ? -1 : static_cast<int>(found - kPhraseAxes.begin());
}

uint16_t SlotRegister(uint32_t slot) {
  return static_cast<uint16_t>(kFirstSlotRegister + slot);
}

}  // namespace

PhraseCompiler::PhraseCompiler(const Shared& shared,
                               uint32_t kind,
                               const LibraryCosts::Topologies& topologies,
                               PhraseReach reach)
    : shared_(shared),
      kind_(kind),
      plan_(shared.library->plan()),
      costs_(*shared.costs),
      topologies_(topologies),
      reach_(reach),
      phrases_(shared.job->kinds[kind].phrases.size()),
      first_event_(SlotRegister(shared.job->kinds[kind].event_slot_count)),
      first_debt_(static_cast<uint16_t>(first_event_ + kMaxLiveEvents)),
      bodies_(phrases_) {
  contexts_.front().tails.never = shared.posting;
}

DurationNs PhraseCompiler::TransferNs(uint32_t transfer) const {
  return costs_.TransferNs(transfer, topologies_[plan_.tables.transfers[transfer].axis]);
}

void PhraseCompiler::Compile(uint32_t context, uint32_t phrase) {
  LoadContext(contexts_[context]);
  if (!Recall(phrase)) {
    Write(phrase);
    if (!settles_) {
      KeepBody(phrase);
    }
  }
  StoreContext();
  phrase_.next = NumberOfContext();
  const size_t place = size_t{context} * phrases_ + phrase;
  if (place >= table_.size()) {
    table_.resize((size_t{context} + 1) * phrases_, kNone);
  }
  table_[place] = static_cast<uint32_t>(compiled_.size());
  compiled_.push_back(phrase_);
}

void PhraseCompiler::Write(uint32_t phrase) {
  phrase_ = {};
  phrase_.ops = static_cast<uint32_t>(ops_.size());
  writer_.Reset(register_count(), context_.tails);
  pass_ = {};
  body_.computed = context_.computed;
  body_.tails = context_.tails;
  body_.waits = 0;
  body_.slots.clear();
  settles_ = false;
  for (const uint32_t call : shared_.job->kinds[kind_].phrases[phrase]) {
    for (uint32_t part = plan_.parts[call]; part < plan_.parts[call + 1]; ++part) {
      CompilePart(part);
    }
  }
  events_.clear();
  Flush();
  phrase_.host_halves = Halves(writer_.host_ns());
  phrase_.op_count = static_cast<uint32_t>(ops_.size()) - phrase_.ops;
  context_.tails = writer_.known();
}

void PhraseCompiler::CompilePart(uint32_t part) {
  events_.clear();
  if (CanFold(part)) {
    FoldPart(part);
    return;
  }
  const LoweredBlock& block = plan_.blocks[part];
  if (block.ops.empty()) {
    writer_.AddHost(costs_.SpanNs(block.rest_span));
  } else {
    Inline(block);
  }
}

bool PhraseCompiler::CanFold(uint32_t part) {
  const BlockStreams& block = shared_.library->streams()[part];
  body_.waits |= block.settled;
  settles_ = settles_ || (block.settled & owing_) != 0;
  return block.foldable && (block.all & shared_.posting) == 0 && (block.settled & owing_) == 0 &&
         (block.computed & ~context_.computed) == 0;
}

void PhraseCompiler::FoldPart(uint32_t part) {
  const BlockStreams& streams = shared_.library->streams()[part];
  if (part != folded_part_) {  // layers follow each other
    folded_ = &costs_.Folded(part, streams.axes, topologies_);
    folded_part_ = part;
  }
  const FoldedSegment& folded = *folded_;
  std::array<uint16_t, kMaxFoldedStreams> tails = {};
  std::transform(folded.streams.begin(), folded.streams.begin() + folded.stream_count,
                 tails.begin(), TailRegister);
  MakeRoom(std::span<const uint16_t>(tails.data(), folded.stream_count));
  writer_.Fold(folded);
  const std::vector<BlockExport>& exports = plan_.charges[part].exports;
  const size_t width = folded.compute_ns.size();
  for (size_t e = 0; e < exports.size(); ++e) {
    if (!Follows(exports[e].stream)) {
      continue;
    }
    Owe(exports[e].stream, exports[e].transfer);
    PhraseContext::Owed& owed = context_.owed.back();
    for (size_t k = 0; k < width; ++k) {
      owed.beside[k] += folded.export_ns[e * width + k];
    }
  }
  for (size_t k = 0; k < width; ++k) {
    compute_[k] += folded.compute_ns[k];
  }
  context_.computed |= streams.kernels;
}

template <typename Registers>
void PhraseCompiler::MakeRoom(const Registers& registers) {
  if (!writer_.HasRoomFor(registers)) {
    Flush();
  }
}

// Ends the pass being followed, with that message sent after it.
void PhraseCompiler::Flush(uint32_t post) {
  writer_.Flush(
      first_event_, [&](uint32_t place) { return (live_events_ >> place & 1U) != 0; },
      [&](uint32_t move) { pass_.index = move; });
  pass_.post = post;
  if (pass_.index != kNone || pass_.receive != kNone || pass_.post != kNone) {
    ops_.push_back(pass_);
  }
  pass_ = {};
}

void PhraseCompiler::PlaceEvent(uint32_t event) {
  const auto place = static_cast<uint32_t>(std::countr_one(live_events_));
  can_run_ = can_run_ && place < kMaxLiveEvents;
  events_[event].place = static_cast<uint16_t>(place % kMaxLiveEvents);
  live_events_ |= 1U << place % kMaxLiveEvents;
}

void PhraseCompiler::Inline(const LoweredBlock& block) {
  events_.assign(block.event_count, {});
  for (uint32_t i = 0; i < block.ops.size(); ++i) {
    if (block.ops[i].event != kNone) {
      events_[block.ops[i].event].last_use = i;
    }
  }
  for (uint32_t i = 0; i < block.ops.size(); ++i) {
    const StageOp& op = block.ops[i];
    if (op.event != kNone && op.kind == StageOpKind::kRecord && events_[op.event].last_use > i) {
      PlaceEvent(op.event);
    }
    for (uint32_t time = 0; time < op.times; ++time) {
      InlineOp(block, i);
    }
    if (op.event != kNone && events_[op.event].last_use == i && op.kind != StageOpKind::kRecord) {
      live_events_ &= ~(1U << events_[op.event].place);
    }
  }
  writer_.AddHost(costs_.SpanNs(block.rest_span));
}

void PhraseCompiler::InlineOp(const LoweredBlock& block, uint32_t i) {
  const StageOp& op = block.ops[i];
  writer_.AddHost(costs_.SpanNs(op.span));
  if (op.kind == StageOpKind::kHostSync) {
    HostSync(op);
    return;
  }
  const uint16_t tail = TailRegister(op.stream);
  const bool waited =
      op.event != kNone && (op.kind != StageOpKind::kRecord || events_[op.event].last_use > i);
  const uint16_t event = op.slot != kNone ? SlotRegister(op.slot)
                         : waited         ? EventRegister(op.event)
                                          : tail;
  MakeRoom(std::array<uint16_t, 2>{tail, event});
  writer_.ReachHost(tail);
  const bool posts = (shared_.posting & Bit(op.stream)) != 0;
  switch (op.kind) {
    case StageOpKind::kWork: {
      const DurationNs duration = costs_.WorkNs(op.index);
      writer_.Delay(tail, duration);
      if (plan_.tables.works[op.index].kind == OpKind::kKernel) {
        context_.computed |= Bit(op.stream);
        const std::vector<uint16_t>& streams = plan_.kernel_streams;
        const auto k = std::find(streams.begin(), streams.end(), op.stream) - streams.begin();
        compute_[static_cast<size_t>(k)] += duration;
      }
      can_run_ = can_run_ && !posts;
      break;
    }
    case StageOpKind::kRecord:
      if (event != tail) {
        writer_.Copy(tail, event);
        if (op.slot != kNone && waited) {
          writer_.Copy(tail, EventRegister(op.event));
        }
        Record(op);
        can_run_ = can_run_ && !posts;
      }
      break;
    case StageOpKind::kWait:
      if (event != tail) {
        writer_.Raise(tail, event);
        Wait(op);
      }
      break;
    case StageOpKind::kCollective:
      can_run_ = can_run_ && !posts;
      Collective(op);
      break;
    case StageOpKind::kPeerGroup:
      Exchange(block, op);
      break;
    case StageOpKind::kHostSync:
      break;
  }
}

void PhraseCompiler::Record(const StageOp& op) {
  if (op.event != kNone) {
    events_[op.event].stream = op.stream;
    events_[op.event].covers = owed_count_[op.stream];
  }
  if (op.slot != kNone) {
    const auto slot = static_cast<uint16_t>(op.slot);
    SetSlot({slot, op.stream, owed_count_[op.stream]});
    body_.slots.push_back({slot, op.stream, owed_count_[op.stream] - owed_before_[op.stream]});
  }
}

void PhraseCompiler::Wait(const StageOp& op) {
  if ((context_.computed & Bit(op.stream)) == 0) {
    return;
  }
  uint16_t stream = op.stream;
  uint32_t covers = 0;
  settles_ = settles_ || op.slot != kNone;
  if (op.slot == kNone) {
    stream = events_[op.event].stream;
    covers = events_[op.event].covers;
    body_.waits |= Bit(stream);
  }
  for (const PhraseContext::Slot& slot : context_.slots) {
    if (slot.slot == op.slot) {
      stream = slot.stream;
      covers = slot.covers;
    }
  }
  if (stream == op.stream || (owing_ & Bit(stream)) == 0) {
    return;
  }
  settles_ = true;
  const DurationNs charge = Settle(stream, covers, op.stream, false);
  writer_.Delay(TailRegister(op.stream), charge);
  const bool pays = TakeDebt(stream);
  if (pays) {
    Flush();
    Push(PhraseOpKind::kPay, op.stream).index = uint32_t{first_debt_} + stream;
  }
  can_run_ = can_run_ && ((charge == 0 && !pays) || (shared_.posting & Bit(op.stream)) == 0);
}

void PhraseCompiler::Collective(const StageOp& op) {
  const std::vector<uint32_t>& transfers = plan_.tables.collectives[op.index].transfers;
  if (IsMeeting(plan_, op, shared_.job->job.parallel)) {
    can_run_ = can_run_ && transfers.size() == 1;
    Flush();
    PhraseOp& meeting = Push(PhraseOpKind::kMeeting, op.stream);
    meeting.axis = plan_.tables.transfers[transfers.front()].axis;
    meeting.halves = Halves(TransferNs(transfers.front()));
  } else {
    writer_.Delay(TailRegister(op.stream), costs_.CollectiveNs(op.index, topologies_));
  }
  if (Follows(op.stream)) {
    for (const uint32_t transfer : transfers) {
      Owe(op.stream, transfer);
    }
  }
}

PhraseOp& PhraseCompiler::Push(PhraseOpKind kind, uint16_t stream) {
  ops_.emplace_back();
  ops_.back().kind = kind;
  ops_.back().reg = TailRegister(stream);
  if (kind != PhraseOpKind::kOwe && kind != PhraseOpKind::kHostSync) {
    writer_.TailMoved(TailRegister(stream));
  }
  return ops_.back();
}

void PhraseCompiler::Exchange(const LoweredBlock& block, const StageOp& op) {
  const PhraseExchange exchange = Messages(block, op);
  const bool posts = (shared_.posting & Bit(op.stream)) != 0;
  const PhrasePost& first = posts_[exchange.posts];
  const bool alone = exchange.count == 1;
  can_run_ = can_run_ && posts == !block.blocking && (!posts || (alone && first.is_send));
  if (alone && !first.is_send && first.posted) {
    Receive(exchange.posts);
  } else if (posts) {
    Flush(exchange.posts);
    writer_.TailCleared(first.reg);
  } else {
    Flush();
    Push(PhraseOpKind::kExchange, op.stream).index = static_cast<uint32_t>(exchanges_.size());
    exchanges_.push_back(exchange);
  }
}

// The pass begins with it.
void PhraseCompiler::Receive(uint32_t message) {
  std::optional<DurationNs> reached;
  if (pass_.receive == kNone) {
    reached = writer_.TakeReach(posts_[message].reg);
  }
  if (!reached.has_value()) {
    Flush();
    reached = kMinusInfinity / 2;
  }
  writer_.TailMoved(posts_[message].reg);
  pass_.receive = message;
  pass_.host_halves = Halves(*reached);
}

PhraseExchange PhraseCompiler::Messages(const LoweredBlock& block, const StageOp& op) {
  const uint16_t tail = TailRegister(op.stream);
  const auto [found, inserted] = messages_.try_emplace({block.program, op.index, tail});
  if (inserted) {
    found->second =
        WriteMessages(shared_.job->program->blocks[block.program].peer_groups[op.index], tail);
  }
  return found->second;
}

PhraseExchange PhraseCompiler::WriteMessages(const graph::PeerGroup& group, uint16_t reg) {
  std::vector<PeerLoad> loads;
  PhraseExchange exchange = {static_cast<uint32_t>(posts_.size()), 0};
  const bool ring = shared_.job->job.parallel.pp > 2;
  for (const graph::PeerTransfer& transfer : group.transfers) {
    const int axis = ChannelAxis(transfer.comm_slot);
    PhrasePost post;
    post.reg = reg;
    post.is_send = transfer.is_send;
    const bool to_next = transfer.peer_slot == graph::SlotOf(graph::PeerSlot::kNext);
    const PhraseSender peer = to_next ? PhraseSender::kNext : PhraseSender::kPrevious;
    post.eager = costs_.collective_cost().IsEager(transfer.bytes);
    const int way = ring && to_next != post.is_send ? 1 : 0;
    can_run_ = can_run_ && axis >= 0;
    const auto channel = static_cast<size_t>(std::max(axis, 0) * 2 + way);
    post.route = RouteOf(channel, post.is_send ? PhraseSender::kSelf : peer);
    const auto sends = static_cast<GroupAxis>(transfer.comm_slot);
    post.posted = (shared_.posting & Bit(graph::StageStream(sends))) != 0;
    const bool on_node = to_next ? reach_.next_on_node : reach_.previous_on_node;
    loads.push_back({transfer.bytes, transfer.is_send,
                     on_node ? PeerLoad::Reach::kNode : PeerLoad::Reach::kNetwork});
    posts_.push_back(post);
    ++exchange.count;
  }
  const std::vector<DurationNs> shared = costs_.collective_cost().PeerTransfers(loads);
  for (size_t i = 0; i < shared.size(); ++i) {
    posts_[exchange.posts + i].transfer = Halves(shared[i]);
  }
  return exchange;
}

void PhraseCompiler::HostSync(const StageOp& op) {
  settles_ = true;
  DurationNs charge = 0;
  StreamSet paid = 0;
  uint16_t reg = TailRegister(op.stream);
  if (op.sync == OpKind::kEventSync) {
    can_run_ = false;
  } else if (op.sync == OpKind::kStreamSync) {
    can_run_ = can_run_ && (shared_.posting & Bit(op.stream)) == 0;
    charge = Settle(op.stream, owed_count_[op.stream], op.stream, true);
    paid = TakeDebt(op.stream) ? Bit(op.stream) : 0;
  } else {
    can_run_ = can_run_ && shared_.posting == 0;
    reg = kAllTails;
    for (uint16_t stream = 0; stream < graph::kStageStreamCount; ++stream) {
      charge += Settle(stream, owed_count_[stream], stream, true);
      paid |= TakeDebt(stream) ? Bit(stream) : 0;
    }
  }
  Flush();
  PhraseOp& sync = Push(PhraseOpKind::kHostSync, op.stream);
  sync.reg = reg;
  sync.index = paid;
  sync.halves = Halves(charge);
  sync.host_halves = Halves(writer_.host_ns());
}

}  // namespace prism::replayer
