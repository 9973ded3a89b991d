#include "slicer/import/kineto/trace_events.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "graph/base/lower_case.h"
#include "slicer/import/kineto/product_shapes.h"

namespace prism::slicer {
namespace {

// By begin; what begins together stays in the order of the file. The entries are large: their
// places are sorted, and each is moved once, along the circles of what takes whose place.
template <typename Entry>
void SortBy(TimeNs Entry::* begin, std::deque<Entry>* entries) {
  if (std::ranges::is_sorted(*entries, {}, begin)) {
    return;
  }
  std::vector<std::pair<TimeNs, size_t>> order;
  order.reserve(entries->size());
  for (size_t place = 0; place < entries->size(); ++place) {
    order.emplace_back((*entries)[place].*begin, place);
  }
  std::ranges::sort(order);
  for (size_t first = 0; first < order.size(); ++first) {
    Entry kept = std::move((*entries)[first]);
    size_t to = first;
    for (size_t from = order[to].second; from != first; from = order[to].second) {
      (*entries)[to] = std::move((*entries)[from]);
      order[to].second = to;
      to = from;
    }
    (*entries)[to] = std::move(kept);
    order[to].second = to;
  }
}

// Returns how many. Of events that begin together, which in a stranger's file may be all, those
// kept are looked up.
int64_t DropRepeatedOf(KinetoRanges* sorted) {
  const auto key = [](const KinetoRange* range) {
    return std::tie(range->duration_ns, range->correlation, range->thread, range->stream,
                    range->device, range->process, range->name);
  };
  const auto less = [&](const KinetoRange* a, const KinetoRange* b) { return key(a) < key(b); };
  std::set<const KinetoRange*, decltype(less)> together(less);  // none as long as it is one
  auto end = sorted->begin();                                   // of those kept
  for (const KinetoRange& range : *sorted) {
    const bool is_with_last = end != sorted->begin() && end[-1].begin_ns == range.begin_ns;
    if (!is_with_last) {
      together.clear();
    } else if (together.empty()) {
      together.insert(&end[-1]);
    }
    *end = range;
    end += !is_with_last || together.insert(&*end).second ? 1 : 0;
  }
  const int64_t repeated = sorted->end() - end;
  sorted->erase(end, sorted->end());
  return repeated;
}

// Some profilers mark a step twice, as a host range and as an op: of marks of one name that
// overlap, the first stays.
void DropRepeatedSteps(KinetoRanges* steps) {
  std::map<std::string_view, TimeNs> ends;
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
  range = {};
  if (has_collective) {
    collective = KinetoCollective();
  }
  *static_cast<TraceEventNumbers*>(this) = {};
  for (std::string* const text : {&name, &group_ranks, &input_type}) {
    text->clear();
  }
  input_dims.clear();
  dims.clear();
}

void TraceEvents::Take(TraceEvent* event) {
  const KinetoRange& range = event->range;
  if (event->phase == 'X' || (event->phase == '\0' && event->has_duration)) {
    Keep(event);
  } else if (event->phase != 'B' && event->phase != 'E') {
    KeepMemory(event);
  } else if (event->has_time) {
    Half half = {range.process, range.thread, range.begin_ns, event->phase == 'B'};
    event->has_duration = true;
    event->range.duration_ns = 0;
    half.kept = half.is_begin ? Keep(event) : Kept();
    halves_.push_back(half);
  }
}

TraceEvents::Kept TraceEvents::Keep(TraceEvent* event) {
  KinetoRange& range = event->range;
  KinetoRanges* const list = ListOf(*event);
  const bool is_timed = event->has_time && event->has_duration;
  const bool is_function = event->category == TraceCategory::kFunction;
  const bool is_op = parts_ == KinetoParts::kAll &&
                     (list == &trace_.issues ||
                      (list == nullptr && (is_function || event->category == TraceCategory::kOp)));
  const bool is_product = (!event->dims.empty() || event->function > 0) && IsProductOp(event->name);
  Kept kept;
  if (!is_timed) {
    trace_.untimed += list != nullptr || is_op ? 1 : 0;
    return kept;
  }
  if (list != nullptr || is_op || is_product) {
    range.name = trace_.texts.Keep(event->name);
  }
  if (is_product) {
    kept.product = KeepProduct(event);
  }
  if (is_op) {
    kept.op = &trace_.ops.emplace_back(
        KinetoOp{range.name, range.begin_ns, range.duration_ns, range.thread, is_function});
  }
  if (list != nullptr) {
    if (list != &trace_.calls && list != &trace_.steps) {
      FillCollective(event);
    }
    range.stream = range.stream < 0 ? range.thread : range.stream;
    kept.range = &list->emplace_back(range);
  }
  return kept;
}

KinetoProduct* TraceEvents::KeepProduct(TraceEvent* event) {
  const KinetoRange& range = event->range;
  KinetoProduct product = {range.name,   range.begin_ns,  range.duration_ns,
                           range.thread, event->function, nullptr};
  if (!event->dims.empty()) {
    ProductInputs inputs = {std::move(event->dims), event->input_type};
    std::shared_ptr<const ProductInputs>& known = inputs_[inputs];
    if (known == nullptr) {
      known = std::make_shared<const ProductInputs>(std::move(inputs));
    }
    product.inputs = known;
  }
  return &trace_.products.emplace_back(std::move(product));
}

void TraceEvents::KeepMemory(TraceEvent* event) {
  if (parts_ == KinetoParts::kAll && event->name == "[memory]" && event->has_time) {
    event->memory.time_ns = event->range.begin_ns;
    event->memory.thread = event->range.thread;
    trace_.memory.push_back(event->memory);
  }
}

// Where events of the category and of this event's name are kept; null: nowhere.
KinetoRanges* TraceEvents::ListOf(const TraceEvent& event) {
  if (event.category == TraceCategory::kTask) {
    return &trace_.tasks;
  }
  if (event.category == TraceCategory::kCall) {
    return &trace_.calls;
  }
  if (event.category == TraceCategory::kGpuRange) {
    return nullptr;
  }
  const std::string& name = event.name;
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
  if (event->name.starts_with("nccl:")) {
    collective.name = event->name.substr(std::string_view("nccl:").size());
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
    event->range.noted = &trace_.collectives.emplace_back(std::move(collective));
  }
}

// Those of one thread nest. What has no end has no duration.
void TraceEvents::JoinEnds() {
  std::ranges::stable_sort(halves_, [](const Half& a, const Half& b) {
    return std::tie(a.process, a.thread, a.time_ns) < std::tie(b.process, b.thread, b.time_ns);
  });
  std::vector<const Half*> open;
  std::vector<const Half*> endless;
  for (const Half& half : halves_) {
    while (!open.empty() &&
           (open.back()->process != half.process || open.back()->thread != half.thread)) {
      endless.push_back(open.back());
      open.pop_back();
    }
    if (half.is_begin) {
      open.push_back(&half);
    } else if (!open.empty()) {
      EndAt(half.time_ns, *open.back());
      open.pop_back();
    }
  }
  endless.insert(endless.end(), open.begin(), open.end());
  DropEndless(endless);
  halves_.clear();
}

void TraceEvents::EndAt(TimeNs end, const Half& begun) {
  const DurationNs duration = end - begun.time_ns;
  const Kept& kept = begun.kept;
  if (kept.range != nullptr) {
    kept.range->duration_ns = duration;
  }
  if (kept.op != nullptr) {
    kept.op->duration_ns = duration;
  }
  if (kept.product != nullptr) {
    kept.product->duration_ns = duration;
  }
}

void TraceEvents::DropEndless(const std::vector<const Half*>& endless) {
  if (endless.empty()) {
    return;
  }
  for (const Half* const half : endless) {
    trace_.untimed += half->kept.range != nullptr || half->kept.op != nullptr ? 1 : 0;
    EndAt(half->time_ns - 1, *half);
  }
  const auto is_endless = [](const auto& range) { return range.duration_ns < 0; };
  for (KinetoRanges* const ranges : {&trace_.steps, &trace_.calls, &trace_.issues, &trace_.tasks}) {
    std::erase_if(*ranges, is_endless);
  }
  std::erase_if(trace_.ops, is_endless);
  std::erase_if(trace_.products, is_endless);
}

Status RefuseProcesses(const KinetoTrace& trace, const std::string& file) {
  const auto is_of_first = [&](const KinetoRange& call) {
    return call.process == trace.calls.front().process;
  };
  if (std::ranges::all_of(trace.calls, is_of_first)) {
    return OkStatus();
  }
  std::unordered_set<int64_t> launched;
  for (const KinetoRange& task : trace.tasks) {
    launched.insert(task.correlation);
  }
  std::set<int64_t> processes;
  for (const KinetoRange& call : trace.calls) {
    if (call.correlation > 0 && launched.contains(call.correlation)) {
      processes.insert(call.process);
    }
  }
  return processes.size() <= 1
             ? OkStatus()
             : BadFile(
                   fmt::format("{}: {} processes launched its GPU tasks, and which did which is "
                               "not sure; write a file for each of them",
                               file, processes.size()));
}

void DropRepeated(KinetoTrace* trace) {
  trace->repeated = DropRepeatedOf(&trace->calls) + DropRepeatedOf(&trace->tasks);
}

void TraceEvents::Finish() {
  JoinEnds();
  for (KinetoRanges* ranges : {&trace_.steps, &trace_.calls, &trace_.issues, &trace_.tasks}) {
    SortBy(&KinetoRange::begin_ns, ranges);
  }
  SortBy(&KinetoOp::begin_ns, &trace_.ops);
  SortBy(&KinetoProduct::begin_ns, &trace_.products);
  SortBy(&KinetoMemory::time_ns, &trace_.memory);
  DropRepeatedSteps(&trace_.steps);
  DropRepeated(&trace_);
}

}  // namespace prism::slicer
