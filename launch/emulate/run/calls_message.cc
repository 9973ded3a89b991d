#include "launch/emulate/run/calls_message.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace prism::launch {
namespace {

// One list of what is sent serves both directions: fields of a writer are written, of a reader
// read.
struct CallsOut {
  WireWriter* wire;

  template <typename T>
  void One(const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      wire->PutText(value);
    } else {
      wire->Put(value);
    }
  }
  template <typename T, typename Each>
  void AllOf(const std::vector<T>& list, const Each& each) {
    wire->Put<uint64_t>(list.size());
    std::ranges::for_each(list, each);
  }
};

struct CallsIn {
  WireReader* wire;

  template <typename T>
  void One(T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      value = wire->GetText();
    } else {
      value = wire->Get<T>();
    }
  }
  template <typename T, typename Each>
  void AllOf(std::vector<T>& list, const Each& each) {
    list.clear();
    wire->GetEach(wire->Get<uint64_t>(), &list, [&](T* item) { each(*item); });
  }
};

template <typename Wire, typename... Fields>
void All(Wire& wire, Fields&... fields) {
  (wire.One(fields), ...);
}

template <typename Wire, typename List>
void Plain(Wire& wire, List& list) {
  wire.AllOf(list, [&](auto& item) { wire.One(item); });
}

template <typename Wire, typename Calls>
void Carry(Wire wire, Calls& calls) {
  All(wire, calls.rank, calls.steps, calls.end, calls.failure);
  wire.AllOf(calls.calls, [&](auto& call) {
    All(wire, call.kind, call.stream, call.source, call.object, call.step, call.is_barrier,
        call.overlaps, call.is_dropped, call.is_untimed, call.is_of_daemon, call.thread,
        call.gap_ns, call.timeout_ns, call.shape);
    Plain(wire, call.transfers);
    Plain(wire, call.needs);
  });
  wire.AllOf(calls.groups, [&](auto& group) {
    All(wire, group.name, group.timeout_ns, group.number);
    Plain(wire, group.members);
  });
  wire.AllOf(calls.communicators, [&](auto& communicator) {
    All(wire, communicator.identity, communicator.name, communicator.timeout_ns,
        communicator.is_default, communicator.is_cpu, communicator.hides_calls, communicator.node,
        communicator.device);
    Plain(wire, communicator.members);
  });
  wire.AllOf(calls.store_calls, [&](auto& called) {
    All(wire, called.text, called.is_set);
    Plain(wire, called.keys);
  });
  Plain(wire, calls.assumptions);
  wire.AllOf(calls.changes, [&](auto& change) { All(wire, change.source, change.call); });
  Plain(wire, calls.contributions);
  wire.AllOf(calls.told_ranks, [&](auto& told) { All(wire, told.number, told.is_place); });
  All(wire, calls.told_while_recorded);
  wire.AllOf(calls.sources,
             [&](auto& source) { All(wire, source.file, source.line, source.function); });
}

}  // namespace

void PutCalls(const slicer::RankCalls& calls, WireWriter* message) {
  Carry(CallsOut{message}, calls);
}

slicer::RankCalls GetCalls(WireReader* message) {
  slicer::RankCalls calls;
  Carry(CallsIn{message}, calls);
  return calls;
}

}  // namespace prism::launch
