#include "slicer/record/recorded_iteration.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "graph/describe.h"
#include "slicer/record/iteration_rule.h"

namespace prism::slicer {
namespace {

using graph::OpKind;

bool IsSegmentOp(const CanonicalOp& op) {
  return op.kind == OpKind::kSegmentAlloc || op.kind == OpKind::kSegmentFree;
}

bool IsCommunication(const CanonicalOp& op) {
  return op.kind == OpKind::kCollective || op.kind == OpKind::kPeerGroup;
}

// Removes the ops for which `is_dropped` holds; returns how many there were.
template <typename Predicate>
int64_t DropOps(Iteration* iteration, Predicate is_dropped) {
  std::vector<uint32_t> new_index;
  std::vector<CanonicalOp> kept;
  uint32_t closed = 0;
  for (size_t i = 0; i < iteration->ops.size(); ++i) {
    CanonicalOp op = iteration->ops[i];
    new_index.push_back(static_cast<uint32_t>(kept.size()));
    if (is_dropped(op)) {
      continue;
    }
    if (op.dep != graph::kNoDep) {
      op.dep = new_index[op.dep];
    }
    kept.push_back(op);
    closed = i < iteration->closed ? static_cast<uint32_t>(kept.size()) : closed;
  }
  const size_t dropped = iteration->ops.size() - kept.size();
  iteration->ops = std::move(kept);
  iteration->closed = closed;
  return static_cast<int64_t>(dropped);
}

// Records of events that nothing in the iteration waits for.
void DropUnusedEvents(Iteration* iteration) {
  std::vector<bool> is_used(iteration->ops.size(), false);
  for (const CanonicalOp& op : iteration->ops) {
    if (op.dep != graph::kNoDep) {
      is_used[op.dep] = true;
    }
  }
  size_t index = 0;
  DropOps(iteration, [&](const CanonicalOp& op) {
    return !is_used[index++] && op.kind == OpKind::kEventRecord;
  });
}

// Whether the `period` iterations before `end` repeat the ones before them.
bool RepeatsBefore(size_t end, size_t period, const std::vector<Iteration>& iterations) {
  for (size_t i = end - period; i < end; ++i) {
    if (!DoSame(iterations[i - period], iterations[i])) {
      return false;
    }
  }
  return true;
}

}  // namespace

int64_t DropSegments(Iteration* iteration) {
  return DropOps(iteration, IsSegmentOp);
}

Iteration WithoutRanges(Iteration iteration) {
  DropOps(&iteration, [&](const CanonicalOp& op) {
    return !IsSegmentOp(op) && MayComeAndGo(op.kind, op.signature, iteration.tables.strings);
  });
  return iteration;
}

Iteration WithoutWaits(Iteration iteration) {
  DropOps(&iteration, [&](const CanonicalOp& op) {
    return op.kind == OpKind::kEventSync || op.kind == OpKind::kHostGap ||
           MayComeAndGo(op.kind, op.signature, iteration.tables.strings);
  });
  DropUnusedEvents(&iteration);
  return iteration;
}

int64_t OptimizerSteps(const Iteration& iteration) {
  return std::ranges::count_if(iteration.ops, [&](const CanonicalOp& op) {
    return op.kind == OpKind::kMarker && (op.flags & graph::kMarkerBegin) != 0 &&
           iteration.tables.strings[op.signature].starts_with(kOptimizerStepPrefix);
  });
}

std::string DescribeAt(const Iteration& iteration, size_t index) {
  return index < iteration.ops.size()
             ? graph::WithoutTemplates(DescribeOp(iteration.ops[index], iteration.tables))
             : "nothing (the iteration is over)";
}

std::optional<size_t> FirstDifference(const Iteration& a, const Iteration& b, size_t count) {
  const bool same_tables = a.tables == b.tables;
  for (size_t i = 0; i < count; ++i) {
    if (i >= a.ops.size() || i >= b.ops.size()) {
      return i;
    }
    const bool same =
        same_tables ? a.ops[i] == b.ops[i] : SameOp(a.ops[i], a.tables, b.ops[i], b.tables);
    if (!same) {
      return i;
    }
  }
  return std::nullopt;
}

bool DoSame(const Iteration& a, const Iteration& b) {
  return !FirstDifference(a, b, std::max(a.ops.size(), b.ops.size())).has_value();
}

bool CommunicateAlike(const Iteration& a, const Iteration& b) {
  const auto calls = [](const Iteration& iteration) {
    std::vector<CanonicalOp> ops;
    std::ranges::copy_if(iteration.ops, std::back_inserter(ops), IsCommunication);
    return ops;
  };
  return std::ranges::equal(calls(a), calls(b), [&](const auto& left, const auto& right) {
    return SameButForBytes(left, a.tables, right, b.tables);
  });
}

bool DoSameInAnotherOrder(const Iteration& a, const Iteration& b) {
  const auto sorted_texts = [](const Iteration& iteration) {
    std::vector<std::string> texts;
    for (const CanonicalOp& op : iteration.ops) {
      texts.push_back(DescribeOp(op, iteration.tables));
    }
    std::ranges::sort(texts);
    return texts;
  };
  return a.ops.size() == b.ops.size() && sorted_texts(a) == sorted_texts(b);
}

std::optional<int32_t> FindPeriod(const std::vector<Iteration>& iterations) {
  for (size_t end = iterations.size(); end > 0; --end) {
    for (size_t period = 2; 2 * period <= end && period <= kMaxStepsInTurn; ++period) {
      if (RepeatsBefore(end, period, iterations)) {
        return static_cast<int32_t>(period);
      }
    }
  }
  return std::nullopt;
}

}  // namespace prism::slicer
