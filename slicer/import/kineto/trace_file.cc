#include "slicer/import/kineto/trace_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include "graph/base/parse_number.h"
#include "graph/validate/limits.h"
#include "slicer/import/kineto/execution_trace.h"
#include "slicer/import/kineto/product_shapes.h"
#include "slicer/import/kineto/text_stream.h"
#include "slicer/import/kineto/trace_events.h"
#include "slicer/import/kineto/trace_keys.h"
#include "slicer/import/source_files.h"

namespace prism::slicer {
namespace {

// Times are in microseconds: beyond this, the sum of two overflows 64 bits of nanoseconds.
constexpr double kMaxTraceMicros = 4e15;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kMaxDepth = 64;
constexpr size_t kLongestEscape = 12;  // "\\uD83D\\uDE00": an error in it is reported at its begin
constexpr size_t kLongestName = 4096;  // what is kept of one; kernels of templates are long
constexpr size_t kMostDims = 8;        // of a product, and of each of its inputs
constexpr int64_t kFirstNamed = int64_t{1} << 48U;  // number of the first name of a thread

int64_t Clamped(double number) {
  if (std::isnan(number)) {
    return 0;
  }
  return static_cast<int64_t>(std::clamp(number, -kMaxTraceMicros, kMaxTraceMicros));
}

// Numbers of a file as what they may be: an amount, or an id, of which all digits count.
struct TraceNumber {
  double amount = 0;
  int64_t id = 0;
};

// Receives the parser's events. Its position is the path of keys: the events are the objects of the
// list "traceEvents" of the outermost object, or of the outermost list, which is read as that one.
class TraceHandler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, TraceHandler> {
 public:
  TraceHandler(const std::string& range, KinetoParts parts, KinetoTrace* trace)
      : trace_(*trace), events_(range, parts, trace) {}

  // Whether something was opened and is not closed yet.
  [[nodiscard]] bool is_inside() const { return !path_.empty(); }
  [[nodiscard]] bool too_deep() const { return too_deep_; }

  void Finish() {
    for (const auto& [name, size] : whole_groups_) {
      if (trace_.world <= 0 || size == trace_.world) {
        AddGroup(name, size, {}, &trace_.groups);
      }
    }
    events_.Finish();
  }

  // Any other value is ignored.
  static bool Default() { return true; }
  bool Int(int value) { return TakeNumber({static_cast<double>(value), value}); }
  bool Uint(unsigned value) { return TakeNumber({static_cast<double>(value), value}); }
  bool Int64(int64_t value) { return TakeNumber({static_cast<double>(value), value}); }
  bool Uint64(uint64_t value) {
    return TakeNumber({static_cast<double>(value), static_cast<int64_t>(value & INT64_MAX)});
  }
  bool Double(double value) { return TakeNumber({value, Clamped(value)}); }

  bool String(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    if (InEvent()) {
      SetText({text, length});
    } else if (!path_.empty() && path_.front() == TraceKey::kDevices &&
               path_.back() == TraceKey::kName) {
      trace_.gpu.assign(text, length);
    } else if (InGroup() && path_.back() == TraceKey::kGroupName) {
      listed_name_.assign(text, length);
    } else if (InGroup() && path_[3] == TraceKey::kRanks) {
      listed_ranks_ += fmt::format("{},", std::string_view(text, length));
    }
    return true;
  }

  bool StartObject() {
    if (IsEventList()) {
      event_.Clear();
    } else if (IsGroupList()) {
      listed_name_.clear();
      listed_ranks_.clear();
      listed_size_ = 0;
    }
    return Enter();
  }

  bool Key(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    path_.back() = TraceKeyOf({text, length});
    return true;
  }

  bool EndObject(rapidjson::SizeType /*members*/) {
    path_.pop_back();
    if (IsEventList()) {
      events_.Take(&event_);
    } else if (IsGroupList()) {
      if (listed_ranks_.empty()) {
        whole_groups_.emplace_back(listed_name_, listed_size_);
      } else if (const RankList ranks = rank_lists_.ListOf(listed_ranks_, listed_size_)) {
        AddGroup(listed_name_, 0, *ranks, &trace_.groups);
      }
    }
    return true;
  }

  bool StartArray() {
    if (path_.empty()) {
      is_list_ = true;
      path_.push_back(TraceKey::kEvents);
    }
    // A tensor of "Input Dims": [[2, 3], []].
    if (InArgument(TraceKey::kInputDims) && path_.size() == kArgumentDepth + 1) {
      event_.input_dims.push_back(1);
      if (event_.dims.size() < kMostDims && IsProductOp(event_.name)) {
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
  static constexpr size_t kEventDepth = 3;     // root, list, event
  static constexpr size_t kArgumentDepth = 4;  // and its "args"

  bool Enter() {
    path_.push_back(TraceKey::kNone);
    too_deep_ = path_.size() > kMaxDepth;
    return !too_deep_;
  }

  [[nodiscard]] bool IsEventList() const {
    return path_.size() == 2 && path_.front() == TraceKey::kEvents;
  }

  [[nodiscard]] bool InEvent() const {
    return path_.size() >= kEventDepth && path_.front() == TraceKey::kEvents;
  }

  // "distributedInfo": {"pg_config": [{"pg_name": "0", "pg_size": 2, "ranks": [0, 1]}, ...]}; older
  // releases of PyTorch write "group_size", and no ranks where the group has all.
  [[nodiscard]] bool IsGroupList() const {
    return path_.size() == 3 && path_.front() == TraceKey::kDistributed &&
           path_[1] == TraceKey::kGroups;
  }

  [[nodiscard]] bool InGroup() const {
    return path_.size() >= 4 && path_.front() == TraceKey::kDistributed &&
           path_[1] == TraceKey::kGroups;
  }

  // One of a list, which becomes the text that others write (RankLists).
  static std::string RankText(double number) {
    return fmt::format("{},", std::clamp<int64_t>(Clamped(number), 0, graph::kMaxRanks));
  }

  [[nodiscard]] bool InArguments() const {
    return path_.size() == kArgumentDepth && path_[2] == TraceKey::kArguments;
  }

  [[nodiscard]] bool InArgument(TraceKey key) const {
    return InEvent() && path_.size() >= kArgumentDepth && path_[2] == TraceKey::kArguments &&
           path_[3] == key;
  }

  void SetText(std::string_view text) {
    const TraceKey key = path_.back();
    const bool is_argument = InArguments();
    if (key == TraceKey::kOther) {
      return;
    }
    if (path_.size() == kEventDepth && key == TraceKey::kPhase) {
      event_.phase = text.size() == 1 ? text.front() : '\0';
    } else if (path_.size() == kEventDepth && key == TraceKey::kCategory) {
      event_.category = KnownCategory(text);
    } else if (path_.size() == kEventDepth && key == TraceKey::kName) {
      trace_.long_names += text.size() > kLongestName ? 1 : 0;
      event_.name = text.substr(0, kLongestName);
    } else if (std::string* const kept = is_argument ? TextOf(key) : nullptr; kept != nullptr) {
      *kept = text;
    } else if (InArgument(TraceKey::kInputTypes) && event_.input_type.empty()) {
      event_.input_type = text;
    } else if (InArgument(TraceKey::kCollectiveRanks)) {
      event_.group_ranks += fmt::format("{},", text);
    } else if (TraceNumber number; ReadNumber(text, &number)) {
      SetNumber(number);
    } else if (path_.size() == kEventDepth) {
      SetOfEvent(key, {std::numeric_limits<double>::quiet_NaN(), NumberOfName(text)});
    }
  }

  KinetoCollective& Noted() {
    event_.has_collective = true;
    return event_.collective;
  }

  // Where a text among the arguments is kept; null: it is not.
  std::string* TextOf(TraceKey key) {
    KinetoCollective& collective = Noted();
    return key == TraceKey::kCollective        ? &collective.name
           : key == TraceKey::kDataType        ? &collective.dtype
           : key == TraceKey::kCollectiveGroup ? &collective.group
           : key == TraceKey::kCollectiveRanks ? &event_.group_ranks
                                               : nullptr;
  }

  // Some tools write all numbers as text, and ids to the base 16.
  static bool ReadNumber(std::string_view text, TraceNumber* number) {
    if (text.starts_with("0x")) {
      const auto [end, error] =
          std::from_chars(text.data() + 2, text.data() + text.size(), number->id, 16);
      number->amount = static_cast<double>(number->id);
      return error == std::errc() && end == text.data() + text.size();
    }
    if (!ParseNumber(text, &number->amount)) {
      return false;
    }
    uint64_t id = 0;
    number->id =
        ParseNumber(text, &id) ? static_cast<int64_t>(id & INT64_MAX) : Clamped(number->amount);
    return true;
  }

  int64_t NumberOfName(std::string_view name) {
    return names_.try_emplace(std::string(name), kFirstNamed + std::ssize(names_)).first->second;
  }

  TraceCategory KnownCategory(std::string_view text) {
    if (text != category_text_) {
      category_text_ = text;
      category_ = TraceCategoryOf(text);
    }
    return category_;
  }

  bool TakeNumber(const TraceNumber& number) {
    if (InEvent()) {
      SetNumber(number);
    } else if (!path_.empty()) {
      SetOfFile(number.amount);
    }
    return true;
  }

  void SetOfFile(double number) {
    const TraceKey key = path_.back();
    if (path_.size() == 2 && path_.front() == TraceKey::kDistributed) {
      if (key == TraceKey::kRank) {
        trace_.rank = Clamped(number);
      } else if (key == TraceKey::kWorldSize) {
        trace_.world = Clamped(number);
      }
    } else if (InGroup() && key == TraceKey::kGroupSize) {
      listed_size_ = Clamped(number);
    } else if (InGroup() && path_[3] == TraceKey::kRanks) {
      listed_ranks_ += RankText(number);
    } else if (path_.front() == TraceKey::kDevices && key == TraceKey::kMemorySize) {
      trace_.gpu_bytes = Clamped(number);
    }
  }

  void SetNumber(const TraceNumber& number) {
    if (path_.size() == kEventDepth) {
      SetOfEvent(path_.back(), number);
    } else if (InArguments()) {
      SetOfArguments(path_.back(), number);
    } else if (InArgument(TraceKey::kCollectiveRanks)) {
      event_.group_ranks += RankText(number.amount);
    } else if (InArgument(TraceKey::kInputDims) && !event_.input_dims.empty()) {
      MultiplyDim(number.amount);
      if (!event_.dims.empty() && event_.dims.back().size() < kMostDims) {
        event_.dims.back().push_back(Clamped(number.amount));
      }
    }
  }

  void SetOfEvent(TraceKey key, const TraceNumber& number) {
    KinetoRange& range = event_.range;
    if (key == TraceKey::kTime) {
      event_.has_time = ReadTime(number.amount, &range.begin_ns);
    } else if (key == TraceKey::kDuration) {
      event_.has_duration = ReadTime(number.amount, &range.duration_ns) && number.amount >= 0;
    } else if (key == TraceKey::kThread) {
      range.thread = number.id;
    } else if (key == TraceKey::kProcess) {
      range.process = number.id;
    }
  }

  void SetOfArguments(TraceKey key, const TraceNumber& number) {
    if (int64_t* const id = IdOf(key); id != nullptr) {
      *id = number.id;
    } else if (int64_t* const amount = AmountOf(key); amount != nullptr) {
      *amount = Clamped(number.amount);
    }
  }

  // Where an id among the arguments is kept; null: it is none.
  int64_t* IdOf(TraceKey key) {
    return key == TraceKey::kCorrelation ? &event_.range.correlation
           : key == TraceKey::kFunction  ? &event_.function
           : key == TraceKey::kAddress   ? &event_.memory.address
                                         : nullptr;
  }

  // Likewise of amounts.
  int64_t* AmountOf(TraceKey key) {
    KinetoRange& range = event_.range;
    KinetoMemory& memory = event_.memory;
    switch (key) {
      case TraceKey::kStream:
        return &range.stream;
      case TraceKey::kDevice:
        return &range.device;
      case TraceKey::kBytes:
        return &range.bytes;
      case TraceKey::kSource:
        return &Noted().source;
      case TraceKey::kDestination:
        return &Noted().destination;
      case TraceKey::kCollectiveSize:
        return &event_.group_size;
      case TraceKey::kInElements:
        return &event_.in_elements;
      case TraceKey::kOutElements:
        return &event_.out_elements;
      case TraceKey::kAllocation:
        return &memory.bytes;
      case TraceKey::kDeviceType:
        return &memory.device_type;
      case TraceKey::kDeviceId:
        return &memory.device;
      case TraceKey::kAllocated:
        return &memory.allocated;
      case TraceKey::kReserved:
        return &memory.reserved;
      default:
        return nullptr;
    }
  }

  void MultiplyDim(double number) {
    int64_t& elements = event_.input_dims.back();
    const double product = static_cast<double>(elements) * number;
    elements =
        product >= 0 && product < static_cast<double>(kMaxTraceElements) ? Clamped(product) : 0;
  }

  // Keeps whole microseconds exact: as nanoseconds since 1970 they have more digits than a double.
  static bool ReadTime(double micros, TimeNs* time) {
    if (!(std::abs(micros) < kMaxTraceMicros)) {
      return false;
    }
    const double whole = std::floor(micros);
    *time = static_cast<int64_t>(whole) * kNsPerUs +
            std::llround((micros - whole) * static_cast<double>(kNsPerUs));
    return true;
  }

  KinetoTrace& trace_;
  TraceEvents events_;
  bool too_deep_ = false;
  std::vector<TraceKey> path_;  // the last key read in each enclosing object
  bool is_list_ = false;        // the whole file is a list of events
  TraceEvent event_;
  std::map<std::string, int64_t, std::less<>> names_;  // of threads and processes
  std::string category_text_;                          // of the last event
  TraceCategory category_ = TraceCategory::kOther;     // likewise
  std::string listed_name_;                            // of the group that is being read
  int64_t listed_size_ = 0;
  std::string listed_ranks_;
  RankLists rank_lists_;
  std::vector<std::pair<std::string, int64_t>> whole_groups_;  // listed without ranks: all, if so
};

}  // namespace

Result<KinetoTrace> ReadKinetoTrace(const TextPieces& pieces,
                                    const std::string& file,
                                    const std::string& range,
                                    KinetoParts parts) {
  std::string_view first = pieces();
  if (IsExecutionTrace(first)) {
    return BadFile(fmt::format(
        "{}: is an execution trace without times: prism import kineto reads it with its profile",
        file));
  }
  KinetoTrace trace;
  TraceHandler handler(range, parts, &trace);
  TextReader reader;
  if (first.starts_with(kByteOrderMark)) {
    first.remove_prefix(kByteOrderMark.size());
  }
  TextStream stream(first, pieces);
  const rapidjson::ParseResult parsed =
      reader.Parse<rapidjson::kParseNanAndInfFlag>(stream, handler);  // which limits the depth
  trace.is_cut_off = parsed.IsError() && handler.is_inside() && !handler.too_deep() &&
                     stream.IsWithin(parsed.Offset() + kLongestEscape);
  if (parsed.Code() == rapidjson::kParseErrorDocumentEmpty) {
    return BadFile(fmt::format("{}: is empty", file));
  }
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
  handler.Finish();
  CompleteGroups(&trace);
  const bool needs_calls = parts == KinetoParts::kCalls;
  if (trace.tasks.empty() || (needs_calls && trace.calls.empty())) {
    return BadFile(fmt::format(
        "{}: contains no {}{}; profile with ProfilerActivity.CPU and ProfilerActivity.CUDA", file,
        trace.tasks.empty() ? "kernels of a GPU" : "calls of CUDA",
        trace.untimed > 0
            ? fmt::format(" (the times of {} events are no numbers, or negative)", trace.untimed)
            : ""));
  }
  PRISM_RETURN_IF_ERROR(RefuseProcesses(trace, file));
  return trace;
}

Result<KinetoTrace> ReadKinetoTrace(std::string_view bytes,
                                    const std::string& file,
                                    const std::string& range,
                                    KinetoParts parts) {
  return ReadKinetoTrace([&] { return std::exchange(bytes, {}); }, file, range, parts);
}

Result<KinetoTrace> ReadKinetoFile(const std::string& file,
                                   const std::string& range,
                                   KinetoParts parts,
                                   int64_t* bytes) {
  PRISM_ASSIGN_OR_RETURN(SourcePieces pieces, SourcePieces::Open(file));
  int64_t read = 0;
  const auto next = [&] {
    const std::string_view piece = pieces.Next();
    read += std::ssize(piece);
    return piece;
  };
  Result<KinetoTrace> trace = ReadKinetoTrace(next, file, range, parts);
  PRISM_RETURN_IF_ERROR(pieces.status());
  if (bytes != nullptr) {
    *bytes += read;
  }
  return trace;
}

void CompleteGroups(KinetoTrace* trace) {
  for (KinetoCollective& noted : trace->collectives) {
    noted.members = WholeGroup(trace->groups, noted.group, noted.size, noted.members);
  }
}

}  // namespace prism::slicer
