// A hold takes the place of a collective with virtual members in a stream of a real GPU. It begins
// when the stream reaches it, reports that (arrival), and ends at a deadline that the emulation
// writes once the last member's arrival is known. This header is the whole logic, compiled for the
// GPU by hold_kernels.cu and for the CPU by the tests, over a Machine that accesses memory and the
// clock.
//
// Each stream with holds has a number, its hold stream. Holds of one stream follow each other, so a
// counter of finished ones in device memory numbers them (sequence). Nothing about a single hold is
// an argument of its launch; a kernel that was captured into a CUDA graph finds its deadline like
// any other.
//
// Arrival, deadline and end of a hold are in a slot of host memory that the GPU maps. Each of the
// three is a time and, written after it, 1 + the sequence number that it belongs to: until that
// number appears the time is unknown, so a deadline starts at infinity without being reset. Only
// one hold of a stream is in progress at a time, and the next deadline is written after the last
// end was read, so two slots per stream would suffice; there are four.
//
// From when its deadline is known, which is when the last member has arrived, a hold also moves
// bytes through device memory as the collective would, at a given rate (HoldTraffic).
//
// Times are nanoseconds of the GPU's global timer.
#pragma once

#include <cstdint>

#include "shim/channel/hold_streams.h"
#include "shim/host_and_device.h"

namespace prism::shim {

using channel::kHoldStreams;

inline constexpr uint32_t kHoldSlots = 4;

// Threads of a block of a hold: NCCL_MAX_NTHREADS of src/include/device.h, so that a hold occupies
// what NCCL's kernel does.
inline constexpr uint32_t kHoldThreads = 640;

struct Stamp {
  uint64_t time_ns;
  uint64_t of;  // sequence + 1
};

// The GPU writes arrival and end, the host writes deadline.
struct HoldSlot {
  Stamp arrival;
  Stamp deadline;
  Stamp end;
  uint64_t padding[2];
};

// In host memory.
struct HoldBoard {
  uint64_t abort;  // not 0: every hold ends at once
  uint64_t padding[7];
  HoldSlot slots[kHoldStreams][kHoldSlots];
};

// In device memory; zero at the start.
struct HoldStream {
  uint64_t finished;  // holds so far: the sequence number of the current one
  uint64_t entered;   // blocks of the current one
  uint64_t left;      // likewise
  uint64_t release;   // finished + 1 once `deadline_ns` is that of the current one
  uint64_t deadline_ns;
};

// In device memory, copied from one half to the other and larger than any cache. An argument of the
// launch, the same for all launches of a graph.
struct HoldTraffic {
  uint64_t buffer;
  uint64_t bytes;
  uint64_t bytes_per_us;  // that each block copies; 0: none
};

// Whether a block that has copied so much is ahead of its rate.
PRISM_HOST_AND_DEVICE inline bool IsAhead(const HoldTraffic& traffic,
                                          uint64_t copied_bytes,
                                          uint64_t elapsed_ns) {
  return copied_bytes * 1000 > traffic.bytes_per_us * elapsed_ns;
}

static_assert(sizeof(HoldSlot) == 64 && sizeof(HoldStream) == 40);

PRISM_HOST_AND_DEVICE inline HoldSlot* SlotOf(HoldBoard* board,
                                              uint32_t hold_stream,
                                              uint64_t sequence) {
  return &board->slots[hold_stream % kHoldStreams][sequence % kHoldSlots];
}

PRISM_HOST_AND_DEVICE inline bool IsOver(uint64_t now_ns, uint64_t deadline_ns) {
  return now_ns >= deadline_ns;
}

// A Machine has: uint64_t Load(const uint64_t*), uncached; void Store(uint64_t*, uint64_t), visible
// to the other side after all earlier stores; void Fence(), orders later loads after earlier ones;
// uint64_t Add(uint64_t*, uint64_t), atomic, returns the previous value; uint64_t Now(); void
// Nap(), a short sleep.

template <typename Machine>
PRISM_HOST_AND_DEVICE void Write(Machine& machine, Stamp* stamp, uint64_t time, uint64_t sequence) {
  machine.Store(&stamp->time_ns, time);
  machine.Store(&stamp->of, sequence + 1);
}

// False while the time is not known.
template <typename Machine>
PRISM_HOST_AND_DEVICE bool Read(Machine& machine,
                                const Stamp* stamp,
                                uint64_t sequence,
                                uint64_t* time) {
  if (machine.Load(&stamp->of) != sequence + 1) {
    return false;
  }
  machine.Fence();
  *time = machine.Load(&stamp->time_ns);
  return true;
}

// How far away a deadline has to be for the abort flag to be checked while waiting for it: a check
// goes over the bus and takes a microsecond or two, by which the hold could end late.
inline constexpr uint64_t kFarNs = 50'000;

// The last block to enter. Only this block reads host memory; it passes the deadline on to the
// others, so that a hold costs one poll over the bus, not one per block.
template <typename Machine>
PRISM_HOST_AND_DEVICE void Lead(
    Machine& machine, HoldBoard* board, HoldStream* state, HoldSlot* slot, uint64_t sequence) {
  Write(machine, &slot->arrival, machine.Now(), sequence);
  uint64_t deadline_ns = 0;
  while (!Read(machine, &slot->deadline, sequence, &deadline_ns)) {
    if (machine.Load(&board->abort) != 0) {
      deadline_ns = 0;
      break;
    }
    machine.Nap();
  }
  machine.Store(&state->deadline_ns, deadline_ns);
  machine.Store(&state->release, sequence + 1);
  for (uint64_t now = machine.Now(); !IsOver(now, deadline_ns); now = machine.Now()) {
    if (deadline_ns - now > kFarNs && machine.Load(&board->abort) != 0) {
      machine.Store(&state->deadline_ns, 0);
      break;
    }
  }
}

template <typename Machine>
PRISM_HOST_AND_DEVICE void Follow(Machine& machine, HoldStream* state, uint64_t sequence) {
  while (machine.Load(&state->release) != sequence + 1) {
    machine.Nap();
  }
  machine.Fence();
  while (!IsOver(machine.Now(), machine.Load(&state->deadline_ns))) {
  }
}

// One block of a hold of `blocks`. It arrives when its last block enters, as NCCL's kernel can
// begin its transfer only when all its blocks run.
template <typename Machine>
PRISM_HOST_AND_DEVICE void HoldBlock(Machine& machine,
                                     HoldBoard* board,
                                     HoldStream* streams,
                                     uint32_t hold_stream,
                                     uint32_t blocks) {
  HoldStream* const state = &streams[hold_stream % kHoldStreams];
  const uint64_t sequence = machine.Load(&state->finished);
  HoldSlot* const slot = SlotOf(board, hold_stream, sequence);
  if (machine.Add(&state->entered, 1) + 1 == blocks) {
    Lead(machine, board, state, slot, sequence);
  } else {
    Follow(machine, state, sequence);
  }
  if (machine.Add(&state->left, 1) + 1 == blocks) {
    Write(machine, &slot->end, machine.Now(), sequence);
    machine.Store(&state->entered, 0);
    machine.Store(&state->left, 0);
    machine.Store(&state->finished, sequence + 1);
  }
}

}  // namespace prism::shim
