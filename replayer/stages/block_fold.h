// Segments as max-plus matrices: the times of the host and of the stream tails after a run of
// closed blocks, as a function of those before it.
//
//   tail'[i] = max(host + from_host[i], max over j of tail[j] + from_tail[i][j])
//   host'    = host + host_ns
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "replayer/stages/stage_plan.h"

namespace prism::replayer {

struct FoldedSegment {
  DurationNs host_ns = 0;
  uint32_t stream_count = 0;
  std::array<uint16_t, kMaxFoldedStreams> streams = {};
  std::array<DurationNs, kMaxFoldedStreams> from_host = {};
  std::array<std::array<DurationNs, kMaxFoldedStreams>, kMaxFoldedStreams> from_tail = {};
  std::vector<DurationNs> compute_ns;  // by kernel stream: kernel time
  std::vector<DurationNs> export_ns;   // exports * kernel streams: kernel time before each
};

// The durations of a block's ops, on one kind of stage.
struct FoldDurations {
  const std::vector<DurationNs>* work = nullptr;        // by WorkItem
  const std::vector<DurationNs>* span = nullptr;        // by HostSpan
  const std::vector<DurationNs>* transfer = nullptr;    // by TransferItem
  const std::vector<DurationNs>* collective = nullptr;  // by CollectiveCalls
  double overlap_slowdown = 1;
};

// One closed block, its overlap charges included.
FoldedSegment FoldBlock(const StagePlan& plan, uint32_t block, const FoldDurations& durations);

// The blocks of a segment in sequence; `blocks`: the folded blocks, by block.
FoldedSegment FoldSegment(const Segment& segment, const std::vector<FoldedSegment>& blocks);

}  // namespace prism::replayer
