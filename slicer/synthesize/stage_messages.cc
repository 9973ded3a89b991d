#include "slicer/synthesize/stage_messages.h"

#include "slicer/synthesize/blocks/block_writer.h"
#include "slicer/synthesize/blocks/blocks.h"

namespace prism::slicer {
namespace {

using graph::GroupAxis;

int64_t MessageBytes(const RankShape& rank) {
  int64_t bytes = rank.shard * rank.batch * rank.hidden * DataTypeBytes(rank.dtype);
  if (rank.style.scatter_gather_p2p && !rank.sequence_parallel) {
    bytes /= rank.job.parallel.tp;
  }
  return bytes;
}

graph::PeerTransfer Transfer(const RankShape& rank,
                             bool is_send,
                             graph::PeerSlot peer,
                             GroupAxis axis) {
  return {is_send, graph::SlotOf(axis), graph::SlotOf(peer), MessageBytes(rank)};
}

// Megatron's scatter-gather optimisation: what was received in parts is gathered inside the node.
void GatherReceived(const RankShape& rank, OpList* ops) {
  if (!rank.style.scatter_gather_p2p || rank.sequence_parallel || rank.job.parallel.tp == 1) {
    return;
  }
  ops->Blocking(GroupAxis::kTensor, AllGatherOf(rank.dtype, rank.shard * rank.batch * rank.hidden));
}

// Forward direction first: with two stages both neighbours are the same rank, and transfers between
// a pair match in order. Each transfer makes the stream of messages wait for the compute stream.
OpList ExchangeBatched(const RankShape& rank, const StageExchange& exchange) {
  constexpr GroupAxis kAxis = GroupAxis::kPipeline;
  const uint16_t stream = graph::StageStream(kAxis);
  graph::PeerGroup group;
  if (exchange.to_next) {
    group.transfers.push_back(Transfer(rank, true, graph::PeerSlot::kNext, kAxis));
  }
  if (exchange.from_previous) {
    group.transfers.push_back(Transfer(rank, false, graph::PeerSlot::kPrevious, kAxis));
  }
  if (exchange.to_previous) {
    group.transfers.push_back(Transfer(rank, true, graph::PeerSlot::kPrevious, kAxis));
  }
  if (exchange.from_next) {
    group.transfers.push_back(Transfer(rank, false, graph::PeerSlot::kNext, kAxis));
  }
  OpList ops;
  if (rank.style.serial_p2p) {
    for (const graph::PeerTransfer& transfer : group.transfers) {
      ops.Wait(stream, ops.Record(graph::kStageComputeStream));
      ops.PeerGroup(stream, {{transfer}});
      ops.Wait(graph::kStageComputeStream, ops.Record(stream));
    }
  } else {
    for (size_t i = 0; i < group.transfers.size(); ++i) {
      ops.Wait(stream, ops.Record(graph::kStageComputeStream));
    }
    ops.PeerGroup(stream, group);
    ops.Wait(graph::kStageComputeStream, ops.Record(stream));
  }
  // What was sent is freed.
  for (int i = 0; i < (exchange.to_next ? 1 : 0) + (exchange.to_previous ? 1 : 0); ++i) {
    ops.Record(stream);
  }
  if (exchange.from_previous || exchange.from_next) {
    GatherReceived(rank, &ops);
  }
  return ops;
}

// One message: received on a separate stream, so that it does not queue behind a send.
OpList ExchangeApart(const RankShape& rank, const StageExchange& exchange) {
  const bool forward = exchange.to_next || exchange.from_previous;
  const GroupAxis axis = forward ? GroupAxis::kPipelineForward : GroupAxis::kPipelineBackward;
  const uint16_t receive =
      forward ? graph::kStageReceiveForwardStream : graph::kStageReceiveBackwardStream;
  OpList ops;
  if (exchange.to_next || exchange.to_previous) {
    const uint16_t send = graph::StageStream(axis);
    ops.Wait(send, ops.Record(graph::kStageComputeStream));
    ops.PeerGroup(
        send, {{Transfer(rank, true, forward ? graph::PeerSlot::kNext : graph::PeerSlot::kPrevious,
                         axis)}});
  } else {
    ops.PeerGroup(
        receive, {{Transfer(rank, false,
                            forward ? graph::PeerSlot::kPrevious : graph::PeerSlot::kNext, axis)}});
    ops.Wait(graph::kStageComputeStream, ops.Record(receive));
  }
  if (exchange.from_previous || exchange.from_next) {
    GatherReceived(rank, &ops);
  }
  return ops;
}

}  // namespace

OpList MessagesOf(const RankShape& rank, const StageExchange& exchange) {
  return BatchesMessages(rank.style) ? ExchangeBatched(rank, exchange)
                                     : ExchangeApart(rank, exchange);
}

}  // namespace prism::slicer
