// Writes the few ops between blocks: events that outlive a block, collectives, messages, markers.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/time.h"
#include "graph/program/job_program.h"
#include "slicer/synthesize/block.h"

namespace prism::slicer {

inline constexpr uint32_t kNoEventSlot = 0xFFFFFFFFU;

class OpList {
 public:
  // An event on `stream`; returns the op, for Wait. With a slot, the event outlives the list.
  uint32_t Record(uint16_t stream, uint32_t slot = kNoEventSlot);
  void Wait(uint16_t stream, uint32_t record_op);
  void WaitSlot(uint16_t stream, uint32_t slot);

  void Collective(uint16_t stream, graph::GroupAxis axis, const graph::CollectiveShape& shape);
  void PeerGroup(uint16_t stream, const graph::PeerGroup& group);
  void HostCopy(uint16_t stream, int64_t bytes, uint8_t direction);  // as graph::OpFlag
  void HostGap(DurationNs duration_ns);
  void DeviceSync();
  void Marker(uint32_t name, bool begins);

  // A collective that the compute stream waits for by running it (torch.distributed records two
  // events after every call: one for waiters, one for its watchdog).
  void Blocking(graph::GroupAxis axis, const graph::CollectiveShape& shape);

  // A collective concurrent with the compute stream, after what is on it now; its end is in `slot`.
  void Start(graph::GroupAxis axis, const graph::CollectiveShape& shape, uint32_t slot);

  void Append(const graph::Program& program);

  // Copies ops of `block`, up to `end` and from `begin` or from where the last call stopped: what
  // is written between two calls goes in between. Must be the same block until it is complete;
  // cutting it at `begin` must be possible (graph/program/program_cuts.h).
  void Copy(const graph::Program& block, uint32_t begin, uint32_t end);

  [[nodiscard]] bool empty() const { return rows_.empty(); }

  // The ops as a block.
  [[nodiscard]] graph::Program Program() const;

  // The complete content, as numbers.
  [[nodiscard]] std::vector<int64_t> Content() const;

 private:
  uint32_t Append(const graph::OpRow& row);
  void CopyOp(const graph::Program& block, uint32_t op, std::vector<uint32_t>* copied);

  std::vector<graph::OpRow> rows_;
  std::vector<graph::CollectiveShape> collectives_;  // distinct
  std::vector<graph::PeerGroup> peer_groups_;        // distinct
  std::vector<uint32_t> copied_;  // by op of the block being copied: its new index
};

}  // namespace prism::slicer
