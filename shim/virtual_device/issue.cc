#include "shim/virtual_device/issue.h"

#include "shim/clock/host_meter.h"
#include "shim/session.h"
#include "shim/virtual_device/capture.h"
#include "shim/virtual_device/launch_queue.h"
#include "shim/virtual_device/stream.h"

namespace prism::shim {
namespace {

using channel::Record;
using channel::RecordKind;

cudaGraphNodeType TypeOf(const Record& record) {
  switch (record.kind) {
    case RecordKind::kMemcpy:
      return cudaGraphNodeTypeMemcpy;
    case RecordKind::kMemset:
      return cudaGraphNodeTypeMemset;
    case RecordKind::kEventRecord:
      return cudaGraphNodeTypeEventRecord;
    case RecordKind::kEventWait:
      return cudaGraphNodeTypeWaitEvent;
    default:
      return cudaGraphNodeTypeKernel;
  }
}

void EmitOn(cudaStream_t stream, Record record, const std::function<void()>& effect) {
  CountImplicitOrder(stream);
  record.stream = StreamIndex(stream);
  Emit(record);
  CountIssuedOp();
  if (effect) {
    effect();
  }
}

}  // namespace

void IssueOp(cudaStream_t stream, Record record, std::function<void()> effect) {
  const InShim inside;
  if (IsCapturing()) {
    const auto run = [stream, record, effect](const GraphRun& graph) {
      EmitOn(graph.Stream(stream), record, effect);
    };
    const bool is_event =
        record.kind == RecordKind::kEventRecord || record.kind == RecordKind::kEventWait;
    if (is_event ? Keep(stream, TypeOf(record), run) : KeepOp(stream, TypeOf(record), run)) {
      return;
    }
  }
  EmitOn(stream, record, effect);
}

}  // namespace prism::shim
