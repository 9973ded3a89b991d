#include "replayer/stages/phrase_run.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace prism::replayer {
namespace {

constexpr size_t kSender = 0;
constexpr size_t kReceiver = 1;

}  // namespace

PhraseRun::PhraseRun(const graph::PhrasedJob& job,
                     std::vector<StageSetup> setups,
                     StreamSet posting)
    : job_(job), setups_(std::move(setups)), posting_(posting), stages_(setups_.size()) {
  size_t registers = 0;
  size_t messages = 0;
  for (size_t s = 0; s < stages_.size(); ++s) {
    Stage& stage = stages_[s];
    stage.compiler = setups_[s].compiler;
    stage.register_count = stage.compiler->register_count();
    while (stage.written < written_.size() &&
           &written_[stage.written].compiler() != stage.compiler) {
      ++stage.written;
    }
    if (stage.written == written_.size()) {
      written_.emplace_back(*stage.compiler);
    }
    stage.steps = &job.stages[s].steps;
    stage.before.resize(kFirstSlotRegister);
    registers += stage.register_count;
    messages = std::max(messages, 2 * stage.steps->size());  // before and after a pass
  }
  registers_.resize(registers);
  const graph::ParallelSizes& sizes = job.job.parallel;
  const size_t under_way = 3 * static_cast<size_t>(sizes.pp) * static_cast<size_t>(sizes.vpp) + 8;
  room_ = static_cast<uint32_t>(std::bit_ceil(std::min(messages, under_way)));
  channels_.resize(kPhraseChannels * stages_.size());
  const size_t of_channel = size_t{2} * room_;
  arrivals_ = std::make_unique_for_overwrite<Arrival[]>(channels_.size() * of_channel);
  for (size_t channel = 0; channel < channels_.size(); ++channel) {
    channels_[channel].arrivals = arrivals_.get() + channel * of_channel;
  }
  TimeNs* place = registers_.data();
  for (size_t s = 0; s < stages_.size(); ++s) {
    stages_[s].registers = place;
    place += stages_[s].register_count;
    for (size_t c = 0; c < kPhraseChannels; ++c) {
      Channel* const of_first = channels_.data() + c * stages_.size();
      stages_[s].channels[RouteOf(c, PhraseSender::kPrevious)] =
          of_first + (s + stages_.size() - 1) % stages_.size();
      stages_[s].channels[RouteOf(c, PhraseSender::kSelf)] = of_first + s;
      stages_[s].channels[RouteOf(c, PhraseSender::kNext)] = of_first + (s + 1) % stages_.size();
    }
  }
}

bool PhraseRun::Run(int32_t iterations, const PhraseLoop* loop) {
  loop_ = loop;
  stretches_ = FindPhraseStretches(job_, loop, kFirstSteps);
  for (size_t s = 0; s < stages_.size(); ++s) {
    stages_[s].loop = loop == nullptr ? nullptr : &loop->stages[s];
  }
  failed_ = ends_on_marks_ = repeats_ = false;
  marked_.values.clear();
  std::fill(registers_.begin(), registers_.end(), 0);
  for (Channel& channel : channels_) {
    channel.send_tail = 0;
  }
  for (int32_t iteration = 0; iteration < iterations; ++iteration) {
    BeginIteration();
    if (!RunIteration()) {
      return false;
    }
    if (repeats_) {
      return true;
    }
    EndIteration();
    if (IsSteady()) {
      return true;
    }
  }
  return true;
}

void PhraseRun::BeginIteration() {
  for (Channel& channel : channels_) {
    channel.posted = channel.finished = {};
    channel.waiting = {};
  }
  for (std::vector<Meeting>& meetings : meetings_) {
    meetings.clear();
  }
  begun_ = 1;
  loop_is_over_ = false;
  for (size_t s = stages_.size(); s-- > 0;) {
    Stage& stage = stages_[s];
    TimeNs* registers = stage.registers;
    stage.start = StartOf(s);
    std::copy_n(registers, kFirstSlotRegister, stage.before.begin());
    TimeNs* debts = registers + stage.compiler->first_debt();
    std::fill(registers + kFirstSlotRegister, debts, kMinusInfinity);
    std::fill(debts, registers + stage.register_count, 0);
    stage.step = stage.stop = stage.turn = stage.op = stage.context = 0;
    stage.halt = kNone;
    stage.inside = stage.arrived = false;
    stage.met = {};
    for (uint16_t stream = 0; stream < graph::kStageStreamCount; ++stream) {
      if ((posting_ & Bit(stream)) != 0) {
        registers[TailRegister(stream)] =
            kMinusInfinity;  // what messages wait for besides send_tail
      }
    }
    Wake(&stage);
  }
}

TimeNs PhraseRun::StartOf(size_t s) const {
  const TimeNs* registers = stages_[s].registers;
  return std::max(registers[kHostRegister] + Halves(setups_[s].first_host_ns),
                  registers[TailRegister(setups_[s].first_stream)]);
}

bool PhraseRun::RunIteration() {
  if (RunFirstSteps()) {
    return true;
  }
  RunStretches(stretches_.before);
  if (loop_ != nullptr) {
    if (RunFirstTurn()) {
      return true;
    }
    of_loop_.left = loop_->turns - 1;
    RunTurns(&of_loop_);
    loop_is_over_ = true;
    WakeAll();
    RunStretches(stretches_.behind);
  }
  Settle();
  return !failed_ && std::all_of(stages_.begin(), stages_.end(), [](const Stage& stage) {
    return stage.step == stage.steps->size();
  });
}

void PhraseRun::EndIteration() {
  LeaveSendTails();
  ends_on_marks_ = EndsOnMarks();
  Unmark();
  for (size_t s = 0; s < stages_.size(); ++s) {
    stages_[s].next_start = StartOf(s);
  }
}

void PhraseRun::LeaveSendTails() {
  for (size_t s = 0; s < stages_.size(); ++s) {
    TimeNs* registers = stages_[s].registers;
    for (size_t c = 0; c < kPhraseChannels; ++c) {
      const uint16_t reg = TailRegister(graph::StageStream(kPhraseAxes[c / 2]));
      if ((posting_ & Bit(static_cast<uint16_t>(reg - 1))) == 0) {
        continue;
      }
      Channel& channel = channels_[c * stages_.size() + s];
      registers[reg] = std::max(registers[reg], stages_[s].before[reg]);
      if (channel.posted[kSender] > 0) {
        channel.send_tail = std::max(channel.send_tail, registers[reg]);
        registers[reg] = channel.send_tail;
      }
    }
  }
}

// As in StageRun: a stream that has not moved is not used.
bool PhraseRun::IsSteady() {
  const TimeNs* first = stages_.front().registers;
  const DurationNs moved = first[kHostRegister] - stages_.front().before[kHostRegister];
  for (const Stage& stage : stages_) {
    const TimeNs* registers = stage.registers;
    for (size_t reg = 0; reg < kFirstSlotRegister; ++reg) {
      const DurationNs by = registers[reg] - stage.before[reg];
      if (by != moved && (by != 0 || reg == kHostRegister)) {
        return false;
      }
    }
  }
  return true;
}

DurationNs PhraseRun::IterationNs(size_t stage) const {
  return (stages_[stage].next_start - stages_[stage].start) / Halves(1);
}

void PhraseRun::Wake(Stage* stage) {
  if (!stage->queued) {
    stage->queued = true;
    work_.push_back(stage);
  }
}

void PhraseRun::WakeAll() {
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
    Wake(&*stage);
  }
}

void PhraseRun::Settle() {
  while (!work_.empty()) {
    Stage* const stage = work_.back();
    work_.pop_back();
    stage->queued = false;
    if (!failed_) {
      Advance(stage);
    }
  }
}

bool PhraseRun::GoesOn(Stage* stage) {
  if (loop_ != nullptr && stage->step == stage->loop->end) {
    if (stage->turn + 1 < begun_) {
      ++stage->turn;
      stage->step = stage->loop->begin;
    } else if (loop_is_over_) {
      stage->step = stage->loop->behind;
    } else {
      return false;
    }
  }
  stage->stop = StopOf(*stage);
  return stage->step != stage->halt && stage->step != stage->steps->size();
}

uint32_t PhraseRun::StopOf(const Stage& stage) const {
  const uint32_t next = stage.step + (stage.inside ? 1 : 0);  // that is not begun
  auto stop = static_cast<uint32_t>(stage.steps->size());
  for (const uint32_t place : {stage.halt, loop_ == nullptr ? kNone : stage.loop->end}) {
    stop = place >= next ? std::min(stop, place) : stop;
  }
  return stop;
}

void PhraseRun::HaltBefore(Stage* stage, uint32_t step) {
  stage->halt = step;
  stage->stop = StopOf(*stage);
}

void PhraseRun::Put(Channel* channel, size_t end, const Arrival& arrival) {
  if (channel->posted[end] - channel->finished[1 - end] >= room_) {
    failed_ = true;
  }
  ArrivalAt(*channel, end, channel->posted[end]++) = arrival;
  if (channel->waiting[end] != nullptr) {
    Wake(std::exchange(channel->waiting[end], nullptr));
  }
}

void PhraseRun::Arrive(const Stage& stage, const PhraseExchange& exchange, TimeNs at) {
  const PhrasePost* posts = stage.compiler->posts().data() + exchange.posts;
  for (uint32_t p = 0; p < exchange.count; ++p) {
    if (!posts[p].posted) {
      Put(stage.channels[posts[p].route], posts[p].is_send ? kSender : kReceiver,
          {at, posts[p].transfer});
    }
  }
}

// As StageRun::FinishGroup.
bool PhraseRun::Exchange(Stage* stage, const PhraseOp& op) {
  TimeNs& tail = stage->registers[op.reg];
  const PhraseExchange exchange = stage->compiler->exchanges()[op.index];
  if (!stage->arrived) {
    Arrive(*stage, exchange, tail);
    stage->arrived = true;
  }
  const PhrasePost* posts = stage->compiler->posts().data() + exchange.posts;
  for (uint32_t p = 0; p < exchange.count; ++p) {
    Channel& channel = *stage->channels[posts[p].route];
    const size_t mine = posts[p].is_send ? kSender : kReceiver;
    const bool alone = posts[p].is_send && posts[p].eager;
    if (!alone && channel.posted[1 - mine] <= channel.finished[mine]) {
      channel.waiting[1 - mine] = stage;
      return false;
    }
  }
  const TimeNs arrival = tail;
  for (uint32_t p = 0; p < exchange.count; ++p) {
    const PhrasePost& post = posts[p];
    Channel& channel = *stage->channels[post.route];
    const size_t mine = post.is_send ? kSender : kReceiver;
    const int64_t number = channel.finished[mine]++;
    TimeNs end = arrival + post.transfer;
    if (!post.is_send || !post.eager) {
      const Arrival& peer = ArrivalAt(channel, 1 - mine, number);
      const DurationNs transfer = std::max(post.transfer, peer.transfer);
      const bool posted = post.posted && !post.eager;
      const TimeNs there = posted ? std::max(peer.at, channel.send_tail) : peer.at;
      end = post.eager ? std::max(arrival, there + transfer) : std::max(arrival, there) + transfer;
      channel.send_tail = posted ? end : channel.send_tail;
    }
    tail = std::max(tail, end);
  }
  stage->arrived = false;
  return true;
}

// As Exchange.
bool PhraseRun::Receive(Stage* stage, const PhrasePost& post, DurationNs host_halves) {
  TimeNs* const registers = stage->registers;
  Channel& channel = *stage->channels[post.route];
  const int64_t message = channel.finished[kReceiver];
  if (channel.posted[kSender] <= message) {
    channel.waiting[kSender] = stage;
    return false;
  }
  channel.finished[kReceiver] = message + 1;
  const Arrival& sent = ArrivalAt(channel, kSender, message);
  const DurationNs transfer = std::max(post.transfer, sent.transfer);
  const TimeNs ready = std::max(registers[post.reg], registers[kHostRegister] + host_halves);
  if (post.eager) {
    registers[post.reg] = std::max(ready, sent.at + transfer);
  } else {
    registers[post.reg] = std::max({ready, sent.at, channel.send_tail}) + transfer;
    channel.send_tail = registers[post.reg];
  }
  return true;
}

void PhraseRun::Post(const Stage& stage, const PhrasePost& post) {
  TimeNs& ready = stage.registers[post.reg];
  Channel& channel = *stage.channels[post.route];
  TimeNs at = ready;
  if (post.eager) {
    at = std::max(at, channel.send_tail);
    channel.send_tail = at + post.transfer;
  }
  ready = kMinusInfinity;
  Put(&channel, kSender, {at, post.transfer});
}

bool PhraseRun::Pass(Stage* stage, const PhraseOp& op) {
  const PhraseCompiler& compiler = *stage->compiler;
  if (op.receive != kNone && !Receive(stage, compiler.posts()[op.receive], op.host_halves)) {
    return false;
  }
  if (op.index != kNone) {
    ApplyMove(compiler.tape(), op.index, stage->registers);
  }
  if (op.post != kNone) {
    Post(*stage, compiler.posts()[op.post]);
  }
  return true;
}

bool PhraseRun::Meet(Stage* stage, const PhraseOp& op) {
  TimeNs& tail = stage->registers[op.reg];
  std::vector<Meeting>& meetings = meetings_[op.axis];
  const uint32_t number = stage->met[op.axis];
  if (!stage->arrived) {
    if (number == meetings.size()) {
      const bool ends = static_cast<graph::GroupAxis>(op.axis) == graph::GroupAxis::kEmbedding;
      meetings.push_back({ends ? 2U : static_cast<uint32_t>(stages_.size()), kMinusInfinity, 0});
    }
    Meeting& meeting = meetings[number];
    meeting.latest = std::max(meeting.latest, tail);
    meeting.longest = std::max(meeting.longest, op.halves);
    stage->arrived = true;
    if (--meeting.missing == 0) {
      for (Stage& other : stages_) {
        Wake(&other);
      }
    }
  }
  if (meetings[number].missing > 0) {
    return false;
  }
  tail = meetings[number].latest + meetings[number].longest;
  ++stage->met[op.axis];
  stage->arrived = false;
  return true;
}

void PhraseRun::HostSync(Stage* stage, const PhraseOp& op) {
  TimeNs* registers = stage->registers;
  const TimeNs reached = registers[kHostRegister] + op.host_halves;
  TimeNs target = kMinusInfinity;
  if (op.reg == kAllTails) {
    target = *std::max_element(registers + TailRegister(0), registers + kFirstSlotRegister);
  } else {
    target = registers[op.reg];
  }
  DurationNs charge = op.halves;
  for (StreamSet left = op.index; left != 0; left &= left - 1) {
    charge += std::exchange(registers[stage->compiler->first_debt() + std::countr_zero(left)], 0);
  }
  registers[kHostRegister] += std::max(reached, target) + charge - reached;
}

// False if the stage has to wait.
bool PhraseRun::Execute(Stage* stage, const PhraseOp& op) {
  if (op.kind == PhraseOpKind::kPass) {
    return Pass(stage, op);
  }
  switch (op.kind) {
    case PhraseOpKind::kPass:
      break;
    case PhraseOpKind::kExchange:
      return Exchange(stage, op);
    case PhraseOpKind::kMeeting:
      return Meet(stage, op);
    case PhraseOpKind::kHostSync:
      HostSync(stage, op);
      break;
    case PhraseOpKind::kOwe:
      stage->registers[op.index] += op.halves;
      break;
    case PhraseOpKind::kPay:
      stage->registers[op.reg] += std::exchange(stage->registers[op.index], 0);
      break;
  }
  return true;
}

// False if the stage is done or waits for a turn to begin.
bool PhraseRun::NextStep(Stage* stage) {
  if (stage->step == stage->stop && !GoesOn(stage)) {
    return false;
  }
  stage->phrase = stage->compiler->Find(stage->context, (*stage->steps)[stage->step]);
  if (!stage->compiler->can_run()) {
    failed_ = true;
    return false;
  }
  stage->inside = true;
  stage->op = 0;
  stage->computed = stage->registers[TailRegister(graph::kStageComputeStream)];
  return true;
}

void PhraseRun::Advance(Stage* stage) {
  while (stage->inside || NextStep(stage)) {
    const CompiledPhrase& phrase = stage->compiler->compiled(stage->phrase);
    const PhraseOp* const begin = stage->compiler->ops().data() + phrase.ops;
    const PhraseOp* const end = begin + phrase.op_count;
    for (const PhraseOp* op = begin + stage->op; op != end; ++op) {
      if (!Execute(stage, *op)) {
        stage->op = static_cast<uint32_t>(op - begin);
        return;
      }
    }
    stage->registers[kHostRegister] += phrase.host_halves;
    stage->context = phrase.next;
    stage->inside = false;
    ++stage->step;
  }
}

}  // namespace prism::replayer
