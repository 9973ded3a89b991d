// Which op of the graph each hold of a sandbox rank on a real GPU belongs to. Holds are numbered by
// stream in order of issue, as the shim launches them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "replayer/engine/op_position.h"

namespace prism::launch {

class HoldStreams {
 public:
  struct Hold {
    uint32_t hold_stream = 0;
    uint64_t sequence = 0;
  };

  // Adds the next hold of the hold stream; no position: it belongs to no op of the graph.
  void Add(uint32_t hold_stream, std::optional<replayer::OpPosition> position) {
    const uint64_t sequence = count_[hold_stream]++;
    if (position) {
      positions_[{hold_stream, sequence}] = *position;
      holds_[*position] = {hold_stream, sequence};
      ++under_way_;
    }
  }

  // Its stream has left the hold.
  void End(uint32_t hold_stream, uint64_t sequence) {
    under_way_ -= PositionOf(hold_stream, sequence) ? 1 : 0;
  }

  // Whether an op of the graph is in a stream and has not left its hold yet.
  [[nodiscard]] bool under_way() const { return under_way_ > 0; }

  [[nodiscard]] std::optional<replayer::OpPosition> PositionOf(uint32_t hold_stream,
                                                               uint64_t sequence) const {
    const auto found = positions_.find({hold_stream, sequence});
    return found == positions_.end() ? std::nullopt : std::optional(found->second);
  }

  [[nodiscard]] std::optional<Hold> HoldAt(replayer::OpPosition position) const {
    const auto found = holds_.find(position);
    return found == holds_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::map<uint32_t, uint64_t> count_;
  std::map<std::pair<uint32_t, uint64_t>, replayer::OpPosition> positions_;
  std::map<replayer::OpPosition, Hold> holds_;
  int64_t under_way_ = 0;
};

}  // namespace prism::launch
