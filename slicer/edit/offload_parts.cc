#include "slicer/edit/offload_parts.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "slicer/edit/program_rewriter.h"

namespace prism::slicer {
namespace {

constexpr uint32_t kNoPart = graph::kNoDep;

constexpr const char* kCopiesAssumed =
    "copies run on two separate streams, one per direction, from pinned memory at the cluster's "
    "gpu.copy_bytes_per_s";

class RewriterCopies : public CopyWriter {
 public:
  explicit RewriterCopies(ProgramRewriter* rewriter) : rewriter_(rewriter) {}

  uint32_t Record(uint16_t stream) override { return rewriter_->Record(stream); }
  void Wait(uint16_t stream, uint32_t event) override { rewriter_->Wait(stream, event); }
  void Copy(uint16_t stream, int64_t bytes, uint8_t direction) override {
    rewriter_->Add(
        {.kind = graph::OpKind::kMemcpy, .flags = direction, .stream = stream, .value = bytes});
  }

 private:
  ProgramRewriter* rewriter_;
};

void KeepUntil(uint32_t op, ProgramRewriter* rewriter) {
  while (rewriter->next() < op) {
    rewriter->Keep();
  }
}

}  // namespace

int64_t OffloadParts::TotalBytes() const {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

int64_t OffloadParts::LargestBytes(int64_t prefetch) const {
  int64_t most = 0;
  for (auto first = bytes.begin(); first != bytes.end(); ++first) {
    const auto last = first + std::min<int64_t>(prefetch + 1, bytes.end() - first);
    most = std::max(most, std::accumulate(first, last, int64_t{0}));
  }
  return most;
}

OffloadParts StateParts(const KernelTables& tables, const graph::Program& program) {
  OffloadParts parts;
  for (const OptimizerCall& call : FindOptimizerCalls(tables, program)) {
    if (call.moments == 0) {
      continue;
    }
    const auto bytes = static_cast<double>(call.StateBytes());
    for (size_t i = 0; i < call.launches.size(); ++i) {
      const uint32_t end = i + 1 < call.launches.size() ? call.launches[i + 1] : call.end;
      parts.ranges.push_back({call.launches[i], end});
      parts.touches.push_back({static_cast<uint32_t>(parts.bytes.size()), true, true});
      parts.bytes.push_back(static_cast<int64_t>(bytes * call.shares[i]));
    }
  }
  return parts;
}

OffloadParts ActivationParts(const std::vector<LayerSpan>& spans, int64_t bytes) {
  OffloadParts parts;
  std::vector<uint32_t> piece_of(spans.size(), kNoPart);
  std::map<std::string, uint32_t> forward;  // spans without their backward pass yet
  uint32_t pieces = 0;
  int64_t waiting = 0;
  for (uint32_t s = 0; s < spans.size(); ++s) {
    const LayerSpan& span = spans[s];
    if (span.pass == Pass::kForward) {
      forward[span.key] = s;
      parts.alive = std::max(parts.alive, ++waiting);
    } else if (const auto found = forward.find(span.key); found != forward.end()) {
      piece_of[s] = piece_of[found->second] = pieces++;
      --waiting;
      forward.erase(found);
    }
  }
  for (uint32_t s = 0; s < spans.size(); ++s) {
    if (piece_of[s] != kNoPart) {
      const bool needs = spans[s].pass != Pass::kForward;
      parts.ranges.push_back({spans[s].begin, spans[s].end});
      parts.touches.push_back({piece_of[s], needs, !needs});
    }
  }
  parts.bytes.assign(pieces, bytes);
  return parts;
}

std::string StatesRule(int64_t prefetch) {
  return fmt::format(
      "offload of optimizer states: each piece is copied in before its update, {} ahead, and "
      "copied out after it; {}",
      prefetch, kCopiesAssumed);
}

std::string ActivationsRule(const std::string& what, int64_t prefetch) {
  return fmt::format(
      "offload of activations: {}, copied out after the forward pass and back before the backward "
      "pass, {} ahead; {}",
      what, prefetch, kCopiesAssumed);
}

PieceCopies::PieceCopies(const OffloadParts& parts,
                         int64_t prefetch,
                         const CopyStreams& streams,
                         CopyWriter* writer)
    : parts_(parts),
      prefetch_(static_cast<size_t>(prefetch)),
      streams_(streams),
      writer_(writer),
      fetches_(graph::FetchesOf(parts.touches, prefetch)),
      there_(parts.bytes.size(), kNoPart),
      fetched_(parts.bytes.size(), kNoPart) {
}

void PieceCopies::Before(size_t part) {
  for (const uint32_t piece : fetches_[part]) {
    Fetch(piece);
  }
  if (parts_.touches[part].needs) {
    writer_->Wait(streams_.compute, fetched_[parts_.touches[part].piece]);
  }
}

void PieceCopies::Behind(size_t part) {
  const graph::PieceTouch& touch = parts_.touches[part];
  if (!touch.leaves) {
    freed_.push_back(writer_->Record(streams_.compute));
    return;
  }
  const uint32_t end = Out(touch.piece);
  if (touch.needs) {
    freed_.push_back(end);
  } else {
    there_[touch.piece] = end;
  }
}

// From device to host, after what the compute stream holds; returns the event of its end.
uint32_t PieceCopies::Out(uint32_t piece) {
  writer_->Wait(streams_.out, writer_->Record(streams_.compute));
  writer_->Copy(streams_.out, parts_.bytes[piece], graph::kDeviceToHost);
  return writer_->Record(streams_.out);
}

// Back to the device, once the host has the piece and a buffer is free: when the use of the piece
// `prefetch` + 1 before has ended.
void PieceCopies::Fetch(uint32_t piece) {
  if (there_[piece] != kNoPart) {
    writer_->Wait(streams_.in, there_[piece]);
  }
  if (fetch_count_ > prefetch_) {
    writer_->Wait(streams_.in, freed_[fetch_count_ - prefetch_ - 1]);
  }
  writer_->Copy(streams_.in, parts_.bytes[piece], graph::kHostToDevice);
  fetched_[piece] = writer_->Record(streams_.in);
  ++fetch_count_;
}

graph::Program WithCopies(const graph::Program& program,
                          const OffloadParts& parts,
                          int64_t prefetch,
                          const CopyStreams& streams) {
  ProgramRewriter rewriter(program);
  rewriter.AllowStreams(static_cast<uint16_t>(std::max(streams.in, streams.out) + 1));
  RewriterCopies writer(&rewriter);
  PieceCopies copies(parts, prefetch, streams, &writer);
  for (size_t part = 0; part < parts.ranges.size(); ++part) {
    KeepUntil(parts.ranges[part].begin, &rewriter);
    copies.Before(part);
    KeepUntil(parts.ranges[part].end, &rewriter);
    copies.Behind(part);
  }
  KeepUntil(program.size(), &rewriter);
  return rewriter.Finish();
}

}  // namespace prism::slicer
