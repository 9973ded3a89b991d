// What stages of a job share: if their chunks have the same content they call the same phrases,
// with the same event slots.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/base/content_hash.h"
#include "graph/program/phrased_job.h"
#include "slicer/synthesize/data_parallel.h"
#include "slicer/synthesize/grad_buckets.h"
#include "slicer/synthesize/job_assembly.h"
#include "slicer/synthesize/model_chunks.h"

namespace prism::slicer {

class SharedPhrases {
 public:
  // Steps already written, and what their pass leaves held of its chunk.
  struct Written {
    uint32_t phrase = 0;
    std::vector<ParametersHeld::Of> held;
    bool copied_out = false;
  };

  // A number for a chunk's content. The chunk must not change.
  uint32_t NumberOf(const ModelChunk& chunk);

  // NumberOf: the number of the phrase with those calls, added if new. Add: that of a new phrase.
  uint32_t NumberOf(std::vector<uint32_t> calls);
  uint32_t Add(std::vector<uint32_t> calls);

  // By number.
  std::map<uint32_t, ChunkGradients>& gradients() { return gradients_; }
  EventSlots& slots() { return slots_; }

  // By StageSynthesis::ContentOf.
  std::unordered_map<std::vector<int64_t>, Written, NumbersHash>& written() { return written_; }

  [[nodiscard]] graph::PhrasedKind Take() { return {std::move(phrases_), slots_.count()}; }

 private:
  std::vector<const ModelChunk*> chunks_;  // distinct
  std::map<uint32_t, ChunkGradients> gradients_;
  EventSlots slots_;
  std::vector<std::vector<uint32_t>> phrases_;
  std::vector<uint64_t> phrase_hashes_;  // of phrases_, for NumberOf
  std::unordered_map<std::vector<int64_t>, Written, NumbersHash> written_;  // never iterated
};

}  // namespace prism::slicer
