#include "graph/proto/convert.h"

#include <algorithm>
#include <type_traits>

#include <google/protobuf/io/coded_stream.h>

#include "graph/job/fields.h"
#include "graph/job/whole_program.h"

namespace prism::graph {
namespace {

// Each plain field of a message is stated once, for both directions: a struct that is const is
// written to the message, another one is read from it.
#define PRISM_FIELD(member, field)       \
  if constexpr (std::is_const_v<Spec>) { \
    message->set_##field(spec->member);  \
  } else {                               \
    spec->member = message->field();     \
  }

template <typename Spec, typename Message>
void CopyModel(Spec* spec, Message* message) {
  PRISM_FIELD(name, name)
  PRISM_FIELD(source, source)
  PRISM_FIELD(seq_len, seq_len)
  PRISM_MODEL_FIELDS(PRISM_FIELD)
}

template <typename Spec, typename Message>
void CopyFacts(Spec* spec, Message* message) {
  PRISM_FACT_FIELDS(PRISM_FIELD)
}

template <typename Spec, typename Message>
void CopyJob(Spec* spec, Message* message) {
  PRISM_FIELD(name, name)
  PRISM_FIELD(user_program, user_program)
  PRISM_LAYOUT_FIELDS(PRISM_FIELD)
  PRISM_FIELD(zero_stage, zero_stage)
  PRISM_FIELD(seed, seed)
  CopyFacts(&spec->facts, message);
}

template <typename Spec, typename Message>
void CopyNetwork(Spec* spec, Message* message) {
  PRISM_TREE_FIELDS(PRISM_FIELD)
  PRISM_NETWORK_FIELDS(PRISM_FIELD)
}

template <typename Spec, typename Message>
void CopyGpu(Spec* spec, Message* message) {
  PRISM_FIELD(name, gpu_name)
  PRISM_GPU_FIELDS(PRISM_FIELD)
}

template <typename Spec, typename Message>
void CopyCluster(Spec* spec, Message* message) {
  PRISM_FIELD(name, name)
  PRISM_FIELD(source, source)
  PRISM_FIELD(gpus_per_node, gpus_per_node)
  CopyGpu(&spec->gpu, message);
}

template <typename Spec, typename Message>
void CopyMemory(Spec* spec, Message* message) {
  PRISM_FIELD(peak_allocated, peak_allocated)
  PRISM_FIELD(peak_reserved, peak_reserved)
  PRISM_FIELD(steady_allocated, steady_allocated)
  PRISM_FIELD(peak_op, peak_op)
  PRISM_FIELD(peak_phase, peak_phase)
  PRISM_FIELD(layout_hash, layout_hash)
}

#undef PRISM_FIELD

void ToMessage(const MemoryClass& part, proto::MemoryClass* message) {
  message->set_name(part.name);
  message->set_bytes(part.bytes);
  message->set_mark(static_cast<uint32_t>(part.mark));
}

template <typename Messages>
Status FromMessages(const Messages& messages, std::vector<MemoryClass>* parts) {
  for (const proto::MemoryClass& message : messages) {
    MemoryClass part{.name = message.name(), .bytes = message.bytes()};
    PRISM_RETURN_IF_ERROR(ReadEnum(message.mark(), Mark::kAssumed, &part.mark));
    parts->push_back(std::move(part));
  }
  return OkStatus();
}

Status ReadCollectives(const proto::ProgramHead& message, Program* program) {
  const int count = message.collective_kind_size();
  if (message.collective_dtype_size() != count || message.collective_reduce_size() != count ||
      message.collective_root_size() != count || message.collective_bytes_size() != count) {
    return BadFile("columns of collectives differ in length");
  }
  for (int index = 0; index < count; ++index) {
    CollectiveShape shape{.root = message.collective_root(index),
                          .bytes = message.collective_bytes(index)};
    PRISM_RETURN_IF_ERROR(
        ReadEnum(message.collective_kind(index), CollectiveKind::kScatter, &shape.kind));
    PRISM_RETURN_IF_ERROR(
        ReadEnum(message.collective_dtype(index), DataType::kFloat64, &shape.dtype));
    PRISM_RETURN_IF_ERROR(
        ReadEnum(message.collective_reduce(index), ReduceOp::kAvg, &shape.reduce));
    program->collectives.push_back(shape);
  }
  return OkStatus();
}

Status ReadTransfer(const proto::ProgramHead& message,
                    int index,
                    const Program& program,
                    PeerTransfer* transfer) {
  transfer->is_send = message.transfer_is_send(index) != 0;
  transfer->bytes = message.transfer_bytes(index);
  PRISM_RETURN_IF_ERROR(ReadSlot(message.transfer_comm_slot(index), &transfer->comm_slot));
  PRISM_RETURN_IF_ERROR(ReadSlot(message.transfer_peer_slot(index), &transfer->peer_slot));
  PRISM_RETURN_IF_ERROR(
      CheckIndex(transfer->comm_slot, program.comm_slot_count, "communicator slot"));
  return CheckIndex(transfer->peer_slot, program.peer_slot_count, "peer slot");
}

Status ReadPeerGroups(const proto::ProgramHead& message, Program* program) {
  const int count = message.transfer_is_send_size();
  if (message.transfer_comm_slot_size() != count || message.transfer_peer_slot_size() != count ||
      message.transfer_bytes_size() != count) {
    return BadFile("columns of transfers differ in length");
  }
  int next = 0;
  for (const uint32_t size : message.group_size()) {
    if (size > static_cast<uint32_t>(count - next)) {
      return BadFile("peer groups hold more transfers than there are");
    }
    PeerGroup group;
    for (uint32_t member = 0; member < size; ++member, ++next) {
      PRISM_RETURN_IF_ERROR(ReadTransfer(message, next, *program, &group.transfers.emplace_back()));
    }
    program->peer_groups.push_back(std::move(group));
  }
  return next == count ? OkStatus() : BadFile("transfers outside of any peer group");
}

}  // namespace

size_t EntriesOf(std::string_view payload, std::initializer_list<int> fields) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(payload.data()),
                                            static_cast<int>(payload.size()));
  size_t entries = 0;
  bool goes_on = true;
  while (goes_on) {
    const uint32_t tag = in.ReadTag();
    uint64_t number = 0;
    switch (tag & 7U) {  // what no message has ends it here and fails when it is parsed
      case 0:
        goes_on = tag != 0 && in.ReadVarint64(&number);
        break;
      case 1:
        goes_on = in.Skip(8);
        break;
      case 2: {
        goes_on = in.ReadVarint64(&number) && number <= payload.size();
        const auto begin = static_cast<size_t>(in.CurrentPosition());
        if (goes_on && std::ranges::find(fields, static_cast<int>(tag >> 3U)) != fields.end()) {
          entries += EntriesOf(payload.substr(begin, number), {});
        }
        goes_on = goes_on && in.Skip(static_cast<int>(number));
        ++entries;
        break;
      }
      default:
        goes_on = (tag & 7U) == 5 && in.Skip(4);
    }
  }
  return entries;
}

void ToMessage(const JobSpec& job, proto::Job* message) {
  CopyJob(&job, message);
  CopyModel(&job.model, message->mutable_model());
  message->mutable_model()->set_block(static_cast<uint32_t>(job.model.block));
  message->set_recompute(static_cast<uint32_t>(job.recompute));
  message->set_compute_dtype(static_cast<uint32_t>(job.compute_dtype));
  for (const GridAxis& axis : job.facts.axes) {
    message->add_axis_name(axis.name);
    message->add_axis_size(axis.size);
  }
}

Status FromMessage(const proto::Job& message, JobSpec* job) {
  CopyJob(job, &message);
  CopyModel(&job->model, &message.model());
  job->parallel.etp = std::max(job->parallel.etp, 1);
  if (int32_t& steps = job->facts.steps_per_iteration; steps != kWholeProgram) {
    steps = std::max(1, steps);
  }
  PRISM_RETURN_IF_ERROR(ReadEnum(message.model().block(), BlockKind::kNemotron, &job->model.block));
  PRISM_RETURN_IF_ERROR(ReadEnum(message.recompute(), Recompute::kFull, &job->recompute));
  PRISM_RETURN_IF_ERROR(ReadEnum(message.compute_dtype(), DataType::kFloat64, &job->compute_dtype));
  if (message.axis_name_size() != message.axis_size_size()) {
    return BadFile("columns of axes differ in length");
  }
  int64_t ranks = 1;
  for (int axis = 0; axis < message.axis_name_size(); ++axis) {
    job->facts.axes.push_back({message.axis_name(axis), message.axis_size(axis)});
    ranks *= std::max(message.axis_size(axis), 0);
    if (ranks > job->parallel.world_size()) {
      break;
    }
  }
  if (message.axis_name_size() > 0 && ranks != job->parallel.world_size()) {
    return BadFile("axes do not make up the ranks");
  }
  return OkStatus();
}

namespace {

Status FromMessage(const proto::Network& message, NetworkSpec* network) {
  PRISM_RETURN_IF_ERROR(ReadEnum(message.kind(), FabricKind::kTorus, &network->kind));
  PRISM_RETURN_IF_ERROR(
      ReadEnum(message.routing(), FabricRouting::kDimensionOrder, &network->routing));
  CopyNetwork(network, &message);
  if (message.torus_size() != static_cast<int>(network->torus.size())) {
    return BadFile(fmt::format("a torus of {} dimensions instead of 3", message.torus_size()));
  }
  std::copy(message.torus().begin(), message.torus().end(), network->torus.begin());
  return OkStatus();
}

}  // namespace

void ToMessage(const ClusterSpec& cluster, proto::Cluster* message) {
  CopyCluster(&cluster, message);
  for (const Parameter& parameter : cluster.parameters.all()) {
    proto::Parameter* entry = message->add_parameters();
    entry->set_key(parameter.key);
    entry->set_value(parameter.value);
    entry->set_unit(parameter.unit);
    entry->set_source(parameter.source);
    entry->set_mark(static_cast<uint32_t>(parameter.mark));
  }
  proto::Network* network = message->mutable_network();
  CopyNetwork(&cluster.network, network);
  network->set_kind(static_cast<uint32_t>(cluster.network.kind));
  network->set_routing(static_cast<uint32_t>(cluster.network.routing));
  for (const int32_t nodes : cluster.network.torus) {
    network->add_torus(nodes);
  }
}

Status FromMessage(const proto::Cluster& message, ClusterSpec* cluster) {
  CopyCluster(cluster, &message);
  std::vector<Parameter> parameters;
  for (const proto::Parameter& entry : message.parameters()) {
    // The table checks that keys are distinct; a file must not reach that check.
    if (!parameters.empty() && entry.key() <= parameters.back().key) {
      return BadFile(fmt::format("parameter {} is out of order", entry.key()));
    }
    Parameter parameter{
        .key = entry.key(), .value = entry.value(), .unit = entry.unit(), .source = entry.source()};
    PRISM_RETURN_IF_ERROR(ReadEnum(entry.mark(), Mark::kAssumed, &parameter.mark));
    parameters.push_back(std::move(parameter));
  }
  cluster->parameters = ParameterTable(std::move(parameters));
  return message.has_network() ? FromMessage(message.network(), &cluster->network) : OkStatus();
}

void ToMessage(const MemoryProfile& memory, proto::Memory* message) {
  CopyMemory(&memory, message);
  for (const MemoryClass& part : memory.at_peak) {
    ToMessage(part, message->add_at_peak());
  }
  for (const MemoryClass& part : memory.outside) {
    ToMessage(part, message->add_outside());
  }
}

Status FromMessage(const proto::Memory& message, MemoryProfile* memory) {
  CopyMemory(memory, &message);
  PRISM_RETURN_IF_ERROR(FromMessages(message.at_peak(), &memory->at_peak));
  return FromMessages(message.outside(), &memory->outside);
}

void ToMessage(const Program& program, proto::ProgramHead* message) {
  message->set_op_count(program.size());
  message->set_stream_count(program.stream_count);
  message->set_comm_slot_count(program.comm_slot_count);
  message->set_peer_slot_count(program.peer_slot_count);
  for (const CollectiveShape& shape : program.collectives) {
    message->add_collective_kind(static_cast<uint32_t>(shape.kind));
    message->add_collective_dtype(static_cast<uint32_t>(shape.dtype));
    message->add_collective_reduce(static_cast<uint32_t>(shape.reduce));
    message->add_collective_root(shape.root);
    message->add_collective_bytes(shape.bytes);
  }
  for (const PeerGroup& group : program.peer_groups) {
    message->add_group_size(static_cast<uint32_t>(group.transfers.size()));
    for (const PeerTransfer& transfer : group.transfers) {
      message->add_transfer_is_send(transfer.is_send ? 1 : 0);
      message->add_transfer_comm_slot(transfer.comm_slot);
      message->add_transfer_peer_slot(transfer.peer_slot);
      message->add_transfer_bytes(transfer.bytes);
    }
  }
}

Status FromMessage(const proto::ProgramHead& message, Program* program) {
  PRISM_RETURN_IF_ERROR(ReadSlot(message.stream_count(), &program->stream_count));
  PRISM_RETURN_IF_ERROR(ReadSlot(message.comm_slot_count(), &program->comm_slot_count));
  PRISM_RETURN_IF_ERROR(ReadSlot(message.peer_slot_count(), &program->peer_slot_count));
  PRISM_RETURN_IF_ERROR(ReadCollectives(message, program));
  return ReadPeerGroups(message, program);
}

void ToMessage(const Warning& warning, proto::Warning* message) {
  message->set_code(warning.code);
  message->set_count(warning.count);
  message->set_example(warning.example);
}

Warning FromMessage(const proto::Warning& message) {
  return {.code = message.code(), .count = message.count(), .example = message.example()};
}

}  // namespace prism::graph
