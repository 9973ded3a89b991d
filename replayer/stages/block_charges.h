// The overlap charges inside a closed block, and what it leaves to later waits.
#pragma once

#include <cstdint>
#include <vector>

#include "replayer/stages/lowered_block.h"

namespace prism::replayer {

// A collective of the block that a wait of the block pays for.
struct BlockChargeSource {
  uint32_t wait = 0;  // ops
  uint32_t collective = 0;
  uint32_t transfer = 0;
};

// A collective that no wait of the block settles.
struct BlockExport {
  uint32_t op = 0;
  uint16_t stream = 0;
  uint32_t transfer = 0;
};

// A wait whose charge depends on what happened before the block: on collectives still unsettled on
// `event_stream`, and on whether `waiting_stream` has computed at all.
struct BlockContext {
  uint16_t event_stream = 0;
  uint16_t waiting_stream = 0;
  bool computes_before = false;  // waiting_stream has computed, inside the block
};

struct BlockCharges {
  std::vector<BlockChargeSource> sources;  // by wait
  std::vector<BlockExport> exports;        // by op
  std::vector<BlockContext> contexts;
};

// Streams that hold kernels in any of the blocks, ascending.
std::vector<uint16_t> KernelStreams(const std::vector<LoweredBlock>& blocks,
                                    const LoweredTables& tables);

BlockCharges ChargesOf(const LoweredBlock& block,
                       const LoweredTables& tables,
                       const std::vector<uint16_t>& kernel_streams);

}  // namespace prism::replayer
