// Which pieces of a program are offloaded to host memory, and the ops that copy them. Shared by the
// edit of a graph (offload_edit.cc) and of a synthesised job (job_offload.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/job/offload.h"
#include "slicer/edit/optimizer_calls.h"
#include "slicer/edit/program_passes.h"

namespace prism::slicer {

// Parts of a program that use pieces, in program order and without overlap.
struct OffloadParts {
  struct Range {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  std::vector<Range> ranges;
  std::vector<graph::PieceTouch> touches;  // by range
  std::vector<int64_t> bytes;              // by piece
  int64_t alive = 0;                       // most pieces that wait for their use at the same time

  [[nodiscard]] bool empty() const { return ranges.empty(); }
  [[nodiscard]] int64_t TotalBytes() const;
  // The largest sum over `prefetch` + 1 consecutive pieces.
  [[nodiscard]] int64_t LargestBytes(int64_t prefetch) const;
};

// Optimizer states, one piece per launch of an update.
OffloadParts StateParts(const KernelTables& tables, const graph::Program& program);

// Activations of layers that have both passes, `bytes` each.
OffloadParts ActivationParts(const std::vector<LayerSpan>& spans, int64_t bytes);

// What is assumed about their copies, one line each.
std::string StatesRule(int64_t prefetch);
std::string ActivationsRule(const std::string& what, int64_t prefetch);

// Where the ops of copies are written.
class CopyWriter {
 public:
  CopyWriter() = default;
  CopyWriter(const CopyWriter&) = delete;
  CopyWriter& operator=(const CopyWriter&) = delete;
  virtual ~CopyWriter() = default;

  // Records an event, which may be waited for at most once.
  virtual uint32_t Record(uint16_t stream) = 0;
  virtual void Wait(uint16_t stream, uint32_t event) = 0;
  virtual void Copy(uint16_t stream, int64_t bytes, uint8_t direction) = 0;
};

struct CopyStreams {
  uint16_t compute = 0;
  uint16_t in = 0;
  uint16_t out = 0;
};

// The copies around the parts, in this order: Before(0), Behind(0), Before(1), ...
class PieceCopies {
 public:
  // All outlive the copies.
  PieceCopies(const OffloadParts& parts,
              int64_t prefetch,
              const CopyStreams& streams,
              CopyWriter* writer);

  void Before(size_t part);
  void Behind(size_t part);

 private:
  void Fetch(uint32_t piece);
  uint32_t Out(uint32_t piece);

  const OffloadParts& parts_;
  size_t prefetch_;
  CopyStreams streams_;
  CopyWriter* writer_;
  std::vector<std::vector<uint32_t>> fetches_;  // by part
  std::vector<uint32_t> there_;                 // by piece: event of its copy out, or none
  std::vector<uint32_t> fetched_;               // by piece: event of its copy in
  std::vector<uint32_t> freed_;                 // by use: event after it
  size_t fetch_count_ = 0;
};

// The program with the copies of its parts.
graph::Program WithCopies(const graph::Program& program,
                          const OffloadParts& parts,
                          int64_t prefetch,
                          const CopyStreams& streams);

}  // namespace prism::slicer
