#include "replayer/delta/schedule.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "replayer/engine/meeting.h"
#include "replayer/engine/rank_timeline.h"
#include "replayer/engine/work_queue.h"

namespace prism::replayer {
namespace {

// One lane per class: enough to see what happens in which order.
Partition WithOneLane(const Partition& partition) {
  Partition one = partition;
  one.jitter = {};
  for (CommClass& comm_class : one.comm_classes) {
    comm_class.instances = 1;
  }
  for (RankClass& rank_class : one.classes) {
    rank_class.lanes.resize(1);
    rank_class.delay_ns.resize(1);
    rank_class.groups = {{0, 1, rank_class.groups.front().plan}};
    for (CommEntry& entry : rank_class.comms) {
      entry.instance_of = {0};
    }
    for (ChannelEnd& channel : rank_class.channels) {
      channel.peer_lane = {0};
    }
  }
  return one;
}

// What the classes do, and in which turns.
struct Recording {
  std::vector<std::vector<Action>> actions;  // by class
  std::vector<Turn> turns;
  bool finished = false;
};

Recording Record(const Partition& partition,
                 const ReplayOptions& options,
                 const CollectiveCost& cost) {
  Recording recording;
  const auto count = static_cast<uint32_t>(partition.classes.size());
  recording.actions.resize(count);
  uint32_t holds = 0;
  for (const RankClass& rank_class : partition.classes) {
    holds += static_cast<uint32_t>(partition.plans[rank_class.groups.front().plan].streams.size());
  }
  Meetings meetings(partition, holds);
  WorkQueue queue(count);
  std::vector<std::unique_ptr<RankTimeline>> timelines;
  RankTimeline::Config config;
  config.partition = &partition;
  config.collective_cost = &cost;
  config.options = &options;
  for (uint32_t c = 0; c < count; ++c) {
    config.class_index = c;
    config.actions = &recording.actions[c];
    timelines.push_back(std::make_unique<RankTimeline>(config));
    for (uint32_t stream = 0; stream < timelines.back()->stream_count(); ++stream) {
      meetings.hold(config.first_hold++).owner = c;
    }
    queue.Wake(c);
  }
  std::vector<HoldId> settled;
  uint32_t c = 0;
  while (queue.Take(&c)) {
    timelines[c]->Advance(&meetings);
    recording.turns.push_back({c, static_cast<uint32_t>(recording.actions[c].size())});
    meetings.TakeSettled(&settled);
    for (HoldId hold : settled) {
      const uint32_t owner = meetings.hold(hold).owner;
      timelines[owner]->NoteSettled(hold);
      queue.Wake(owner);
    }
    queue.Done(c);
  }
  recording.finished = std::all_of(timelines.begin(), timelines.end(),
                                   [](const auto& timeline) { return timeline->finished(); });
  for (c = 0; recording.finished && c < count; ++c) {
    const size_t before = recording.actions[c].size();
    timelines[c]->RunAhead(&meetings);
    if (recording.actions[c].size() > before) {
      recording.turns.push_back({c, static_cast<uint32_t>(recording.actions[c].size())});
    }
  }
  return recording;
}

// Holds, transfers and meetings of all classes, from their actions in the order of the turns.
class MeetingFinder {
 public:
  MeetingFinder(const Partition& partition,
                const ReplayOptions& options,
                const CollectiveCost& cost,
                RecordedOrder* job)
      : partition_(partition), cost_(cost), job_(*job) {
    const auto iterations = static_cast<uint32_t>(options.iterations);
    uint32_t keys = 0;
    comm_keys_.resize(partition.comm_classes.size(), kNone);
    channel_keys_.resize(partition.channel_count, kNone);
    for (const RankClass& rank_class : partition.classes) {
      const RolePlan& plan = PlanOf(rank_class);
      for (uint32_t slot = 0; slot < rank_class.comms.size(); ++slot) {
        Reserve(plan.calls_per_slot[slot] * iterations,
                &comm_keys_[rank_class.comms[slot].comm_class], &keys);
      }
      for (uint32_t e = 0; e < plan.endpoints.size(); ++e) {
        if (rank_class.channels[e].channel != kNone) {
          Reserve(plan.endpoints[e].per_iteration * iterations,
                  &channel_keys_[rank_class.channels[e].channel], &keys);
        }
      }
    }
    open_.resize(keys);
    number_of_.resize(keys, kNone);
  }

  // The class arrives with the stream of the action.
  void Arrive(uint32_t class_index, ScheduledAction* scheduled) {
    ClassSchedule& schedule = job_.classes[class_index];
    const RankClass& rank_class = partition_.classes[class_index];
    const RolePlan& plan = PlanOf(rank_class);
    const Action& action = scheduled->action;
    const Step& step = plan.streams[action.stream][action.first];
    const auto hold = static_cast<uint32_t>(schedule.holds.size());
    const auto begin = static_cast<uint32_t>(schedule.transfers.size());
    scheduled->hold = hold;
    if (step.kind == StepKind::kCollective) {
      for (uint32_t c = step.aux; c != kNone; c = plan.calls[c].next_in_group) {
        const CollectiveCall& call = plan.calls[c];
        const uint32_t comm_class = rank_class.comms[call.comm_slot].comm_class;
        const uint32_t sequence =
            static_cast<uint32_t>(action.iteration) * plan.calls_per_slot[call.comm_slot] +
            call.sequence;
        Add(class_index,
            {comm_keys_[comm_class] + sequence, c, hold, TransferSide::kCollective, call.comm_slot},
            comm_class, partition_.comm_classes[comm_class].entry_count);
      }
    } else {
      const PeerPosts posts = plan.groups[step.aux];
      for (uint32_t p = posts.begin; p < posts.end; ++p) {
        const PeerPost& post = plan.posts[p];
        const Endpoint& endpoint = plan.endpoints[post.endpoint];
        const uint32_t sequence =
            static_cast<uint32_t>(action.iteration) * endpoint.per_iteration + post.sequence;
        const TransferSide side = !endpoint.is_send           ? TransferSide::kReceive
                                  : cost_.IsEager(post.bytes) ? TransferSide::kEagerSend
                                                              : TransferSide::kSend;
        Add(class_index,
            {channel_keys_[rank_class.channels[post.endpoint].channel] + sequence, p, hold, side,
             0},
            kNone, 2);
      }
    }
    schedule.holds.push_back({0, begin, static_cast<uint32_t>(schedule.transfers.size())});
  }

  // Keys of meetings become their numbers, in the order in which they settled.
  void Finish() {
    for (ClassSchedule& schedule : job_.classes) {
      for (ScheduledTransfer& transfer : schedule.transfers) {
        transfer.meeting = number_of_[transfer.meeting];
      }
    }
  }

  // The number for the key of a meeting that has settled.
  [[nodiscard]] uint32_t NumberOf(uint32_t key) const { return number_of_[key]; }

 private:
  [[nodiscard]] const RolePlan& PlanOf(const RankClass& rank_class) const {
    return partition_.plans[rank_class.groups.front().plan];
  }

  static void Reserve(uint32_t count, uint32_t* first, uint32_t* keys) {
    if (*first == kNone) {
      *first = *keys;
      *keys += count;
    }
  }

  void Add(uint32_t class_index,
           const ScheduledTransfer& transfer,
           uint32_t comm_class,
           uint32_t expected) {
    std::vector<ScheduledTransfer>& transfers = job_.classes[class_index].transfers;
    std::vector<Party>& open = open_[transfer.meeting];
    const Party party = {class_index, static_cast<uint32_t>(transfers.size())};
    transfers.push_back(transfer);
    const bool sends =
        transfer.side == TransferSide::kSend || transfer.side == TransferSide::kEagerSend;
    open.insert(sends ? open.begin() : open.end(), party);
    if (open.size() < expected) {
      return;
    }
    number_of_[transfer.meeting] = static_cast<uint32_t>(job_.meetings.size());
    job_.meetings.push_back({comm_class, static_cast<uint32_t>(job_.parties.size()), expected});
    job_.parties.insert(job_.parties.end(), open.begin(), open.end());
    std::vector<Party>().swap(open);
  }

  const Partition& partition_;
  const CollectiveCost& cost_;
  RecordedOrder& job_;
  std::vector<uint32_t> comm_keys_;       // by communicator class: key of its first collective
  std::vector<uint32_t> channel_keys_;    // by channel: key of its first message
  std::vector<std::vector<Party>> open_;  // by key: those that have arrived
  std::vector<uint32_t> number_of_;       // by key: meeting
};

// Gives every time a register for as long as it is read.
class RegisterAllocator {
 public:
  RegisterAllocator(const RolePlan& plan, int32_t iterations, ClassSchedule* schedule)
      : plan_(plan), schedule_(*schedule) {
    schedule_.register_count = static_cast<uint32_t>(plan.streams.size());
    event_end_.resize(size_t{plan.event_count} * (static_cast<size_t>(iterations) + 1), 0);
    event_register_.resize(event_end_.size(), kNone);
    iterations_ = iterations;
  }

  void Run() {
    FindLastReads();
    schedule_.first_register = Take();
    segment_register_.push_back(schedule_.first_register);
    const auto count = static_cast<uint32_t>(schedule_.actions.size());
    dying_.resize(size_t{count} + 1);
    Expire(segment_register_[0], segment_end_[0]);
    for (uint32_t i = 0; i < count; ++i) {
      Assign(&schedule_.actions[i]);
      free_.insert(free_.end(), dying_[i].begin(), dying_[i].end());
    }
    schedule_.last_register = segment_register_.back();
    for (uint32_t segment : start_segments_) {
      schedule_.start_registers.push_back(segment_register_[segment]);
    }
  }

 private:
  [[nodiscard]] uint32_t EventOf(const Action& action) const {
    if (action.kind == ActionKind::kHostWait) {
      const HostWait& wait = plan_.host_waits[action.first];
      return wait.kind == graph::OpKind::kEventSync ? Numbered(action, wait.event) : kNone;
    }
    if (action.kind != ActionKind::kRecord && action.kind != ActionKind::kWait) {
      return kNone;
    }
    return Numbered(action, plan_.streams[action.stream][action.first].aux);
  }

  [[nodiscard]] uint32_t Numbered(const Action& action, uint32_t event) const {
    return event == kNone ? kNone
                          : static_cast<uint32_t>(action.iteration) * plan_.event_count + event;
  }

  void FindLastReads() {
    const auto count = static_cast<uint32_t>(schedule_.actions.size());
    segment_end_ = {0};
    std::vector<OpPosition> begins = {0};  // by segment
    for (uint32_t i = 0; i < count; ++i) {
      const Action& action = schedule_.actions[i].action;
      segment_end_[action.segment] = i;
      const uint32_t event = EventOf(action);
      if (event != kNone) {
        event_end_[event] = i;
      }
      if (action.kind == ActionKind::kHostWait) {
        segment_end_.push_back(i);
        begins.push_back(OpPosition{action.iteration} * plan_.size() +
                         plan_.host_waits[action.first].op + 1);
      }
    }
    segment_end_.back() = count;
    // A rank without streams begins its iterations at its host time.
    for (int32_t i = 0; plan_.first_op == kNone && i <= iterations_; ++i) {
      const auto after =
          std::upper_bound(begins.begin(), begins.end(), OpPosition{i} * plan_.size());
      start_segments_.push_back(static_cast<uint32_t>(after - begins.begin()) - 1);
      segment_end_[start_segments_.back()] = count;
    }
  }

  uint32_t Take() {
    if (free_.empty()) {
      return schedule_.register_count++;
    }
    const uint32_t taken = free_.back();
    free_.pop_back();
    return taken;
  }

  // Nobody reads the register after that action.
  void Expire(uint32_t taken, uint32_t action) { dying_[action].push_back(taken); }

  void Assign(ScheduledAction* scheduled) {
    const Action& action = scheduled->action;
    scheduled->base = segment_register_[action.segment];
    const uint32_t event = EventOf(action);
    if (action.kind == ActionKind::kHostWait) {
      segment_register_.push_back(Take());
      scheduled->target = segment_register_.back();
      scheduled->source = event == kNone ? kNone : event_register_[event];
      Expire(scheduled->target, segment_end_[segment_register_.size() - 1]);
    } else if (action.kind == ActionKind::kRecord && event != kNone) {
      event_register_[event] = Take();
      scheduled->target = event_register_[event];
      Expire(scheduled->target, event_end_[event]);
    } else if (action.kind == ActionKind::kWait && event != kNone) {
      scheduled->source = event_register_[event];
    }
  }

  const RolePlan& plan_;
  ClassSchedule& schedule_;
  int32_t iterations_ = 0;
  std::vector<uint32_t> segment_end_;         // by segment: the last action that reads it
  std::vector<uint32_t> segment_register_;    // by segment
  std::vector<uint32_t> event_end_;           // by iteration and event: the last action that reads
                                              // it
  std::vector<uint32_t> event_register_;      // by iteration and event
  std::vector<uint32_t> start_segments_;      // by iteration, of a class without streams
  std::vector<std::vector<uint32_t>> dying_;  // by action: registers free after it
  std::vector<uint32_t> free_;
};

// Where the actions of each kind are.
void IndexActions(const RolePlan& plan, ClassSchedule* schedule) {
  schedule->of_stream.resize(plan.streams.size());
  for (uint32_t i = 0; i < schedule->actions.size(); ++i) {
    const ScheduledAction& scheduled = schedule->actions[i];
    switch (scheduled.action.kind) {
      case ActionKind::kHostWait:
        schedule->host_waits.push_back(i);
        break;
      case ActionKind::kStart:
        schedule->starts.resize(static_cast<size_t>(scheduled.action.iteration) + 1);
        schedule->starts.back() = i;
        break;
      case ActionKind::kFinish:
        break;
      case ActionKind::kArrive:
        schedule->holds[scheduled.hold].arrive = i;
        schedule->of_stream[scheduled.action.stream].push_back(i);
        break;
      default:
        schedule->of_stream[scheduled.action.stream].push_back(i);
        break;
    }
  }
}

// Copies the actions of the turns; finds their holds and, at the end of each turn, a cut.
class TurnReader {
 public:
  TurnReader(MeetingFinder* finder, RecordedOrder* job)
      : finder_(*finder), job_(*job), hold_of_(job->classes.size()), settled_(hold_of_.size(), 0) {
    for (ClassSchedule& schedule : job_.classes) {
      schedule.cuts.push_back({});
    }
  }

  void Read(const Turn& turn, const std::vector<Action>& actions) {
    ClassSchedule& schedule = job_.classes[turn.class_index];
    std::map<uint16_t, uint32_t>& hold_of = hold_of_[turn.class_index];
    for (auto i = static_cast<uint32_t>(schedule.actions.size()); i < turn.end; ++i) {
      ScheduledAction scheduled;
      scheduled.action = actions[i];
      if (actions[i].kind == ActionKind::kArrive) {
        finder_.Arrive(turn.class_index, &scheduled);
        hold_of[actions[i].stream] = scheduled.hold;
      } else if (actions[i].kind == ActionKind::kFinish) {
        const auto held = hold_of.find(actions[i].stream);
        scheduled.hold = held->second;
        hold_of.erase(held);
        Settle(turn.class_index, schedule.holds[scheduled.hold]);
      }
      schedule.actions.push_back(scheduled);
    }
    if (hold_of.empty()) {
      return;
    }
    Cut cut = {turn.end, settled_[turn.class_index], {}};
    for (const auto& [stream, hold] : hold_of) {
      cut.holding.push_back({stream, hold});
    }
    schedule.cuts.push_back(std::move(cut));
  }

 private:
  void Settle(uint32_t class_index, const ScheduledHold& hold) {
    const ClassSchedule& schedule = job_.classes[class_index];
    for (uint32_t t = hold.begin; t < hold.end; ++t) {
      // An eager send completes whether or not its receiver has arrived.
      if (schedule.transfers[t].side != TransferSide::kEagerSend) {
        settled_[class_index] =
            std::max(settled_[class_index], finder_.NumberOf(schedule.transfers[t].meeting) + 1);
      }
    }
  }

  MeetingFinder& finder_;
  RecordedOrder& job_;
  std::vector<std::map<uint16_t, uint32_t>> hold_of_;  // by class: held streams and their holds
  std::vector<uint32_t> settled_;                      // by class, as in Cut
};

}  // namespace

std::optional<RecordedOrder> MakeSchedule(const Partition& partition,
                                          const ReplayOptions& given,
                                          const CollectiveCost& cost) {
  const Partition one_lane = WithOneLane(partition);
  ReplayOptions options = given;
  options.breakdown = false;
  options.traced.clear();
  const Recording recording = Record(one_lane, options, cost);
  if (!recording.finished) {
    return std::nullopt;
  }
  RecordedOrder job;
  job.classes.resize(partition.classes.size());
  const auto plan_of = [&](size_t c) -> const RolePlan& {
    return partition.plans[partition.classes[c].groups.front().plan];
  };
  MeetingFinder finder(partition, options, cost, &job);
  TurnReader reader(&finder, &job);
  for (const Turn& turn : recording.turns) {
    reader.Read(turn, recording.actions[turn.class_index]);
  }
  finder.Finish();
  job.turns = recording.turns;
  for (size_t c = 0; c < job.classes.size(); ++c) {
    IndexActions(plan_of(c), &job.classes[c]);
    RegisterAllocator(plan_of(c), options.iterations, &job.classes[c]).Run();
  }
  return job;
}

}  // namespace prism::replayer
