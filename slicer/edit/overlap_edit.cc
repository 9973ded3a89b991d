// EditOverlap (slicer/edit/edit_steps.h). Off: the compute stream waits for each of a
// communicator's collectives at once. On: such a wait is removed, but only if the compute stream
// waits for the same call again later, which shows where the result is first used; all others stay
// and are counted. Collectives on the compute stream itself cannot be overlapped.
#include <string>
#include <utility>

#include <fmt/format.h>

#include "slicer/edit/collective_picker.h"
#include "slicer/edit/edit_steps.h"
#include "slicer/edit/program_rewriter.h"

namespace prism::slicer {
namespace {

using graph::OpKind;
using graph::Program;

constexpr uint32_t kNoWait = graph::kNoDep;

// Ops that take no time on a stream.
bool IsMark(OpKind kind) {
  return kind == OpKind::kEventRecord || kind == OpKind::kMarker;
}

class RoleOverlap {
 public:
  RoleOverlap(const CollectivePicker& picker, const Program& program, uint32_t role)
      : picker_(picker),
        program_(program),
        role_(role),
        compute_(ComputeStream(program)),
        calls_(CallsOfRecords()) {}

  // Collectives on other streams than compute; those that gained or lost a wait; those whose wait
  // stays, because nothing shows that it may be removed.
  struct Counts {
    int64_t beside = 0;
    int64_t changed = 0;
    int64_t held = 0;
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

  Program Off() {
    ProgramRewriter rewriter(program_);
    while (rewriter.next() < program_.size()) {
      const uint32_t op = rewriter.next();
      rewriter.Keep();
      const bool goes_on = (program_.flags[op] & graph::kGroupedWithNext) != 0;
      if (!IsBeside(op) || goes_on) {
        continue;
      }
      ++counts_.beside;
      if (ImmediateWait(op) == kNoWait) {
        ++counts_.changed;
        rewriter.Wait(compute_, rewriter.Record(program_.stream[op]));
      }
    }
    return rewriter.Finish();
  }

  Program On() {
    std::vector<bool> dropped(program_.size());
    std::vector<int64_t> waits_for = WaitsForRecords();
    for (uint32_t op = 0; op < program_.size(); ++op) {
      if (!IsBeside(op)) {
        continue;
      }
      ++counts_.beside;
      const uint32_t wait = ImmediateWait(op);
      if (wait == kNoWait) {
        continue;
      }
      if (!WaitsAgain(op, wait)) {
        ++counts_.held;
        continue;
      }
      ++counts_.changed;
      dropped[wait] = true;
      const uint32_t record = program_.dep[wait];
      dropped[record] = --waits_for[record] == 0;
    }
    return Without(program_, dropped);
  }

 private:
  [[nodiscard]] bool IsBeside(uint32_t op) const {
    return picker_.Picks(role_, program_, op) && program_.stream[op] != compute_;
  }

  // By event record: the op before it on its stream; kNoWait for none.
  [[nodiscard]] std::vector<uint32_t> CallsOfRecords() const {
    std::vector<uint32_t> calls(program_.size(), kNoWait);
    std::vector<uint32_t> last(program_.stream_count, kNoWait);
    for (uint32_t op = 0; op < program_.size(); ++op) {
      if (program_.kind[op] == OpKind::kEventRecord) {
        calls[op] = last[program_.stream[op]];
      } else if (graph::HasStream(program_.kind[op])) {
        last[program_.stream[op]] = op;
      }
    }
    return calls;
  }

  [[nodiscard]] std::vector<int64_t> WaitsForRecords() const {
    std::vector<int64_t> waits(program_.size());
    for (uint32_t op = 0; op < program_.size(); ++op) {
      if (program_.dep[op] != kNoWait) {
        ++waits[program_.dep[op]];
      }
    }
    return waits;
  }

  [[nodiscard]] bool ComputeWaitsFor(uint32_t call, uint32_t op) const {
    return program_.kind[op] == OpKind::kEventWait && program_.stream[op] == compute_ &&
           program_.dep[op] != kNoWait && calls_[program_.dep[op]] == call;
  }

  // The wait of the compute stream for `call` with nothing issued in between.
  [[nodiscard]] uint32_t ImmediateWait(uint32_t call) const {
    for (uint32_t op = call + 1; op < program_.size(); ++op) {
      if (ComputeWaitsFor(call, op)) {
        return op;
      }
      if (!IsMark(program_.kind[op])) {
        break;
      }
    }
    return kNoWait;
  }

  [[nodiscard]] bool WaitsAgain(uint32_t call, uint32_t wait) const {
    for (uint32_t op = wait + 1; op < program_.size(); ++op) {
      if (ComputeWaitsFor(call, op)) {
        return true;
      }
    }
    return false;
  }

  const CollectivePicker& picker_;
  const Program& program_;
  uint32_t role_;
  uint16_t compute_;
  std::vector<uint32_t> calls_;
  Counts counts_;
};

std::string WhyNotOn(const std::string& communicator, int64_t beside, int64_t held) {
  if (beside == 0) {
    return fmt::format(
        "overlap of '{}' cannot be shown to be safe: its collectives run on the compute stream, "
        "and nothing shows where their result is first used",
        communicator);
  }
  if (held == 0) {
    return fmt::format(
        "overlap of '{}' is already on: none of its {} collectives off the compute stream is "
        "waited for where it is issued",
        communicator, beside);
  }
  return fmt::format(
      "overlap of '{}' cannot be shown to be safe: {} of its collectives are waited for at once "
      "and never again, so nothing shows where their result is first used",
      communicator, held);
}

}  // namespace

Status EditOverlap(const OverlapEdit& edit, EditedGraph* edited) {
  graph::Graph& graph = edited->graph;
  PRISM_ASSIGN_OR_RETURN(const CollectivePicker picker, CollectivePicker::Create(graph, edit.of));
  int64_t beside = 0;
  int64_t changed = 0;
  int64_t held = 0;
  for (uint32_t role = 0; role < graph.roles.size(); ++role) {
    RoleOverlap overlap(picker, graph.roles[role].program, role);
    Program program = edit.overlap ? overlap.On() : overlap.Off();
    beside += overlap.counts().beside;
    changed += overlap.counts().changed;
    held += overlap.counts().held;
    graph.roles[role].program = std::move(program);
  }
  if (edit.overlap && changed == 0) {
    return InvalidArgument(WhyNotOn(edit.of.communicator, beside, held));
  }
  edited->assumptions.push_back(
      edit.overlap
          ? fmt::format("overlap of '{}' on: {} collectives (in the programs of all roles) are "
                        "waited for at once and again later; their first use is taken to be after "
                        "the later wait; {} more are waited for at once and never again: nothing "
                        "shows where their result is first used, so they stay as they are",
                        edit.of.communicator, changed, held)
          : fmt::format("overlap of '{}' off: the compute stream waits for {} collectives (in the "
                        "programs of all roles) where they are issued, at the host cost of an "
                        "event; {} more were waited for already",
                        edit.of.communicator, changed, beside - changed));
  edited->memory.push_back(fmt::format(
      "overlap of '{}': memory unchanged, the same buffers are used", edit.of.communicator));
  return OkStatus();
}

}  // namespace prism::slicer
