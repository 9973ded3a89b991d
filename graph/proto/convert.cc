#include "graph/proto/convert.h"

#include <algorithm>

namespace prism::graph {
namespace {

void ToMessage(const ModelSpec& model, proto::Model* message) {
  message->set_name(model.name);
  message->set_source(model.source);
  message->set_block(static_cast<uint32_t>(model.block));
  message->set_layers(model.layers);
  message->set_hidden(model.hidden);
  message->set_heads(model.heads);
  message->set_kv_heads(model.kv_heads);
  message->set_ffn(model.ffn);
  message->set_vocab(model.vocab);
  message->set_seq_len(model.seq_len);
  message->set_tied_embeddings(model.tied_embeddings);
  message->set_head_dim(model.head_dim);
  message->set_sliding_window(model.sliding_window);
  message->set_experts(model.moe.experts);
  message->set_moe_topk(model.moe.topk);
  message->set_expert_ffn(model.moe.expert_ffn);
  message->set_shared_expert_ffn(model.moe.shared_expert_ffn);
  message->set_dense_layers(model.moe.dense_layers);
  message->set_latent_q_rank(model.latent.q_rank);
  message->set_latent_kv_rank(model.latent.kv_rank);
  message->set_latent_rope_dim(model.latent.rope_dim);
  message->set_latent_value_dim(model.latent.value_dim);
  message->set_mtp_layers(model.mtp_layers);
  message->set_moe_biased(model.moe.biased);
}

Status FromMessage(const proto::Model& message, ModelSpec* model) {
  model->name = message.name();
  model->source = message.source();
  PRISM_RETURN_IF_ERROR(ReadEnum(message.block(), BlockKind::kNemotron, &model->block));
  model->layers = message.layers();
  model->hidden = message.hidden();
  model->heads = message.heads();
  model->kv_heads = message.kv_heads();
  model->ffn = message.ffn();
  model->vocab = message.vocab();
  model->seq_len = message.seq_len();
  model->tied_embeddings = message.tied_embeddings();
  model->head_dim = message.head_dim();
  model->sliding_window = message.sliding_window();
  model->moe = {.experts = message.experts(),
                .topk = message.moe_topk(),
                .expert_ffn = message.expert_ffn(),
                .shared_expert_ffn = message.shared_expert_ffn(),
                .dense_layers = message.dense_layers(),
                .biased = message.moe_biased()};
  model->latent = {.q_rank = message.latent_q_rank(),
                   .kv_rank = message.latent_kv_rank(),
                   .rope_dim = message.latent_rope_dim(),
                   .value_dim = message.latent_value_dim()};
  model->mtp_layers = message.mtp_layers();
  return OkStatus();
}

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

void ToMessage(const JobSpec& job, proto::Job* message) {
  message->set_name(job.name);
  message->set_user_program(job.user_program);
  ToMessage(job.model, message->mutable_model());
  message->set_tp(job.parallel.tp);
  message->set_cp(job.parallel.cp);
  message->set_dp(job.parallel.dp);
  message->set_pp(job.parallel.pp);
  message->set_ep(job.parallel.ep);
  message->set_vpp(job.parallel.vpp);
  message->set_etp(job.parallel.etp);
  message->set_sequence_parallel(job.sequence_parallel);
  message->set_micro_batch_size(job.micro_batch_size);
  message->set_global_batch_size(job.global_batch_size);
  message->set_seq_len(job.seq_len);
  message->set_recompute(static_cast<uint32_t>(job.recompute));
  message->set_zero_stage(job.zero_stage);
  message->set_compute_dtype(static_cast<uint32_t>(job.compute_dtype));
  message->set_seed(job.seed);
  message->set_warmup_iterations(job.facts.warmup_iterations);
  message->set_iteration_begin(job.facts.iteration_begin);
  message->set_steps_per_iteration(job.facts.steps_per_iteration);
  for (const GridAxis& axis : job.facts.axes) {
    message->add_axis_name(axis.name);
    message->add_axis_size(axis.size);
  }
}

Status FromMessage(const proto::Job& message, JobSpec* job) {
  job->name = message.name();
  job->user_program = message.user_program();
  PRISM_RETURN_IF_ERROR(FromMessage(message.model(), &job->model));
  job->parallel = {.tp = message.tp(),
                   .cp = message.cp(),
                   .dp = message.dp(),
                   .pp = message.pp(),
                   .ep = message.ep(),
                   .vpp = message.vpp(),
                   .etp = std::max(message.etp(), 1)};
  job->sequence_parallel = message.sequence_parallel();
  job->micro_batch_size = message.micro_batch_size();
  job->global_batch_size = message.global_batch_size();
  job->seq_len = message.seq_len();
  PRISM_RETURN_IF_ERROR(ReadEnum(message.recompute(), Recompute::kFull, &job->recompute));
  job->zero_stage = message.zero_stage();
  PRISM_RETURN_IF_ERROR(ReadEnum(message.compute_dtype(), DataType::kFloat64, &job->compute_dtype));
  job->seed = message.seed();
  job->facts.warmup_iterations = message.warmup_iterations();
  job->facts.iteration_begin = message.iteration_begin();
  job->facts.steps_per_iteration = std::max(1, message.steps_per_iteration());
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

void ToMessage(const NetworkSpec& network, proto::Network* message) {
  message->set_kind(static_cast<uint32_t>(network.kind));
  message->set_routing(static_cast<uint32_t>(network.routing));
  message->set_planes(network.planes);
  message->set_nodes_per_leaf(network.nodes_per_leaf);
  message->set_leaf_uplinks(network.leaf_uplinks);
  message->set_leaves_per_pod(network.leaves_per_pod);
  message->set_spine_uplinks(network.spine_uplinks);
  for (const int32_t nodes : network.torus) {
    message->add_torus(nodes);
  }
  message->set_nodes_per_cluster(network.nodes_per_cluster);
  message->set_connections(network.connections);
  message->set_uplink_bytes_per_s(network.uplink_bytes_per_s);
  message->set_cluster_bytes_per_s(network.cluster_bytes_per_s);
  message->set_cluster_ns(network.cluster_ns);
}

Status FromMessage(const proto::Network& message, NetworkSpec* network) {
  PRISM_RETURN_IF_ERROR(ReadEnum(message.kind(), FabricKind::kTorus, &network->kind));
  PRISM_RETURN_IF_ERROR(
      ReadEnum(message.routing(), FabricRouting::kDimensionOrder, &network->routing));
  network->planes = message.planes();
  network->nodes_per_leaf = message.nodes_per_leaf();
  network->leaf_uplinks = message.leaf_uplinks();
  network->leaves_per_pod = message.leaves_per_pod();
  network->spine_uplinks = message.spine_uplinks();
  if (message.torus_size() != static_cast<int>(network->torus.size())) {
    return BadFile(fmt::format("a torus of {} dimensions instead of 3", message.torus_size()));
  }
  std::copy(message.torus().begin(), message.torus().end(), network->torus.begin());
  network->nodes_per_cluster = message.nodes_per_cluster();
  network->connections = message.connections();
  network->uplink_bytes_per_s = message.uplink_bytes_per_s();
  network->cluster_bytes_per_s = message.cluster_bytes_per_s();
  network->cluster_ns = message.cluster_ns();
  return OkStatus();
}

}  // namespace

void ToMessage(const ClusterSpec& cluster, proto::Cluster* message) {
  message->set_name(cluster.name);
  message->set_source(cluster.source);
  message->set_gpu_name(cluster.gpu.name);
  message->set_compute_major(cluster.gpu.compute_major);
  message->set_compute_minor(cluster.gpu.compute_minor);
  message->set_sm_count(cluster.gpu.sm_count);
  message->set_memory_bytes(cluster.gpu.memory_bytes);
  message->set_l2_bytes(cluster.gpu.l2_bytes);
  message->set_shared_memory_per_sm(cluster.gpu.shared_memory_per_sm);
  message->set_shared_memory_per_block_optin(cluster.gpu.shared_memory_per_block_optin);
  message->set_segments_ascending(cluster.gpu.segments_ascending);
  message->set_gpus_per_node(cluster.gpus_per_node);
  for (const Parameter& parameter : cluster.parameters.all()) {
    proto::Parameter* entry = message->add_parameters();
    entry->set_key(parameter.key);
    entry->set_value(parameter.value);
    entry->set_unit(parameter.unit);
    entry->set_source(parameter.source);
    entry->set_mark(static_cast<uint32_t>(parameter.mark));
  }
  ToMessage(cluster.network, message->mutable_network());
}

Status FromMessage(const proto::Cluster& message, ClusterSpec* cluster) {
  cluster->name = message.name();
  cluster->source = message.source();
  cluster->gpu = {.name = message.gpu_name(),
                  .compute_major = message.compute_major(),
                  .compute_minor = message.compute_minor(),
                  .sm_count = message.sm_count(),
                  .memory_bytes = message.memory_bytes(),
                  .l2_bytes = message.l2_bytes(),
                  .shared_memory_per_sm = message.shared_memory_per_sm(),
                  .shared_memory_per_block_optin = message.shared_memory_per_block_optin(),
                  .segments_ascending = message.segments_ascending()};
  cluster->gpus_per_node = message.gpus_per_node();
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
  message->set_peak_allocated(memory.peak_allocated);
  message->set_peak_reserved(memory.peak_reserved);
  message->set_steady_allocated(memory.steady_allocated);
  for (const MemoryClass& part : memory.at_peak) {
    ToMessage(part, message->add_at_peak());
  }
  for (const MemoryClass& part : memory.outside) {
    ToMessage(part, message->add_outside());
  }
  message->set_peak_op(memory.peak_op);
  message->set_peak_phase(memory.peak_phase);
  message->set_layout_hash(memory.layout_hash);
}

Status FromMessage(const proto::Memory& message, MemoryProfile* memory) {
  memory->peak_allocated = message.peak_allocated();
  memory->peak_reserved = message.peak_reserved();
  memory->steady_allocated = message.steady_allocated();
  PRISM_RETURN_IF_ERROR(FromMessages(message.at_peak(), &memory->at_peak));
  PRISM_RETURN_IF_ERROR(FromMessages(message.outside(), &memory->outside));
  memory->peak_op = message.peak_op();
  memory->peak_phase = message.peak_phase();
  memory->layout_hash = message.layout_hash();
  return OkStatus();
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
