#include "slicer/import/kineto/trace_events.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "graph/base/lower_case.h"
#include "slicer/import/kineto/product_shapes.h"

namespace prism::slicer {
namespace {

// By begin; what begins together stays in the order of the file. The entries are large: their
// places are sorted, and each is moved once.
template <typename Entry>
void SortBy(TimeNs Entry::* begin, std::vector<Entry>* entries) {
  if (std::ranges::is_sorted(*entries, {}, begin)) {
    return;
  }
  std::vector<std::pair<TimeNs, size_t>> order;
  order.reserve(entries->size());
  for (size_t place = 0; place < entries->size(); ++place) {
    order.emplace_back((*entries)[place].*begin, place);
  }
  std::ranges::sort(order);
  std::vector<Entry> sorted;
  sorted.reserve(entries->size());
  for (const auto& [time, place] : order) {
    sorted.push_back(std::move((*entries)[place]));
  }
  entries->swap(sorted);
}

// Returns how many. Of events that begin together, which in a stranger's file may be all, those
// kept are looked up.
int64_t DropRepeatedOf(std::vector<KinetoRange>* sorted) {
  const auto key = [](const KinetoRange* range) {
    return std::tie(range->duration_ns, range->correlation, range->thread, range->stream,
                    range->device, range->process, range->name);
  };
  const auto less = [&](const KinetoRange* a, const KinetoRange* b) { return key(a) < key(b); };
  std::set<const KinetoRange*, decltype(less)> together(less);  // none as long as it is one
  KinetoRange* end = sorted->data();                            // of those kept
  for (KinetoRange& range : *sorted) {
    const bool is_with_last = end != sorted->data() && end[-1].begin_ns == range.begin_ns;
    if (!is_with_last) {
      together.clear();
    } else if (together.empty()) {
      together.insert(end - 1);
    }
    if (end != &range) {
      *end = std::move(range);
    }
    end += !is_with_last || together.insert(end).second ? 1 : 0;
  }
  const auto kept = end - sorted->data();
  const int64_t repeated = std::ssize(*sorted) - kept;
  sorted->resize(static_cast<size_t>(kept));
  return repeated;
}

// Some profilers mark a step twice, as a host range and as an op: of marks of one name that
// overlap, the first stays.
void DropRepeatedSteps(std::vector<KinetoRange>* steps) {
  std::map<std::string, TimeNs, std::less<>> ends;
  std::erase_if(*steps, [&](const KinetoRange& step) {
    TimeNs& end = ends.try_emplace(step.name, std::numeric_limits<TimeNs>::min()).first->second;
    const bool repeated = step.begin_ns < end;
    end = std::max(end, step.end_ns());
    return repeated;
  });
}

}  // namespace

// Older profilers write "Kernel" and "Runtime", others than CUDA "hip_runtime".
TraceCategory TraceCategoryOf(std::string_view text) {
  constexpr std::string_view kTasks[] = {"kernel", "gpu_memcpy", "gpu_memset",
                                         "memcpy", "memset",     "concurrent_kernel"};
  constexpr std::string_view kGpuRangePrefix = "gpu_";  // copies of host ranges on its time line
  const std::string category = LowerCase(text);
  return std::ranges::find(kTasks, category) != std::end(kTasks)         ? TraceCategory::kTask
         : category.ends_with("runtime") || category.ends_with("driver") ? TraceCategory::kCall
         : category.starts_with(kGpuRangePrefix)                         ? TraceCategory::kGpuRange
         : category == "python_function"                                 ? TraceCategory::kFunction
         : category == "cpu_op" || category == "operator"                ? TraceCategory::kOp
                                                                         : TraceCategory::kOther;
}

void TraceEvent::Clear() {
  const auto take = [](auto* kept) {
    kept->clear();
    return std::move(*kept);
  };
  KinetoRange empty;
  empty.name = take(&range.name);
  range = std::move(empty);
  if (has_collective) {
    collective = KinetoCollective();
  }
  *static_cast<TraceEventNumbers*>(this) = {};
  for (std::string* const text : {&group_ranks, &input_type}) {
    text->clear();
  }
  input_dims.clear();
  dims.clear();
}

void TraceEvents::Take(TraceEvent* event) {
  if (event->phase == 'X' || (event->phase == '\0' && event->has_duration)) {
    Keep(event);
  } else if (event->phase == 'B' || event->phase == 'E') {
    if (event->has_time) {
      halves_.push_back(std::move(*event));
    }
  } else {
    KeepMemory(event);
  }
}

void TraceEvents::Keep(TraceEvent* event) {
  KinetoRange& range = event->range;
  std::vector<KinetoRange>* const kept = ListOf(*event);
  const bool is_timed = event->has_time && event->has_duration;
  if ((!event->dims.empty() || event->function > 0) && is_timed && IsProductOp(range.name)) {
    trace_.products.push_back({range.name, range.begin_ns, range.duration_ns, range.thread,
                               event->function, std::move(event->dims), event->input_type});
  }
  const bool is_function = event->category == TraceCategory::kFunction;
  const bool is_op = parts_ == KinetoParts::kAll &&
                     (kept == &trace_.issues ||
                      (kept == nullptr && (is_function || event->category == TraceCategory::kOp)));
  if (kept == nullptr && !is_op) {
    return;
  }
  if (!is_timed) {
    ++trace_.untimed;
    return;
  }
  if (is_op) {
    trace_.ops.push_back(
        {range.name, range.begin_ns, range.duration_ns, range.thread, is_function});
  }
  if (kept == nullptr) {
    return;
  }
  if (kept != &trace_.calls && kept != &trace_.steps) {
    FillCollective(event);
  }
  range.stream = range.stream < 0 ? range.thread : range.stream;
  kept->push_back(std::move(range));
}

void TraceEvents::KeepMemory(TraceEvent* event) {
  if (parts_ == KinetoParts::kAll && event->range.name == "[memory]" && event->has_time) {
    event->memory.time_ns = event->range.begin_ns;
    event->memory.thread = event->range.thread;
    trace_.memory.push_back(event->memory);
  }
}

// Where events of the category and of this event's name are kept; null: nowhere.
std::vector<KinetoRange>* TraceEvents::ListOf(const TraceEvent& event) {
  if (event.category == TraceCategory::kTask) {
    return &trace_.tasks;
  }
  if (event.category == TraceCategory::kCall) {
    return &trace_.calls;
  }
  if (event.category == TraceCategory::kGpuRange) {
    return nullptr;
  }
  const std::string& name = event.range.name;
  if (asked_.empty() ? name.starts_with("ProfilerStep#") : name == asked_) {
    return &trace_.steps;
  }
  return name.starts_with("nccl:") ? &trace_.issues : nullptr;
}

void TraceEvents::FillCollective(TraceEvent* event) {
  KinetoCollective& collective = event->collective;
  event->has_collective = true;
  collective.elements =
      std::clamp<int64_t>(std::max(event->in_elements, event->out_elements), 0, kMaxTraceElements);
  collective.members = rank_lists_.ListOf(event->group_ranks, event->group_size);
  collective.size = event->group_size;
  if (event->range.name.starts_with("nccl:")) {
    collective.name = event->range.name.substr(std::string_view("nccl:").size());
    collective.is_input = collective.elements == 0;
    for (const int64_t elements : event->input_dims) {
      collective.elements = std::max(collective.elements, elements);
    }
    if (collective.dtype.empty()) {
      collective.dtype = event->input_type;
    }
  }
  const bool is_noted = !collective.name.empty() || !collective.dtype.empty() ||
                        !collective.group.empty() || collective.members != nullptr ||
                        collective.elements > 0 || collective.size > 0 || collective.source >= 0 ||
                        collective.destination >= 0;
  if (is_noted) {
    event->range.noted = std::make_shared<KinetoCollective>(std::move(collective));
  }
}

// Those of one thread nest. What has no end has no duration.
void TraceEvents::JoinEnds() {
  std::ranges::stable_sort(halves_, [](const TraceEvent& a, const TraceEvent& b) {
    const KinetoRange& x = a.range;
    const KinetoRange& y = b.range;
    return std::tie(x.process, x.thread, x.begin_ns) < std::tie(y.process, y.thread, y.begin_ns);
  });
  std::vector<TraceEvent*> open;
  for (TraceEvent& half : halves_) {
    const auto is_same_thread = [&](const TraceEvent& other) {
      return other.range.process == half.range.process && other.range.thread == half.range.thread;
    };
    while (!open.empty() && !is_same_thread(*open.back())) {
      Keep(open.back());
      open.pop_back();
    }
    if (half.phase == 'B') {
      open.push_back(&half);
    } else if (!open.empty()) {
      TraceEvent& begun = *open.back();
      open.pop_back();
      begun.range.duration_ns = half.range.begin_ns - begun.range.begin_ns;
      begun.has_duration = true;
      Keep(&begun);
    }
  }
  for (TraceEvent* const endless : open) {
    Keep(endless);
  }
  halves_.clear();
}

void DropRepeated(KinetoTrace* trace) {
  trace->repeated = DropRepeatedOf(&trace->calls) + DropRepeatedOf(&trace->tasks);
}

void TraceEvents::Finish() {
  JoinEnds();
  for (std::vector<KinetoRange>* ranges :
       {&trace_.steps, &trace_.calls, &trace_.issues, &trace_.tasks}) {
    SortBy(&KinetoRange::begin_ns, ranges);
  }
  SortBy(&KinetoOp::begin_ns, &trace_.ops);
  SortBy(&KinetoProduct::begin_ns, &trace_.products);
  SortBy(&KinetoMemory::time_ns, &trace_.memory);
  DropRepeatedSteps(&trace_.steps);
  DropRepeated(&trace_);
}

}  // namespace prism::slicer
