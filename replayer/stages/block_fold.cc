#include "replayer/stages/block_fold.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace prism::replayer {
namespace {

// Minus infinity that survives adding durations.
constexpr DurationNs kMinusInfinity = std::numeric_limits<DurationNs>::min() / 4;

// A time as a function of the earlier host and tails: max(host + from_host, tail[j] +
// from_tail[j]).
struct Form {
  DurationNs from_host = kMinusInfinity;
  std::array<DurationNs, kMaxFoldedStreams> from_tail = {};
};

Form Never() {
  Form form;
  form.from_tail.fill(kMinusInfinity);
  return form;
}

void Raise(const Form& other, Form* form) {
  form->from_host = std::max(form->from_host, other.from_host);
  for (size_t j = 0; j < kMaxFoldedStreams; ++j) {
    form->from_tail[j] = std::max(form->from_tail[j], other.from_tail[j]);
  }
}

void Delay(DurationNs duration, Form* form) {
  form->from_host += duration;
  for (DurationNs& entry : form->from_tail) {
    entry += duration;
  }
}

std::vector<Form> Identity(size_t streams) {
  std::vector<Form> tails(streams, Never());
  for (size_t i = 0; i < streams; ++i) {
    tails[i].from_tail[i] = 0;
  }
  return tails;
}

template <typename Streams>
size_t IndexOf(const Streams& streams, size_t count, uint16_t stream) {
  return static_cast<size_t>(
      std::find(streams.begin(), streams.begin() + static_cast<ptrdiff_t>(count), stream) -
      streams.begin());
}

void Store(const std::vector<Form>& tails, FoldedSegment* folded) {
  for (size_t i = 0; i < tails.size(); ++i) {
    folded->from_host[i] = tails[i].from_host;
    folded->from_tail[i] = tails[i].from_tail;
  }
}

// Evaluates one block symbolically, as forms.
class BlockFolder {
 public:
  BlockFolder(const StagePlan& plan, uint32_t block, const FoldDurations& durations)
      : plan_(plan),
        block_(plan.blocks[block]),
        charges_(plan.charges[block]),
        durations_(durations),
        kernel_streams_(plan.kernel_streams.size()) {
    events_.resize(block_.event_count, Never());
    compute_.assign(kernel_streams_, 0);
    compute_at_.resize(block_.ops.size() * kernel_streams_);
  }

  FoldedSegment Run() {
    folded_.stream_count = static_cast<uint32_t>(block_.streams.size());
    std::copy(block_.streams.begin(), block_.streams.end(), folded_.streams.begin());
    tails_ = Identity(block_.streams.size());
    for (size_t tail = 0; tail < block_.streams.size(); ++tail) {
      tail_of_[block_.streams[tail]] = static_cast<uint8_t>(tail);
    }
    for (uint32_t i = 0; i < block_.ops.size(); ++i) {
      Step(i);
    }
    folded_.host_ns = host_ + (*durations_.span)[block_.rest_span];
    Store(tails_, &folded_);
    folded_.compute_ns = compute_;
    for (const BlockExport& left : charges_.exports) {
      const auto begin =
          compute_at_.begin() + static_cast<std::ptrdiff_t>(left.op * kernel_streams_);
      folded_.export_ns.insert(folded_.export_ns.end(), begin,
                               begin + static_cast<std::ptrdiff_t>(kernel_streams_));
    }
    return std::move(folded_);
  }

 private:
  void Step(uint32_t i) {
    const StageOp& op = block_.ops[i];
    host_ += (*durations_.span)[op.span];
    Form& tail = tails_[tail_of_[op.stream]];
    tail.from_host = std::max(tail.from_host, host_);
    switch (op.kind) {
      case StageOpKind::kWork:
        Work(op, &tail);
        break;
      case StageOpKind::kRecord:
        if (op.event != kNone) {
          events_[op.event] = tail;
        }
        break;
      case StageOpKind::kWait:
        if (op.event != kNone) {
          Raise(events_[op.event], &tail);
        }
        Delay(ChargeOf(i, op.stream), &tail);
        break;
      case StageOpKind::kCollective:
        std::copy(compute_.begin(), compute_.end(),
                  compute_at_.begin() + static_cast<std::ptrdiff_t>(i * kernel_streams_));
        Delay((*durations_.collective)[op.index], &tail);
        break;
      case StageOpKind::kPeerGroup:
      case StageOpKind::kHostSync:
        break;  // in no closed block
    }
  }

  // Work that is issued several times begins with the first or ends with the last: in between, the
  // host and the stream each fall behind at their own pace.
  void Work(const StageOp& op, Form* tail) {
    const DurationNs once = (*durations_.work)[op.index];
    const DurationNs all = op.times * once;
    Delay(all, tail);
    host_ += (op.times - 1) * (*durations_.span)[op.span];
    tail->from_host = std::max(tail->from_host, host_ + once);
    if (plan_.tables.works[op.index].kind == graph::OpKind::kKernel) {
      compute_[KernelStream(op.stream)] += all;
    }
  }

  // Waits come in order, and so do the collectives that they pay for.
  DurationNs ChargeOf(uint32_t wait, uint16_t stream) {
    DurationNs charge = 0;
    for (; next_source_ < charges_.sources.size() && charges_.sources[next_source_].wait == wait;
         ++next_source_) {
      const BlockChargeSource& source = charges_.sources[next_source_];
      const size_t k = KernelStream(stream);
      if (k == kernel_streams_) {
        continue;
      }
      const DurationNs compute = compute_[k] - compute_at_[source.collective * kernel_streams_ + k];
      const DurationNs beside = std::min((*durations_.transfer)[source.transfer], compute);
      charge += std::llround((durations_.overlap_slowdown - 1) * static_cast<double>(beside));
    }
    return charge;
  }

  [[nodiscard]] size_t KernelStream(uint16_t stream) const {
    return IndexOf(plan_.kernel_streams, kernel_streams_, stream);
  }

  const StagePlan& plan_;
  const LoweredBlock& block_;
  const BlockCharges& charges_;
  const FoldDurations& durations_;
  size_t kernel_streams_;
  DurationNs host_ = 0;
  std::vector<Form> tails_;                                     // by stream of the block
  std::array<uint8_t, graph::kStageStreamCount> tail_of_ = {};  // by stream: index into tails_
  std::vector<Form> events_;                                    // by event
  std::vector<DurationNs> compute_;                             // by kernel stream
  std::vector<DurationNs> compute_at_;  // by op and kernel stream, for collectives
  size_t next_source_ = 0;
  FoldedSegment folded_;
};

}  // namespace

FoldedSegment FoldBlock(const StagePlan& plan, uint32_t block, const FoldDurations& durations) {
  return BlockFolder(plan, block, durations).Run();
}

FoldedSegment FoldSegment(const Segment& segment, const std::vector<FoldedSegment>& blocks) {
  if (segment.blocks.size() == 1) {
    return blocks[segment.blocks.front()];
  }
  FoldedSegment folded;
  for (const uint32_t block : segment.blocks) {
    const FoldedSegment& part = blocks[block];
    for (uint32_t i = 0; i < part.stream_count; ++i) {
      if (IndexOf(folded.streams, folded.stream_count, part.streams[i]) == folded.stream_count) {
        folded.streams[folded.stream_count++] = part.streams[i];
      }
    }
  }
  std::vector<Form> tails = Identity(folded.stream_count);
  std::vector<Form> before;
  folded.compute_ns.assign(blocks[segment.blocks.front()].compute_ns.size(), 0);
  for (const uint32_t block : segment.blocks) {
    const FoldedSegment& part = blocks[block];
    before = tails;
    for (uint32_t i = 0; i < part.stream_count; ++i) {
      Form& tail = tails[IndexOf(folded.streams, folded.stream_count, part.streams[i])];
      tail = Never();
      tail.from_host = folded.host_ns + part.from_host[i];
      for (uint32_t j = 0; j < part.stream_count; ++j) {
        if (part.from_tail[i][j] > kMinusInfinity / 2) {
          Form moved = before[IndexOf(folded.streams, folded.stream_count, part.streams[j])];
          Delay(part.from_tail[i][j], &moved);
          Raise(moved, &tail);
        }
      }
    }
    folded.host_ns += part.host_ns;
    for (size_t k = 0; k < folded.compute_ns.size(); ++k) {
      folded.compute_ns[k] += part.compute_ns[k];
    }
  }
  Store(tails, &folded);
  return folded;
}

}  // namespace prism::replayer
