// Heads, roles and notes ↔ chunks: everything that is one message per file or per role.
#include "graph/proto/codec.h"
#include "graph/proto/convert.h"

namespace prism::graph {

TableSizes SizesOf(const Graph& graph) {
  return {.strings = static_cast<uint32_t>(graph.strings.size()),
          .signatures = static_cast<uint32_t>(graph.signatures.size()),
          .roles = static_cast<uint32_t>(graph.roles.size()),
          .communicators = graph.communicators.size(),
          .ranks = graph.ranks.size()};
}

std::string EncodeHead(const Graph& graph) {
  proto::GraphHead head;
  ToMessage(graph.job, head.mutable_job());
  ToMessage(graph.cluster, head.mutable_cluster());
  const TableSizes sizes = SizesOf(graph);
  head.set_string_count(sizes.strings);
  head.set_signature_count(sizes.signatures);
  head.set_role_count(sizes.roles);
  head.set_communicator_count(sizes.communicators);
  head.set_rank_count(sizes.ranks);
  return head.SerializeAsString();
}

Status DecodeHead(std::string_view payload, TableSizes* sizes, Graph* graph) {
  proto::GraphHead head;
  PRISM_RETURN_IF_ERROR(Parse(
      payload, &head, {proto::GraphHead::kJobFieldNumber, proto::GraphHead::kClusterFieldNumber}));
  PRISM_RETURN_IF_ERROR(FromMessage(head.job(), &graph->job));
  PRISM_RETURN_IF_ERROR(FromMessage(head.cluster(), &graph->cluster));
  *sizes = {.strings = head.string_count(),
            .signatures = head.signature_count(),
            .roles = head.role_count(),
            .communicators = head.communicator_count(),
            .ranks = head.rank_count()};
  return OkStatus();
}

std::string EncodeRole(const Role& role) {
  proto::Role message;
  message.set_name(role.name);
  message.set_stage(role.stage);
  message.set_representative(role.representative.value());
  ToMessage(role.program, message.mutable_program());
  ToMessage(role.memory, message.mutable_memory());
  return message.SerializeAsString();
}

Status DecodeRole(std::string_view payload,
                  const TableSizes& sizes,
                  Role* role,
                  uint32_t* op_count) {
  proto::Role message;
  PRISM_RETURN_IF_ERROR(Parse(payload, &message, {proto::Role::kMemoryFieldNumber}));
  PRISM_RETURN_IF_ERROR(CheckIndex(message.representative(), sizes.ranks, "representative"));
  role->name = message.name();
  role->stage = message.stage();
  role->representative = Rank(message.representative());
  *op_count = message.program().op_count();
  PRISM_RETURN_IF_ERROR(FromMessage(message.memory(), &role->memory));
  return FromMessage(message.program(), &role->program);
}

std::string EncodeNotes(const Graph& graph) {
  proto::Notes notes;
  for (const Warning& warning : graph.warnings) {
    ToMessage(warning, notes.add_warnings());
  }
  for (const std::string& assumption : graph.assumptions) {
    notes.add_assumptions(assumption);
  }
  for (const Rank rank : graph.sandbox_ranks) {
    notes.add_sandbox_ranks(rank.value());
  }
  return notes.SerializeAsString();
}

Status DecodeNotes(std::string_view payload, const TableSizes& sizes, Graph* graph) {
  proto::Notes notes;
  PRISM_RETURN_IF_ERROR(Parse(payload, &notes));
  for (const proto::Warning& warning : notes.warnings()) {
    graph->warnings.push_back(FromMessage(warning));
  }
  for (const std::string& assumption : notes.assumptions()) {
    graph->assumptions.push_back(assumption);
  }
  for (const uint32_t rank : notes.sandbox_ranks()) {
    PRISM_RETURN_IF_ERROR(CheckIndex(rank, sizes.ranks, "sandbox rank"));
    if (!graph->sandbox_ranks.empty() && rank <= graph->sandbox_ranks.back().value()) {
      return BadFile("sandbox ranks are not ascending");
    }
    graph->sandbox_ranks.emplace_back(rank);
  }
  return OkStatus();
}

std::string EncodeFragmentHead(const Fragment& fragment) {
  proto::FragmentHead head;
  head.set_rank(fragment.rank.value());
  head.set_string_count(static_cast<uint32_t>(fragment.strings.size()));
  head.set_signature_count(static_cast<uint32_t>(fragment.signatures.size()));
  ToMessage(fragment.program, head.mutable_program());
  ToMessage(fragment.memory, head.mutable_memory());
  for (const FragmentCommunicator& communicator : fragment.comm_slots) {
    head.add_comm_name(communicator.name);
    head.add_comm_size(static_cast<uint32_t>(communicator.members.size()));
    head.add_comm_group_number(communicator.group_number);
    head.add_comm_backward_sum_bytes(communicator.backward_sum_bytes);
    for (const Rank member : communicator.members) {
      head.add_comm_member(member.value());
    }
  }
  for (const Rank peer : fragment.peer_slots) {
    head.add_peer_slot(peer.value());
  }
  for (const Warning& warning : fragment.warnings) {
    ToMessage(warning, head.add_warnings());
  }
  head.set_startup_seconds(fragment.startup_seconds);
  head.set_iteration_seconds(fragment.iteration_seconds);
  head.set_warmup_iterations(fragment.warmup_iterations);
  head.set_iterations(fragment.iterations);
  head.set_varies(fragment.varies);
  for (const int32_t odd : fragment.odd_iterations) {
    head.add_odd_iterations(odd);
  }
  head.set_iteration_begin(fragment.iteration_begin);
  head.set_steps_per_iteration(fragment.steps_per_iteration);
  head.set_rounds_left_out(fragment.rounds_left_out);
  for (const std::string& module : fragment.framework_modules) {
    head.add_framework_modules(module);
  }
  for (const HostTime& time : fragment.host_times) {
    proto::HostTime* message = head.add_host_times();
    message->set_kind(static_cast<uint32_t>(time.kind));
    message->set_is_product(time.is_product);
    message->set_phase(static_cast<uint32_t>(time.phase));
    message->set_framework_ops(static_cast<uint32_t>(time.framework_ops));
    message->set_calls(time.calls);
    message->set_total_ns(time.total_ns);
  }
  for (const EarlyGroup& group : fragment.early_groups) {
    proto::EarlyGroup* message = head.add_early_groups();
    message->set_identity(group.identity);
    for (const Rank member : group.members) {
      message->add_member(member.value());
    }
  }
  for (const EarlyCalls& calls : fragment.early_calls) {
    proto::EarlyCalls* message = head.add_early_calls();
    message->set_iteration(calls.iteration);
    message->set_sort(static_cast<uint32_t>(calls.sort));
    message->set_kind(static_cast<uint32_t>(calls.kind));
    message->set_root(calls.root);
    message->set_group(calls.group);
    message->set_count(calls.count);
  }
  return head.SerializeAsString();
}

namespace {

Status ReadEarlyCalls(const proto::FragmentHead& head, Fragment* fragment) {
  for (const proto::EarlyGroup& message : head.early_groups()) {
    EarlyGroup& group = fragment->early_groups.emplace_back();
    group.identity = message.identity();
    for (const uint32_t member : message.member()) {
      group.members.emplace_back(member);
    }
  }
  for (const proto::EarlyCalls& message : head.early_calls()) {
    if (message.sort() > static_cast<uint32_t>(EarlySort::kExchange) ||
        message.kind() > static_cast<uint32_t>(CollectiveKind::kScatter) ||
        message.group() >= fragment->early_groups.size()) {
      return BadFile("calls before the steady iteration are out of range");
    }
    fragment->early_calls.push_back({.iteration = message.iteration(),
                                     .sort = static_cast<EarlySort>(message.sort()),
                                     .kind = static_cast<CollectiveKind>(message.kind()),
                                     .root = message.root(),
                                     .group = message.group(),
                                     .count = message.count()});
  }
  return OkStatus();
}

Status ReadCommSlots(const proto::FragmentHead& head, std::vector<FragmentCommunicator>* slots) {
  if (head.comm_name_size() != head.comm_size_size() ||
      head.comm_name_size() != head.comm_group_number_size() ||
      head.comm_name_size() != head.comm_backward_sum_bytes_size()) {
    return BadFile("columns of communicators differ in length");
  }
  int next = 0;
  for (int slot = 0; slot < head.comm_name_size(); ++slot) {
    if (head.comm_size(slot) > static_cast<uint32_t>(head.comm_member_size() - next)) {
      return BadFile("communicators hold more members than there are");
    }
    FragmentCommunicator communicator{.name = head.comm_name(slot),
                                      .members = {},
                                      .group_number = head.comm_group_number(slot),
                                      .backward_sum_bytes = head.comm_backward_sum_bytes(slot)};
    for (uint32_t member = 0; member < head.comm_size(slot); ++member, ++next) {
      communicator.members.emplace_back(head.comm_member(next));
    }
    slots->push_back(std::move(communicator));
  }
  return next == head.comm_member_size() ? OkStatus() : BadFile("members of no communicator");
}

}  // namespace

Status DecodeFragmentHead(std::string_view payload,
                          TableSizes* sizes,
                          Fragment* fragment,
                          uint32_t* op_count) {
  proto::FragmentHead head;
  PRISM_RETURN_IF_ERROR(Parse(payload, &head, {proto::FragmentHead::kMemoryFieldNumber}));
  fragment->rank = Rank(head.rank());
  *sizes = {.strings = head.string_count(), .signatures = head.signature_count()};
  *op_count = head.program().op_count();
  PRISM_RETURN_IF_ERROR(FromMessage(head.program(), &fragment->program));
  PRISM_RETURN_IF_ERROR(FromMessage(head.memory(), &fragment->memory));
  PRISM_RETURN_IF_ERROR(ReadCommSlots(head, &fragment->comm_slots));
  for (const uint32_t peer : head.peer_slot()) {
    fragment->peer_slots.emplace_back(peer);
  }
  if (fragment->comm_slots.size() != fragment->program.comm_slot_count ||
      fragment->peer_slots.size() != fragment->program.peer_slot_count) {
    return BadFile("slots do not match the program");
  }
  for (const proto::Warning& warning : head.warnings()) {
    fragment->warnings.push_back(FromMessage(warning));
  }
  fragment->startup_seconds = head.startup_seconds();
  fragment->iteration_seconds = head.iteration_seconds();
  fragment->warmup_iterations = head.warmup_iterations();
  fragment->iterations = head.iterations();
  fragment->varies = head.varies();
  fragment->odd_iterations.assign(head.odd_iterations().begin(), head.odd_iterations().end());
  fragment->iteration_begin = head.iteration_begin();
  fragment->steps_per_iteration = head.steps_per_iteration();
  fragment->rounds_left_out = head.rounds_left_out();
  fragment->framework_modules.assign(head.framework_modules().begin(),
                                     head.framework_modules().end());
  for (const proto::HostTime& time : head.host_times()) {
    if (time.kind() >= kOpKindCount || time.phase() >= kHostPhaseNames.size() ||
        time.framework_ops() > static_cast<uint32_t>(kMostFrameworkOps)) {
      return BadFile("a host time is of an unknown sort");
    }
    fragment->host_times.push_back(
        {static_cast<OpKind>(time.kind()), time.is_product(), static_cast<HostPhase>(time.phase()),
         static_cast<int32_t>(time.framework_ops()), time.calls(), time.total_ns()});
  }
  return ReadEarlyCalls(head, fragment);
}

}  // namespace prism::graph
