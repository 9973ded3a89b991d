#include "launch/emulate/run/calls_message.h"

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
  template <typename T>
  size_t Count(const std::vector<T>& values) {
    wire->Put<uint64_t>(values.size());
    return values.size();
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
  template <typename T>
  size_t Count(std::vector<T>& values) {
    values.resize(wire->Get<uint64_t>());
    return values.size();
  }
};

template <typename Wire, typename... Fields>
void All(Wire& wire, Fields&... fields) {
  (wire.One(fields), ...);
}

template <typename Wire, typename List, typename Each>
void AllOf(Wire& wire, List& list, const Each& each) {
  wire.Count(list);
  for (auto& item : list) {
    each(item);
  }
}

template <typename Wire, typename List>
void Plain(Wire& wire, List& list) {
  AllOf(wire, list, [&](auto& item) { wire.One(item); });
}

template <typename Wire, typename Calls>
void Carry(Wire wire, Calls& calls) {
  All(wire, calls.rank, calls.steps, calls.end, calls.failure);
  AllOf(wire, calls.calls, [&](auto& call) {
    All(wire, call.kind, call.stream, call.source, call.object, call.step, call.is_barrier,
        call.gap_ns, call.shape);
    Plain(wire, call.transfers);
    Plain(wire, call.needs);
  });
  AllOf(wire, calls.groups, [&](auto& group) {
    All(wire, group.name, group.timeout_ns, group.number);
    Plain(wire, group.members);
  });
  AllOf(wire, calls.communicators, [&](auto& communicator) {
    All(wire, communicator.identity, communicator.name, communicator.timeout_ns);
    Plain(wire, communicator.members);
  });
  AllOf(wire, calls.sources,
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
