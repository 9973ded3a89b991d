// The result of recording a hand-made stream.
#pragma once

#include "slicer/record/recorder.h"
#include "tests/slicer/record_script.h"

namespace prism::slicer {

inline Status Feed(const RecordScript& script, Recorder* recorder) {
  for (const ScriptedRecord& scripted : script.records()) {
    PRISM_RETURN_IF_ERROR(recorder->Consume(scripted.record, scripted.payload));
  }
  return OkStatus();
}

inline Result<graph::Fragment> RecordAll(const RecordScript& script,
                                         uint32_t rank = 0,
                                         int32_t warmup = 1) {
  Recorder recorder({.rank = Rank(rank), .warmup_iterations = warmup});
  PRISM_RETURN_IF_ERROR(Feed(script, &recorder));
  return recorder.Finish();
}

}  // namespace prism::slicer
