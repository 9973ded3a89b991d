// Builds the fragment of one rank op by op, without a recording: for synthetic graphs in tests and
// benches.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/time.h"
#include "graph/fragment.h"

namespace prism::slicer {

class ProgramBuilder {
 public:
  ProgramBuilder(Rank rank, uint16_t stream_count);

  // Slots are numbered in order of first use; members are ascending. Two groups with equal members
  // need different names.
  uint16_t CommSlot(const std::string& name, const std::vector<Rank>& members);
  uint16_t PeerSlot(Rank peer);

  // A kernel of fixed duration. `name` is interned with `matmul` as its signature.
  void Kernel(uint16_t stream,
              const std::string& name,
              DurationNs duration,
              const graph::MatmulShape& matmul = {});
  void Collective(uint16_t stream, uint16_t comm_slot, const graph::CollectiveShape& shape);
  void PeerGroup(uint16_t stream, const graph::PeerGroup& group);
  void MarkerBegin(const std::string& name);
  void MarkerEnd(const std::string& name);

  // Makes what `waiting` does from here on come after everything on `stream` so far: an event
  // record and a wait.
  void Order(uint16_t stream, uint16_t waiting);

  // The two halves of Order: an op that a later Wait names.
  uint32_t Record(uint16_t stream);
  void Wait(uint16_t stream, uint32_t record_op);

  void StreamSync(uint16_t stream);
  void DeviceSync();

  // The builder is empty afterwards.
  graph::Fragment Finish();

 private:
  void Marker(const std::string& name, graph::OpFlag side);
  uint32_t InternString(const std::string& text);

  graph::Fragment fragment_;
  std::map<std::string, uint32_t> string_ids_;
  std::map<std::string, uint32_t> signature_ids_;
};

}  // namespace prism::slicer
