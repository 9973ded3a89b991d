#include "replayer/memory/block_set.h"

#include <utility>

#include "graph/base/check.h"

namespace prism::replayer {

BlockSet::Position BlockSet::Find(const Entry& entry) const {
  const Position position = entries_.find(entry);
  PRISM_CHECK(!AtEnd(position) && position->block == entry.block);
  return position;
}

void BlockSet::Replace(Position position, const Entry& entry) {
  auto node = entries_.extract(position);
  node.value() = entry;
  entries_.insert(std::move(node));
}

}  // namespace prism::replayer
