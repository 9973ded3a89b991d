// Who waits for whom when an engine cannot advance.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "replayer/engine/engine_impl.h"

namespace prism::replayer {

std::string Engine::Impl::NameOf(uint32_t c) const {
  const RankClass& rank_class = partition_.classes[c];
  const std::string& role = graph_.roles[rank_class.role].name;
  std::vector<std::string> more;
  if (!role.empty()) {
    more.push_back(role);
  }
  if (rank_class.size > 1) {
    more.push_back(fmt::format("{} more like it", rank_class.size - 1));
  }
  const std::string name = fmt::format("rank {}", rank_class.representative.value());
  return more.empty() ? name : fmt::format("{} ({})", name, fmt::join(more, "; "));
}

Engine::Impl::StallLine Engine::Impl::DescribeCollective(uint32_t c, OpPosition position) const {
  const RankClass& rank_class = partition_.classes[c];
  const RolePlan& plan = partition_.plans[rank_class.groups.front().plan];
  const graph::Program& program = *plan.program;
  auto op = static_cast<uint32_t>(position % plan.size());
  auto iteration = position / plan.size();
  uint32_t sequence = 0;
  for (uint32_t earlier = 0; earlier < op; ++earlier) {
    sequence += program.kind[earlier] == graph::OpKind::kCollective &&
                        program.comm_slot[earlier] == program.comm_slot[op]
                    ? 1
                    : 0;
  }
  const graph::CollectiveShape& shape = program.collectives[program.signature[op]];
  const CommEntry& entry = rank_class.comms[program.comm_slot[op]];
  uint32_t comm = graph_.ranks.comms(rank_class.representative)[program.comm_slot[op]];
  const std::string& comm_name = graph_.string(StringId(graph_.communicators.name[comm]));
  StallLine line;
  line.text = fmt::format("{} waits in {} number {} of {} (op {}, iteration {}, {} bytes)",
                          NameOf(c), graph::CollectiveKindName(shape.kind), sequence,
                          comm_name.empty() ? fmt::format("communicator {}", comm) : comm_name, op,
                          iteration, shape.bytes);
  int64_t global = iteration * plan.calls_per_slot[program.comm_slot[op]] + sequence;
  std::vector<uint32_t> missing = meetings_.MissingEntries(entry.comm_class, global);
  for (uint32_t other = 0; other < partition_.classes.size() && line.waits_for == kNone; ++other) {
    for (const CommEntry& held : partition_.classes[other].comms) {
      if (held.comm_class == entry.comm_class && std::ranges::binary_search(missing, held.entry)) {
        line.waits_for = other;
        break;
      }
    }
  }
  if (line.waits_for != kNone) {
    line.text += fmt::format(" for {}", NameOf(line.waits_for));
    if (missing.size() > 1) {
      line.text += fmt::format(" and {} more", missing.size() - 1);
    }
  }
  return line;
}

Engine::Impl::StallLine Engine::Impl::DescribePeers(uint32_t c, OpPosition position) const {
  const RankClass& rank_class = partition_.classes[c];
  const RolePlan& plan = partition_.plans[rank_class.groups.front().plan];
  auto op = static_cast<uint32_t>(position % plan.size());
  StallLine line;
  line.text = fmt::format("{} waits in a peer group (op {}, iteration {})", NameOf(c), op,
                          position / plan.size());
  for (const graph::PeerTransfer& transfer :
       plan.program->peer_groups[plan.program->signature[op]].transfers) {
    uint32_t peer = graph_.ranks.peers(rank_class.representative)[transfer.peer_slot];
    line.text +=
        fmt::format(", {} rank {} {} bytes", transfer.is_send ? "to send" : "to receive from", peer,
                    transfer.bytes);
    uint32_t other = partition_.class_of[peer];
    if (line.waits_for == kNone && !timelines_[other]->finished()) {
      line.waits_for = other;
    }
  }
  return line;
}

Engine::Impl::StallLine Engine::Impl::DescribeClass(uint32_t c) const {
  Obstacle obstacle = timelines_[c]->FindObstacle();
  const RolePlan& plan = timelines_[c]->plan();
  switch (obstacle.kind) {
    case Obstacle::Kind::kNothing:
      return {fmt::format("{} has finished", NameOf(c)), kNone};
    case Obstacle::Kind::kGate:
      return {fmt::format("{} has issued nothing from op {} of iteration {} on", NameOf(c),
                          obstacle.position % plan.size(), obstacle.position / plan.size()),
              kNone};
    case Obstacle::Kind::kKilled:
      return {fmt::format("{} was killed at the start of iteration {}", NameOf(c),
                          obstacle.position / plan.size()),
              kNone};
    case Obstacle::Kind::kCollective:
      return DescribeCollective(c, obstacle.position);
    case Obstacle::Kind::kPeers:
      return DescribePeers(c, obstacle.position);
    case Obstacle::Kind::kEvent:
      break;
  }
  return {fmt::format("{} waits at op {} of iteration {} for an event that is never recorded",
                      NameOf(c), obstacle.position % plan.size(), obstacle.position / plan.size()),
          kNone};
}

std::vector<std::string> Engine::Impl::DescribeStall() const {
  auto count = static_cast<uint32_t>(partition_.classes.size());
  std::vector<StallLine> lines(count);
  std::vector<bool> listed(count);
  uint32_t first = kNone;
  for (uint32_t c = 0; c < count; ++c) {
    listed[c] = timelines_[c]->finished();
    if (!listed[c]) {
      lines[c] = DescribeClass(c);
      first = first == kNone ? c : first;
    }
  }
  std::vector<std::string> result;
  for (uint32_t c = first; c != kNone && !listed[c]; c = lines[c].waits_for) {
    listed[c] = true;
    result.push_back(lines[c].text);
  }
  std::ranges::reverse(result);  // what the others wait for comes first
  for (uint32_t c = 0; c < count; ++c) {
    if (!listed[c]) {
      result.push_back(lines[c].text);
    }
  }
  return result;
}

Status StallStatus(const Engine& engine) {
  constexpr size_t kLinesShown = 3;
  std::vector<std::string> lines = engine.DescribeStall();
  size_t hidden = lines.size() - std::min(lines.size(), kLinesShown);
  lines.resize(lines.size() - hidden);
  if (hidden > 0) {
    lines.push_back(fmt::format("{} more wait", hidden));
  }
  return RunFailed(fmt::format("the replay stalls: {}", fmt::join(lines, "; ")));
}

}  // namespace prism::replayer
