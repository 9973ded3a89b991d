// The order in which pieces are needed is known in advance, so fetching is a window over that list:
// before a use, everything up to `prefetch` uses ahead is copied in. The window stops at a piece
// that is still on the device because its copy out comes later in the program; it goes on from
// there at a later use, once the piece has left. That a piece is there when it is used is checked.
#include "graph/job/offload.h"

#include <algorithm>
#include <iterator>

#include "graph/base/check.h"

namespace prism::graph {
namespace {

constexpr std::string_view kOffloadNames[] = {"none", "optimizer", "activations",
                                              "all"};  // by Offload

}  // namespace

const char* OffloadName(Offload offload) {
  return kOffloadNames[static_cast<size_t>(offload)].data();
}

std::optional<Offload> OffloadNamed(std::string_view name) {
  const auto* const found = std::ranges::find(kOffloadNames, name);
  return found == std::end(kOffloadNames)
             ? std::nullopt
             : std::optional(static_cast<Offload>(found - kOffloadNames));
}

std::vector<std::vector<uint32_t>> FetchesOf(const std::vector<PieceTouch>& touches,
                                             int64_t prefetch) {
  std::vector<uint32_t> needed;  // pieces, by use
  size_t pieces = 0;
  for (const PieceTouch& touch : touches) {
    pieces = std::max<size_t>(pieces, touch.piece + 1);
    if (touch.needs) {
      needed.push_back(touch.piece);
    }
  }
  std::vector<bool> known(pieces);
  std::vector<bool> on_host(pieces, true);
  for (const PieceTouch& touch : touches) {
    on_host[touch.piece] = known[touch.piece] ? on_host[touch.piece] : touch.needs;
    known[touch.piece] = true;
  }
  std::vector<std::vector<uint32_t>> fetches(touches.size());
  size_t fetched = 0;  // of needed
  size_t used = 0;
  for (size_t i = 0; i < touches.size(); ++i) {
    if (touches[i].needs) {
      const size_t reach = std::min(used + static_cast<size_t>(prefetch) + 1, needed.size());
      for (; fetched < reach && on_host[needed[fetched]]; ++fetched) {
        fetches[i].push_back(needed[fetched]);
      }
      PRISM_CHECK(fetched > used);
      ++used;
    }
    on_host[touches[i].piece] = on_host[touches[i].piece] || touches[i].leaves;
  }
  return fetches;
}

}  // namespace prism::graph
