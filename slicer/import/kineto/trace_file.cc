#include "slicer/import/kineto/trace_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include "graph/base/lower_case.h"
#include "graph/validate/limits.h"
#include "slicer/import/kineto/product_shapes.h"

namespace prism::slicer {
namespace {

// Times are in microseconds: beyond this, the sum of two overflows 64 bits of nanoseconds.
constexpr double kMaxTraceMicros = 4e15;
constexpr size_t kMaxDepth = 64;
constexpr size_t kLongestEscape = 12;  // "\\uD83D\\uDE00": an error in it is reported at its begin
constexpr size_t kLongestName = 4096;  // what is kept of one; kernels of templates are long
constexpr size_t kMostDims = 8;        // of a product, and of each of its inputs
constexpr int64_t kMaxElements = int64_t{1} << 46U;

// The fields of one event that are looked at, as text and numbers.
struct Event {
  KinetoRange range;
  std::string phase;
  std::string category;
  std::string group_ranks;  // "[0, 1]"
  int64_t in_elements = 0;  // from the kernel's metadata
  int64_t out_elements = 0;
  int64_t group_size = 0;
  std::vector<int64_t> input_dims;         // elements of each input; from the host's range
  std::string input_type;                  // of the first one
  std::vector<std::vector<int64_t>> dims;  // of the inputs of products
  KinetoMemory memory;
  bool is_timed = true;  // its times are numbers, and it does not end before it begins
};

// What a category of events is, in lower case. Older profilers write "Kernel" and "Runtime", others
// than CUDA "hip_runtime".
constexpr std::string_view kTaskCategories[] = {"kernel", "gpu_memcpy", "gpu_memset",
                                                "memcpy", "memset",     "concurrent_kernel"};
// Copies of host ranges on the GPU's time line.
constexpr std::string_view kGpuRangePrefix = "gpu_";

int64_t Clamped(double number) {
  if (std::isnan(number)) {
    return 0;
  }
  return static_cast<int64_t>(std::clamp(number, -kMaxTraceMicros, kMaxTraceMicros));
}

// The numbers of a text, ascending, each once.
std::vector<uint32_t> NumbersIn(std::string_view text) {
  std::vector<uint32_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    uint32_t number = 0;
    const auto [after, error] = std::from_chars(at, end, number);
    if (error == std::errc()) {
      numbers.push_back(number);
    }
    at = error == std::errc() ? after : at + 1;
  }
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

// "[0, 1, 2]". PyTorch shortens long lists to their first ranks and the last, "[0, 2, 4, ..., 62]":
// then returns `size` ranks spaced like the first two if these include all ranks shown, else only
// those shown, which match no group of a job. Empty if the distance or the size is not known.
std::vector<uint32_t> RanksIn(std::string_view text, int64_t size) {
  const std::vector<uint32_t> shown = NumbersIn(text);
  if (text.find("...") == std::string_view::npos) {
    return shown;
  }
  if (shown.size() < 2 || size < 2 || size > graph::kMaxRanks) {
    return {};
  }
  const uint32_t apart = shown[1] - shown[0];
  std::vector<uint32_t> ranks;
  for (int64_t i = 0; i < size; ++i) {
    ranks.push_back(shown.front() + static_cast<uint32_t>(i) * apart);
  }
  return std::includes(ranks.begin(), ranks.end(), shown.begin(), shown.end()) ? ranks : shown;
}

// Receives the parser's events. Its position is the path of keys: the events are the objects of the
// list "traceEvents" of the outermost object, or of the outermost list, which is read as that one.
class TraceHandler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, TraceHandler> {
 public:
  TraceHandler(const std::string& range, KinetoParts parts, KinetoTrace* trace)
      : asked_(range), parts_(parts), trace_(*trace) {}

  // Whether something was opened and is not closed yet.
  [[nodiscard]] bool is_inside() const { return !path_.empty(); }
  [[nodiscard]] bool too_deep() const { return too_deep_; }

  // Any other value is ignored.
  static bool Default() { return true; }
  bool Null() { return String("", 0, true); }
  bool Int(int value) { return TakeNumber(value); }
  bool Uint(unsigned value) { return TakeNumber(value); }
  bool Int64(int64_t value) { return TakeNumber(static_cast<double>(value)); }
  bool Uint64(uint64_t value) { return TakeNumber(static_cast<double>(value)); }
  bool Double(double value) { return TakeNumber(value); }

  bool String(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    if (InEvent()) {
      SetText({text, length});
    } else if (!path_.empty() && path_.front() == "deviceProperties" && path_.back() == "name") {
      trace_.gpu.assign(text, length);
    }
    return true;
  }

  bool StartObject() {
    if (path_.size() == 2 && path_.front() == kEventsKey) {
      event_ = Event();
    }
    return Enter();
  }

  bool Key(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    path_.back().assign(text, length);
    return true;
  }

  bool EndObject(rapidjson::SizeType /*members*/) {
    path_.pop_back();
    if (path_.size() == 2 && path_.front() == kEventsKey) {
      Keep();
    }
    return true;
  }

  bool StartArray() {
    if (path_.empty()) {
      is_list_ = true;
      path_.emplace_back(kEventsKey);
    }
    // A tensor of "Input Dims": [[2, 3], []].
    if (InArgument("Input Dims") && path_.size() == kArgumentDepth + 1) {
      event_.input_dims.push_back(1);
      if (event_.dims.size() < kMostDims && IsProductOp(event_.range.name)) {
        event_.dims.emplace_back();
      }
    }
    return Enter();
  }

  bool EndArray(rapidjson::SizeType /*elements*/) {
    path_.pop_back();
    if (is_list_ && path_.size() == 1) {
      path_.pop_back();
    }
    return true;
  }

 private:
  static constexpr std::string_view kEventsKey = "traceEvents";
  static constexpr size_t kEventDepth = 3;     // root, list, event
  static constexpr size_t kArgumentDepth = 4;  // and its "args"

  bool Enter() {
    path_.emplace_back();
    too_deep_ = path_.size() > kMaxDepth;
    return !too_deep_;
  }

  [[nodiscard]] bool InEvent() const {
    return path_.size() >= kEventDepth && path_.front() == kEventsKey;
  }

  [[nodiscard]] bool InArgument(std::string_view name) const {
    return InEvent() && path_.size() >= kArgumentDepth && path_[2] == "args" && path_[3] == name;
  }

  void SetText(std::string_view text) {
    const std::string& key = path_.back();
    if (path_.size() == kEventDepth) {
      if (key == "ph") {
        event_.phase = text;
      } else if (key == "cat") {
        event_.category = text;
      } else if (key == "name") {
        trace_.long_names += text.size() > kLongestName ? 1 : 0;
        event_.range.name = text.substr(0, kLongestName);
      } else if (key == "ts" || key == "dur") {
        event_.is_timed = false;
      }
    } else if (path_.size() == kArgumentDepth && path_[2] == "args") {
      SetArgument(key, text);
    } else if (InArgument("Input type") && event_.input_type.empty()) {
      event_.input_type = text;
    }
  }

  void SetArgument(const std::string& key, std::string_view text) {
    if (key == "Collective name") {
      event_.range.collective.name = text;
    } else if (int64_t* rank = RankOf(key); rank != nullptr) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *rank);
      *rank = error == std::errc() ? *rank : -1;
    } else if (key == "dtype") {
      event_.range.collective.dtype = text;
    } else if (key == "Process Group Name") {
      event_.range.collective.group = text;
    } else if (key == "Process Group Ranks") {
      event_.group_ranks = text;
    }
  }

  // Where an end of a message is kept; null: the key names none.
  int64_t* RankOf(const std::string& key) {
    KinetoCollective& collective = event_.range.collective;
    return key == "Src Rank"   ? &collective.source
           : key == "Dst Rank" ? &collective.destination
                               : nullptr;
  }

  bool TakeNumber(double number) {
    if (path_.size() == 2 && path_.front() == "distributedInfo") {
      if (path_.back() == "rank") {
        trace_.rank = Clamped(number);
      } else if (path_.back() == "world_size") {
        trace_.world = Clamped(number);
      }
    } else if (InEvent()) {
      SetNumber(number);
    } else if (!path_.empty() && path_.front() == "deviceProperties" &&
               path_.back() == "totalGlobalMem") {
      trace_.gpu_bytes = Clamped(number);
    }
    return true;
  }

  void SetNumber(double number) {
    const std::string& key = path_.back();
    KinetoRange& range = event_.range;
    if (path_.size() == kEventDepth) {
      if (key == "ts") {
        range.begin_ns = TimeOf(number);
      } else if (key == "dur") {
        range.duration_ns = TimeOf(number);
        event_.is_timed = event_.is_timed && number >= 0;
      } else if (key == "tid") {
        range.thread = Clamped(number);
      }
    } else if (path_.size() == kArgumentDepth && path_[2] == "args") {
      if (int64_t* argument = NumberOf(key); argument != nullptr) {
        *argument = Clamped(number);
      }
    } else if (InArgument("Input Dims") && !event_.input_dims.empty()) {
      MultiplyDim(number);
      if (!event_.dims.empty() && event_.dims.back().size() < kMostDims) {
        event_.dims.back().push_back(Clamped(number));
      }
    }
  }

  // Where a number among the arguments is kept; null: it is not.
  int64_t* NumberOf(std::string_view key) {
    KinetoRange& range = event_.range;
    KinetoMemory& memory = event_.memory;
    const std::pair<std::string_view, int64_t*> numbers[] = {
        {"stream", &range.stream},
        {"correlation", &range.correlation},
        {"device", &range.device},
        {"bytes", &range.bytes},
        {"Src Rank", &range.collective.source},
        {"Dst Rank", &range.collective.destination},
        {"Group size", &event_.group_size},
        {"In msg nelems", &event_.in_elements},
        {"Out msg nelems", &event_.out_elements},
        {"Addr", &memory.address},
        {"Bytes", &memory.bytes},
        {"Device Type", &memory.device_type},
        {"Device Id", &memory.device},
        {"Total Allocated", &memory.allocated},
        {"Total Reserved", &memory.reserved},
    };
    const auto* const found =
        std::ranges::find(numbers, key, &std::pair<std::string_view, int64_t*>::first);
    return found == std::end(numbers) ? nullptr : found->second;
  }

  void MultiplyDim(double number) {
    int64_t& elements = event_.input_dims.back();
    const double product = static_cast<double>(elements) * number;
    elements = product >= 0 && product < static_cast<double>(kMaxElements) ? Clamped(product) : 0;
  }

  // Keeps whole microseconds exact: as nanoseconds since 1970 they have more digits than a double.
  TimeNs TimeOf(double micros) {
    if (!(std::abs(micros) < kMaxTraceMicros)) {
      event_.is_timed = false;
      return 0;
    }
    const double whole = std::floor(micros);
    return static_cast<int64_t>(whole) * kNsPerUs +
           std::llround((micros - whole) * static_cast<double>(kNsPerUs));
  }

  void Keep() {
    KinetoRange& range = event_.range;
    if (event_.phase != "X") {
      KeepMemory();
      return;
    }
    const std::string category = LowerCase(event_.category);
    std::vector<KinetoRange>* const kept = ListOf(category);
    if (!event_.dims.empty() && event_.is_timed) {
      trace_.products.push_back({range.name, range.begin_ns, range.duration_ns, range.thread,
                                 std::move(event_.dims), event_.input_type});
    }
    const bool is_function = category == "python_function";
    const bool is_op =
        parts_ == KinetoParts::kAll &&
        (kept == &trace_.issues ||
         (kept == nullptr && (is_function || category == "cpu_op" || category == "operator")));
    if (kept == nullptr && !is_op) {
      return;
    }
    if (!event_.is_timed) {
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
    FillCollective();
    range.stream = range.stream < 0 ? range.thread : range.stream;
    kept->push_back(std::move(range));
  }

  void KeepMemory() {
    if (parts_ == KinetoParts::kAll && event_.range.name == "[memory]" && event_.is_timed) {
      event_.memory.time_ns = event_.range.begin_ns;
      event_.memory.thread = event_.range.thread;
      trace_.memory.push_back(event_.memory);
    }
  }

  // Where events of the category and of this event's name are kept; null: nowhere.
  std::vector<KinetoRange>* ListOf(std::string_view category) {
    if (std::ranges::find(kTaskCategories, category) != std::end(kTaskCategories)) {
      return &trace_.tasks;
    }
    if (category.ends_with("runtime") || category.ends_with("driver")) {
      return &trace_.calls;
    }
    const std::string& name = event_.range.name;
    if (category.starts_with(kGpuRangePrefix)) {
      return nullptr;
    }
    if (asked_.empty() ? name.starts_with("ProfilerStep#") : name == asked_) {
      return &trace_.steps;
    }
    return name.starts_with("nccl:") ? &trace_.issues : nullptr;
  }

  void FillCollective() {
    KinetoCollective& collective = event_.range.collective;
    collective.elements =
        std::clamp<int64_t>(std::max(event_.in_elements, event_.out_elements), 0, kMaxElements);
    collective.ranks = RanksIn(event_.group_ranks, event_.group_size);
    collective.size = event_.group_size;
    if (event_.range.name.starts_with("nccl:")) {
      collective.name = event_.range.name.substr(std::string_view("nccl:").size());
      collective.is_input = collective.elements == 0;
      for (const int64_t elements : event_.input_dims) {
        collective.elements = std::max(collective.elements, elements);
      }
      if (collective.dtype.empty()) {
        collective.dtype = event_.input_type;
      }
    }
  }

  const std::string& asked_;
  KinetoParts parts_;
  KinetoTrace& trace_;
  bool too_deep_ = false;
  std::vector<std::string> path_;  // the last key read in each enclosing object
  bool is_list_ = false;           // the whole file is a list of events
  Event event_;
};

// The library's own does not look whether it got memory.
class ThrowingAllocator {
 public:
  static constexpr bool kNeedFree = true;

  static void* Malloc(size_t size) { return size == 0 ? nullptr : ::operator new(size); }

  static void* Realloc(void* old, size_t old_size, size_t size) {
    void* const grown = Malloc(size);
    std::copy_n(static_cast<const char*>(old), std::min(old_size, size), static_cast<char*>(grown));
    Free(old);
    return grown;
  }

  static void Free(void* memory) { ::operator delete(memory); }

  bool operator==(const ThrowingAllocator&) const { return true; }
  bool operator!=(const ThrowingAllocator&) const { return false; }
};

void Sort(std::vector<KinetoRange>* ranges) {
  std::ranges::stable_sort(*ranges, {}, &KinetoRange::begin_ns);
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

Result<KinetoTrace> ReadKinetoTrace(std::string_view bytes,
                                    const std::string& file,
                                    const std::string& range,
                                    KinetoParts parts) {
  KinetoTrace trace;
  TraceHandler handler(range, parts, &trace);
  rapidjson::GenericReader<rapidjson::UTF8<>, rapidjson::UTF8<>, ThrowingAllocator> reader;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (bytes.starts_with(kByteOrderMark)) {
    bytes.remove_prefix(kByteOrderMark.size());
  }
  rapidjson::MemoryStream stream(bytes.data(), bytes.size());
  const rapidjson::ParseResult parsed = reader.Parse < rapidjson::kParseIterativeFlag |
                                        rapidjson::kParseNanAndInfFlag > (stream, handler);
  trace.is_cut_off =
      parsed.IsError() && handler.is_inside() && parsed.Offset() + kLongestEscape >= bytes.size();
  if (handler.too_deep()) {
    return BadFile(
        fmt::format("{}: no trace of torch.profiler: byte {} of the JSON: more than {} "
                    "brackets inside each other",
                    file, parsed.Offset(), kMaxDepth));
  }
  if (parsed.IsError() && !trace.is_cut_off) {
    return BadFile(fmt::format("{}: no trace of torch.profiler: byte {} of the JSON: {}", file,
                               parsed.Offset(), rapidjson::GetParseError_En(parsed.Code())));
  }
  for (std::vector<KinetoRange>* ranges :
       {&trace.steps, &trace.calls, &trace.issues, &trace.tasks}) {
    Sort(ranges);
  }
  std::ranges::stable_sort(trace.ops, {}, &KinetoOp::begin_ns);
  std::ranges::stable_sort(trace.products, {}, &KinetoProduct::begin_ns);
  std::ranges::stable_sort(trace.memory, {}, &KinetoMemory::time_ns);
  DropRepeatedSteps(&trace.steps);
  if (trace.tasks.empty() || trace.calls.empty()) {
    return BadFile(fmt::format(
        "{}: contains no {}{}; profile with ProfilerActivity.CPU and ProfilerActivity.CUDA", file,
        trace.tasks.empty() ? "kernels of a GPU" : "calls of CUDA",
        trace.untimed > 0
            ? fmt::format(" (the times of {} events are no numbers, or negative)", trace.untimed)
            : ""));
  }
  return trace;
}

}  // namespace prism::slicer
