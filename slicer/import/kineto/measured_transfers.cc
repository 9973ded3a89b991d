#include "slicer/import/kineto/measured_transfers.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "graph/program/collective_kinds.h"

namespace prism::slicer {
namespace {

using graph::CollectiveKind;
using graph::OpKind;

// The n-th collective on an axis.
using Place = std::pair<AxisKey, uint32_t>;

// Calls `visit(op, place)` for the collectives of a program.
template <typename Step, typename Visit>
void VisitCollectives(Step& step, const Visit& visit) {
  std::vector<uint32_t> sequence(step.groups.size());
  const graph::Program& program = step.program;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == OpKind::kCollective) {
      const uint16_t slot = program.comm_slot[op];
      visit(op, Place(step.groups[slot].Key(), sequence[slot]++));
    }
  }
}

const graph::CollectiveShape& ShapeAt(const StepProgram& step, uint32_t op) {
  return step.program.collectives[step.program.signature[op]];
}

void Resize(uint32_t op, int64_t bytes, graph::Program* program) {
  graph::CollectiveShape shape = program->collectives[program->signature[op]];
  shape.bytes = bytes;
  program->signature[op] = graph::IndexOfShape(shape, &program->collectives);
}

// Messages of a program by the rank at their other end, in order.
using MessagesByPeer = std::map<std::pair<uint32_t, bool>, std::vector<StepMessage*>>;

MessagesByPeer ByPeer(StepProgram* step) {
  MessagesByPeer by_peer;
  for (StepMessage& message : step->messages) {
    by_peer[{message.peer, message.is_send}].push_back(&message);
  }
  return by_peer;
}

void MakeTransfer(const StepMessage& message, DurationNs duration, StepProgram* step) {
  graph::Program& program = step->program;
  const auto known = std::ranges::find(step->peers, message.peer);
  const auto peer = static_cast<uint16_t>(known - step->peers.begin());
  if (known == step->peers.end()) {
    step->peers.push_back(message.peer);
  }
  const graph::PeerGroup group = {
      {{message.is_send, SlotOf(message.axis, &step->groups), peer, message.bytes}}};
  const auto same = std::ranges::find(program.peer_groups, group);
  const auto index = static_cast<uint32_t>(same - program.peer_groups.begin());
  if (same == program.peer_groups.end()) {
    program.peer_groups.push_back(group);
  }
  program.kind[message.op] = OpKind::kPeerGroup;
  program.signature[message.op] = index;
  program.value.Set(message.op, duration);
}

// The same collective in the profiles of several ranks: the profile, and its number there.
using Meetings = std::map<std::tuple<Place, uint32_t>, std::vector<std::pair<size_t, size_t>>>;

Meetings MeetingsOf(const std::map<uint32_t, size_t>& program_of,
                    uint32_t world,
                    const std::vector<StepProgram>& programs) {
  Meetings meetings;
  for (const auto& [rank, index] : program_of) {
    const StepProgram& step = programs[index];
    std::map<AxisKey, uint32_t> leaders;
    for (const ProcessAxis& axis : step.groups) {
      const auto group = GroupOn(axis, Rank(rank), world, world);
      leaders[axis.Key()] = group ? group->front() : rank;
    }
    size_t number = 0;
    VisitCollectives(step, [&](uint32_t, const Place& place) {
      meetings[{place, leaders.at(place.first)}].emplace_back(index, number++);
    });
  }
  return meetings;
}

// Differences of two clocks, by the profiles.
using ClockPairs = std::map<std::pair<size_t, size_t>, std::vector<DurationNs>>;

ClockPairs ComparedClocks(const Meetings& meetings, const std::vector<StepProgram>& programs) {
  ClockPairs pairs;
  for (const auto& [place, met] : meetings) {
    const auto end_of = [&](const std::pair<size_t, size_t>& member) {
      return programs[member.first].collective_ends_ns[member.second];
    };
    for (const auto& member : met) {
      const DurationNs ahead = end_of(member) - end_of(met.front());
      pairs[{met.front().first, member.first}].push_back(ahead);
      pairs[{member.first, met.front().first}].push_back(-ahead);
    }
  }
  return pairs;
}

DurationNs MedianOf(std::vector<DurationNs> values) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

int64_t EvenOutExchanges(std::vector<StepProgram>* programs) {
  std::map<Place, int64_t> largest;
  const auto is_exchange = [](const StepProgram& step, uint32_t op) {
    return ShapeAt(step, op).kind == CollectiveKind::kAllToAll;
  };
  for (const StepProgram& step : *programs) {
    VisitCollectives(step, [&](uint32_t op, const Place& place) {
      if (is_exchange(step, op)) {
        int64_t& bytes = largest[place];
        bytes = std::max(bytes, ShapeAt(step, op).bytes);
      }
    });
  }
  int64_t changed = 0;
  for (StepProgram& step : *programs) {
    VisitCollectives(step, [&](uint32_t op, const Place& place) {
      if (is_exchange(step, op) && ShapeAt(step, op).bytes < largest.at(place)) {
        Resize(op, largest.at(place), &step.program);
        ++changed;
      }
    });
  }
  return changed;
}

void ShareShortestTimes(std::vector<StepProgram>* programs) {
  std::map<std::tuple<AxisKey, CollectiveKind, int64_t>, DurationNs> shortest;
  const auto known_of = [&](const StepProgram& step, uint32_t op, const Place& place) -> auto& {
    const graph::CollectiveShape& shape = ShapeAt(step, op);
    return shortest.try_emplace({place.first, shape.kind, shape.bytes}, step.program.value[op])
        .first->second;
  };
  for (const StepProgram& step : *programs) {
    VisitCollectives(step, [&](uint32_t op, const Place& place) {
      DurationNs& known = known_of(step, op, place);
      known = std::min<DurationNs>(known, step.program.value[op]);
    });
  }
  for (StepProgram& step : *programs) {
    VisitCollectives(step, [&](uint32_t op, const Place& place) {
      if (ShapeAt(step, op).bytes > 0) {
        step.program.value.Set(op, known_of(step, op, place));
      }
    });
  }
}

int64_t PairMessages(const std::map<uint32_t, size_t>& program_of,
                     std::vector<StepProgram>* programs) {
  std::vector<MessagesByPeer> of_program;
  int64_t unpaired = 0;
  for (StepProgram& step : *programs) {
    of_program.push_back(ByPeer(&step));
    unpaired += std::ssize(step.messages);
  }
  const auto end_for = [](const StepMessage& a, const StepMessage& b) {
    return a.bytes == b.bytes && a.axis.Key() == b.axis.Key();
  };
  for (const auto& [rank, index] : program_of) {
    for (const auto& [direction, sends] : of_program[index]) {
      const auto peer = program_of.find(direction.first);
      if (!direction.second || peer == program_of.end()) {
        continue;
      }
      const std::vector<StepMessage*>& receives = of_program[peer->second][{rank, false}];
      const auto fits = [&](const StepMessage* a, const StepMessage* b) { return end_for(*a, *b); };
      if (!std::ranges::equal(sends, receives, fits)) {
        continue;
      }
      for (size_t i = 0; i < sends.size(); ++i) {
        const DurationNs time = std::min(sends[i]->shortest_ns, receives[i]->shortest_ns);
        MakeTransfer(*sends[i], time, &(*programs)[index]);
        MakeTransfer(*receives[i], time, &(*programs)[peer->second]);
        unpaired -= 2;
      }
    }
  }
  return unpaired;
}

std::vector<DurationNs> ClockOffsets(const std::map<uint32_t, size_t>& program_of,
                                     uint32_t world,
                                     const std::vector<StepProgram>& programs) {
  const ClockPairs pairs = ComparedClocks(MeetingsOf(program_of, world, programs), programs);
  std::vector<std::optional<DurationNs>> offsets(programs.size());
  offsets.at(0) = 0;
  std::vector<size_t> known = {0};
  for (size_t next = 0; next < known.size(); ++next) {
    const size_t from = known[next];
    for (auto at = pairs.lower_bound({from, 0}); at != pairs.end() && at->first.first == from;
         ++at) {
      if (!offsets[at->first.second]) {
        offsets[at->first.second] = *offsets[from] + MedianOf(at->second);
        known.push_back(at->first.second);
      }
    }
  }
  std::vector<DurationNs> result;
  for (const std::optional<DurationNs>& offset : offsets) {
    result.push_back(offset.value_or(0));
  }
  return result;
}

std::vector<DurationNs> Lateness(const std::map<uint32_t, size_t>& program_of,
                                 uint32_t world,
                                 const std::vector<StepProgram>& programs) {
  std::vector<DurationNs> late(programs.size());
  for (const auto& [place, met] : MeetingsOf(program_of, world, programs)) {
    std::vector<DurationNs> times;
    for (const auto& [index, number] : met) {
      times.push_back(programs[index].collective_times_ns[number]);
    }
    const DurationNs median = MedianOf(times);
    for (size_t i = 0; i < met.size(); ++i) {
      late[met[i].first] += median - times[i];
    }
  }
  return late;
}

}  // namespace prism::slicer
