#include "replayer/stages/block_charges.h"

#include <algorithm>

#include "replayer/stages/charge_tracker.h"

namespace prism::replayer {
namespace {

bool IsKernel(const StageOp& op, const LoweredTables& tables) {
  return op.kind == StageOpKind::kWork && tables.works[op.index].kind == graph::OpKind::kKernel;
}

// Only a stream that computes pays; others pass the wait on.
bool Contains(const std::vector<uint16_t>& streams, uint16_t stream) {
  return std::ranges::binary_search(streams, stream);
}

struct RecordedEvent {
  uint16_t stream = 0;
  size_t position = 0;
};

}  // namespace

std::vector<uint16_t> KernelStreams(const std::vector<LoweredBlock>& blocks,
                                    const LoweredTables& tables) {
  std::vector<bool> computes(graph::kStageStreamCount);
  for (const LoweredBlock& block : blocks) {
    for (const StageOp& op : block.ops) {
      if (IsKernel(op, tables)) {
        computes[op.stream] = true;
      }
    }
  }
  std::vector<uint16_t> streams;
  for (uint16_t stream = 0; stream < graph::kStageStreamCount; ++stream) {
    if (computes[stream]) {
      streams.push_back(stream);
    }
  }
  return streams;
}

BlockCharges ChargesOf(const LoweredBlock& block,
                       const LoweredTables& tables,
                       const std::vector<uint16_t>& kernel_streams) {
  BlockCharges charges;
  const bool only_work = std::ranges::all_of(block.ops, [](const StageOp& op) {
    return op.kind == StageOpKind::kWork || op.kind == StageOpKind::kRecord;
  });
  if (only_work) {
    return charges;
  }
  ChargeTracker tracker(kernel_streams);
  std::vector<RecordedEvent> events(block.event_count);
  std::vector<bool> computes(graph::kStageStreamCount);
  for (uint32_t i = 0; i < block.ops.size(); ++i) {
    const StageOp& op = block.ops[i];
    if (IsKernel(op, tables)) {
      computes[op.stream] = true;
    } else if (op.kind == StageOpKind::kCollective) {
      for (const uint32_t transfer : tables.collectives[op.index].transfers) {
        tracker.Issue(op.stream, {transfer, i});
      }
    } else if (op.kind == StageOpKind::kRecord && op.event != kNone) {
      events[op.event] = {op.stream, tracker.Position(op.stream)};
    } else if (op.kind == StageOpKind::kWait && op.event != kNone &&
               events[op.event].stream != op.stream && Contains(kernel_streams, op.stream)) {
      const RecordedEvent& event = events[op.event];
      charges.contexts.push_back({event.stream, op.stream, computes[op.stream]});
      tracker.Settle(event.stream, event.position, [&](const ChargeTracker::Collective& paid) {
        charges.sources.push_back({i, paid.mark, paid.transfer});
      });
    }
  }
  for (const uint16_t stream : block.streams) {
    tracker.Settle(stream, tracker.Position(stream), [&](const ChargeTracker::Collective& left) {
      charges.exports.push_back({left.mark, stream, left.transfer});
    });
  }
  std::ranges::stable_sort(charges.exports, {}, &BlockExport::op);
  return charges;
}

}  // namespace prism::replayer
