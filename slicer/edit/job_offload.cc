#include "slicer/edit/job_offload.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "graph/base/check.h"
#include "slicer/edit/offload_parts.h"
#include "slicer/synthesize/job_assembly.h"
#include "slicer/synthesize/op_list.h"

namespace prism::slicer {
namespace {

constexpr CopyStreams kStreams = {.compute = graph::kStageComputeStream,
                                  .in = graph::kStageCopyInStream,
                                  .out = graph::kStageCopyOutStream};

bool IsMarker(const graph::Program& block) {
  return block.size() == 1 && block.kind.front() == graph::OpKind::kMarker;
}

// Copies as blocks between the calls of a stage. Events outlive their block: each uses an event
// slot of the stage until it has been waited for.
class StageCopies : public CopyWriter {
 public:
  explicit StageCopies(uint16_t first_slot) : slots_(first_slot) {}

  uint32_t Record(uint16_t stream) override {
    uint32_t slot = slots_;
    if (free_.empty()) {
      ++slots_;
    } else {
      slot = *free_.begin();
      free_.erase(free_.begin());
    }
    ops_.Record(stream, slot);
    return slot;
  }

  void Wait(uint16_t stream, uint32_t event) override {
    ops_.WaitSlot(stream, event);
    free_.insert(event);
  }

  void Copy(uint16_t stream, int64_t bytes, uint8_t direction) override {
    ops_.HostCopy(stream, bytes, direction);
  }

  // What was written since the last call.
  OpList Take() { return std::exchange(ops_, {}); }

  [[nodiscard]] uint32_t slots() const { return slots_; }

 private:
  OpList ops_;
  uint32_t slots_;
  std::set<uint32_t> free_;
};

class StageOffload {
 public:
  StageOffload(const std::vector<bool>& markers, JobAssembly* assembly, graph::StageProgram* stage)
      : markers_(markers), assembly_(assembly), stage_(stage), copies_(stage->event_slot_count) {}

  void Run(const OffloadParts& parts, int64_t prefetch) {
    PieceCopies pieces(parts, prefetch, kStreams, &copies_);
    const std::vector<uint32_t> calls = std::move(stage_->calls);
    stage_->calls.clear();
    size_t part = 0;
    auto round = stage_->rounds.begin();
    for (uint32_t i = 0; i < calls.size(); ++i) {
      if (round != stage_->rounds.end() && *round == i) {
        *round++ = static_cast<uint32_t>(stage_->calls.size());
      }
      const bool in_part = part < parts.ranges.size();
      if (in_part && parts.ranges[part].begin == i) {
        pieces.Before(part);
        CallCopies();
      }
      if (!markers_[calls[i]]) {
        stage_->calls.push_back(calls[i]);
      }
      if (in_part && parts.ranges[part].end == i + 1) {
        pieces.Behind(part++);
        CallCopies();
      }
    }
    PRISM_CHECK_LE(copies_.slots(), size_t{std::numeric_limits<uint16_t>::max()});
    stage_->event_slot_count = static_cast<uint16_t>(copies_.slots());
  }

 private:
  void CallCopies() {
    const OpList ops = copies_.Take();
    if (!ops.empty()) {
      stage_->calls.push_back(assembly_->BlockOf(ops));
    }
  }

  const std::vector<bool>& markers_;  // by block
  JobAssembly* assembly_;
  graph::StageProgram* stage_;
  StageCopies copies_;
};

std::vector<LayerSpan> SpansOf(const graph::JobProgram& job, const graph::StageProgram& stage) {
  MarkerReader reader;
  for (uint32_t i = 0; i < stage.calls.size(); ++i) {
    const graph::Program& block = job.blocks[stage.calls[i]];
    if (IsMarker(block)) {
      reader.Read(job.strings[block.signature.front()],
                  (block.flags.front() & graph::kMarkerBegin) != 0, i);
    }
  }
  return reader.spans();
}

}  // namespace

Status OffloadJob(const JobOffload& offload, graph::JobProgram* job) {
  const bool activations = graph::OffloadsActivations(offload.what);
  if (activations && job->style.schedule == graph::Schedule::kZeroBubble) {
    return InvalidArgument(
        "offload of activations is not supported for schedules that compute weight gradients "
        "later");
  }
  if (graph::OffloadsOptimizer(offload.what)) {
    for (graph::Program& block : job->blocks) {
      const OffloadParts states = StateParts(KernelTables(*job), block);
      if (!states.empty()) {
        block = WithCopies(block, states, offload.prefetch, kStreams);
      }
    }
  }
  std::vector<OffloadParts> layers;  // by stage; none where activations stay
  for (const graph::StageProgram& stage : job->stages) {
    layers.push_back(activations ? ActivationParts(SpansOf(*job, stage), offload.layer_bytes)
                                 : OffloadParts());
  }
  std::vector<bool> markers;
  for (const graph::Program& block : job->blocks) {
    markers.push_back(IsMarker(block));
  }
  JobAssembly assembly;
  assembly.MoveFrom(job);
  for (size_t stage = 0; stage < job->stages.size(); ++stage) {
    StageOffload(markers, &assembly, &job->stages[stage]).Run(layers[stage], offload.prefetch);
  }
  assembly.MoveInto(job);
  return OkStatus();
}

std::vector<int64_t> StatesAtOnce(const graph::JobProgram& job, int64_t prefetch) {
  std::map<uint32_t, int64_t> of_block;
  std::vector<int64_t> at_once;
  for (const graph::StageProgram& stage : job.stages) {
    int64_t& most = at_once.emplace_back();
    for (const uint32_t block : stage.calls) {
      const auto [found, inserted] = of_block.try_emplace(block);
      if (inserted) {
        found->second = StateParts(KernelTables(job), job.blocks[block]).LargestBytes(prefetch);
      }
      most = std::max(most, found->second);
    }
  }
  return at_once;
}

}  // namespace prism::slicer
