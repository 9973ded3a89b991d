#include "launch/analyse/profile/rank_profile.h"

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <limits>
#include <memory>
#include <set>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "launch/analyse/profile/op_nesting.h"
#include "slicer/import/kineto/collective_words.h"
#include "slicer/import/kineto/product_shapes.h"
#include "slicer/import/kineto/step_calls.h"

namespace prism::launch {
namespace {

using slicer::HostCall;
using slicer::HostCallKind;
using slicer::KinetoMemory;
using slicer::KinetoRange;
using slicer::KinetoTrace;

constexpr DurationNs kKernelWaitNs = 30 * kNsPerUs;
constexpr DurationNs kSlowLaunchNs = 50 * kNsPerUs;
constexpr DurationNs kDelayedNs = 100 * kNsPerUs;
constexpr DurationNs kLongestNs = DurationNs{1} << 44U;  // about five hours
constexpr int64_t kFullQueue = 1024;
constexpr DurationNs kMemoryPoints = 256;
constexpr size_t kCopyKind = std::string_view("Memcpy HtoD").size();
constexpr const char* kNoOp = "(no op)";
constexpr TimeNs kNever = std::numeric_limits<TimeNs>::max();

TaskType TypeOf(const KinetoRange& task) {
  return slicer::IsCollective(task) || slicer::IsOtherCommunication(task.name)
             ? TaskType::kCommunication
         : task.name.starts_with("Memcpy") || task.name.starts_with("Memset") ? TaskType::kMemory
                                                                              : TaskType::kCompute;
}

std::string DeviceName(const KinetoMemory& event) {
  constexpr int64_t kCuda = 1;
  return event.device_type == kCuda ? fmt::format("cuda:{}", event.device)
         : event.device_type == 0   ? std::string("cpu")
                                    : fmt::format("device type {}", event.device_type);
}

// Sums of times must fit.
template <typename Range>
Status RefuseLong(const std::deque<Range>& ranges, const std::string& file) {
  for (const Range& range : ranges) {
    if (range.duration_ns > kLongestNs) {
      return BadFile(fmt::format("{}: '{}' takes {}; ranges take up to {}", file, range.name,
                                 FormatDuration(range.duration_ns), FormatDuration(kLongestNs)));
    }
  }
  return OkStatus();
}

// The part of a profile that counts.
class CountedPart {
 public:
  static Result<CountedPart> Create(const KinetoTrace& trace,
                                    const ProfileChoice& choice,
                                    const std::string& file);

  [[nodiscard]] bool Has(TimeNs time) const { return time >= begin_ && time < end_; }

  RankProfile Profile() const;

 private:
  explicit CountedPart(const KinetoTrace& trace)
      : trace_(trace),
        calls_(std::make_unique<slicer::HostCalls>(trace)),
        launched_(trace.tasks.size(), kNever),
        counts_(trace.tasks.size(), false) {}

  void FindProducts(const GpuRatesOf& rates);
  Status Choose(const ProfileChoice& choice, const std::string& file);
  [[nodiscard]] DurationNs Union(std::initializer_list<TaskType> types) const;
  void AddTimes(RankProfile* profile) const;
  [[nodiscard]] double IdealNs(uint32_t task) const;
  void AddKernels(RankProfile* profile) const;
  void AddStreams(RankProfile* profile) const;
  [[nodiscard]] StreamProfile Gaps(const std::vector<uint32_t>& tasks) const;
  void AddQueue(const std::vector<uint32_t>& launches, StreamProfile* stream) const;
  void AddLaunches(RankProfile* profile) const;
  void AddOps(const OpNesting& nesting, RankProfile* profile) const;
  void AddMemory(const OpNesting& nesting, RankProfile* profile) const;

  const KinetoTrace& trace_;
  std::unique_ptr<slicer::HostCalls> calls_;
  TimeNs begin_ = std::numeric_limits<TimeNs>::min();
  TimeNs end_ = kNever;
  int64_t steps_ = 0;
  int64_t blocked_ = 0;
  std::vector<HostCall> launches_;  // by begin
  std::vector<TimeNs> launched_;    // by task: when its call began; kNever: no call that counts
  std::vector<bool> counts_;        // by task
  std::map<DataType, GpuRates> rates_;
  std::unordered_map<uint32_t, graph::MatmulShape> product_of_;  // by task
};

Status CountedPart::Choose(const ProfileChoice& choice, const std::string& file) {
  std::set<std::string_view> names;
  for (const KinetoRange& step : trace_.steps) {
    names.insert(step.name);
  }
  steps_ = std::ssize(names);
  if (choice.step >= 0) {
    const auto step = std::ranges::find(trace_.steps, fmt::format("ProfilerStep#{}", choice.step),
                                        &KinetoRange::name);
    if (step == trace_.steps.end()) {
      return BadFile(fmt::format(
          "{}: has no mark ProfilerStep#{}; it has {}", file, choice.step,
          trace_.steps.empty()
              ? std::string("none")
              : fmt::format("{} to {}", trace_.steps.front().name, trace_.steps.back().name)));
    }
    begin_ = step->begin_ns;
    end_ = step->end_ns();
    steps_ = 1;
  } else if (!choice.last_step && steps_ > 1) {
    end_ = std::ranges::max(trace_.steps, {}, &KinetoRange::begin_ns).begin_ns;
    --steps_;
  }
  return OkStatus();
}

Result<CountedPart> CountedPart::Create(const KinetoTrace& trace,
                                        const ProfileChoice& choice,
                                        const std::string& file) {
  for (const auto* const ranges : {&trace.tasks, &trace.calls}) {
    PRISM_RETURN_IF_ERROR(RefuseLong(*ranges, file));
  }
  PRISM_RETURN_IF_ERROR(RefuseLong(trace.ops, file));
  CountedPart part(trace);
  PRISM_RETURN_IF_ERROR(part.Choose(choice, file));
  part.launches_ = part.calls_->In(part.begin_, part.end_);
  std::erase_if(part.launches_,
                [](const HostCall& call) { return call.kind != HostCallKind::kLaunch; });
  if (choice.rates) {
    part.FindProducts(choice.rates);
  }
  const bool all = part.end_ == kNever;
  part.counts_.assign(trace.tasks.size(), all);
  for (const HostCall& call : part.launches_) {
    part.blocked_ += call.blocks_on == slicer::kNoTask ? 0 : 1;
    for (const uint32_t task : call.tasks) {
      part.counts_[task] = true;
      part.launched_[task] = call.range->begin_ns;
    }
  }
  for (size_t i = 0; trace.calls.empty() && i < trace.tasks.size(); ++i) {  // of the GPU alone
    part.counts_[i] = part.Has(trace.tasks[i].begin_ns);
  }
  if (std::ranges::find(part.counts_, true) == part.counts_.end()) {
    return BadFile(fmt::format(
        "{}: the steps that count launched nothing; choose one with --step N, or --last-step",
        file));
  }
  return part;
}

void CountedPart::FindProducts(const GpuRatesOf& rates) {
  const slicer::ProductShapes products(trace_);
  for (const HostCall& call : launches_) {
    const graph::MatmulShape shape = products.Around(*call.range);
    for (const uint32_t task : call.tasks) {
      if (shape.m > 0 && slicer::IsProductKernel(trace_.tasks[task].name)) {
        product_of_[task] = shape;
      }
    }
    if (shape.m > 0 && !rates_.contains(shape.input)) {
      rates_[shape.input] = rates(trace_.gpu, trace_.gpu_bytes, shape.input);
    }
  }
}

DurationNs CountedPart::Union(std::initializer_list<TaskType> types) const {
  DurationNs sum = 0;
  TimeNs ended = std::numeric_limits<TimeNs>::min();
  for (size_t task = 0; task < trace_.tasks.size(); ++task) {
    const KinetoRange& range = trace_.tasks[task];
    if (counts_[task] && std::ranges::find(types, TypeOf(range)) != types.end()) {
      sum += std::max<DurationNs>(0, range.end_ns() - std::max(ended, range.begin_ns));
      ended = std::max(ended, range.end_ns());
    }
  }
  return sum;
}

void CountedPart::AddTimes(RankProfile* profile) const {
  using enum TaskType;
  TimeNs end = std::numeric_limits<TimeNs>::min();
  profile->begin_ns = kNever;
  for (size_t task = 0; task < trace_.tasks.size(); ++task) {
    if (counts_[task]) {
      profile->begin_ns = std::min(profile->begin_ns, trace_.tasks[task].begin_ns);
      end = std::max(end, trace_.tasks[task].end_ns());
    }
    profile->tasks_left_out += counts_[task] ? 0 : 1;
  }
  profile->span_ns = end - profile->begin_ns;
  profile->busy_ns = Union({kCompute, kCommunication, kMemory});
  profile->compute_ns = Union({kCompute});
  profile->communication_ns = Union({kCommunication});
  profile->overlapped_ns =
      profile->compute_ns + profile->communication_ns - Union({kCompute, kCommunication});
}

// Of a product, what its work or its bytes take at the GPU's rates; 0: not known.
double CountedPart::IdealNs(uint32_t task) const {
  const auto found = product_of_.find(task);
  if (found == product_of_.end()) {
    return 0;
  }
  constexpr double kNsPerS = 1e9;
  const graph::MatmulShape& shape = found->second;
  const auto real = [](int64_t number) { return static_cast<double>(number); };
  const double m = real(shape.m);
  const double n = real(shape.n);
  const double k = real(shape.k);
  const GpuRates& rates = rates_.at(shape.input);
  const double bytes = (m * k + k * n + m * n) * real(DataTypeBytes(shape.input));
  return rates.flops_per_s <= 0 || rates.bytes_per_s <= 0
             ? 0
             : kNsPerS * real(shape.batch) *
                   std::max(2 * m * n * k / rates.flops_per_s, bytes / rates.bytes_per_s);
}

void CountedPart::AddKernels(RankProfile* profile) const {
  for (uint32_t task = 0; task < trace_.tasks.size(); ++task) {
    const KinetoRange& range = trace_.tasks[task];
    if (!counts_[task]) {
      continue;
    }
    const DurationNs time = range.duration_ns;
    const TaskType type = TypeOf(range);
    const double ideal = IdealNs(task);
    profile->kernels[{type, std::string(range.name)}].Add(
        {1, time, time, time, ideal > 0 ? time : 0, ideal > 0 ? ideal : 0});
    if (type == TaskType::kMemory) {
      const std::string kind(range.name.substr(
          0, range.name.starts_with("Memset") ? std::string_view("Memset").size() : kCopyKind));
      const DurationNs timed = time == 0 ? kNsPerUs : time;
      profile->copies[kind].Add(
          {1, range.bytes, timed, static_cast<double>(range.bytes) / static_cast<double>(timed)});
    }
  }
}

StreamProfile CountedPart::Gaps(const std::vector<uint32_t>& tasks) const {
  StreamProfile stream;
  stream.tasks = std::ssize(tasks);
  TimeNs ended = kNever;
  for (const uint32_t task : tasks) {
    const KinetoRange& range = trace_.tasks[task];
    const DurationNs gap = ended == kNever ? 0 : std::max<DurationNs>(0, range.begin_ns - ended);
    const bool host = launched_[task] != kNever && launched_[task] > ended;
    (host                  ? stream.host_wait_ns
     : gap < kKernelWaitNs ? stream.kernel_wait_ns
                           : stream.other_wait_ns) += gap;
    const TimeNs begin = ended == kNever ? range.begin_ns : std::max(ended, range.begin_ns);
    stream.busy_ns += std::max<DurationNs>(0, range.end_ns() - begin);
    ended = ended == kNever ? range.end_ns() : std::max(ended, range.end_ns());
  }
  return stream;
}

void CountedPart::AddQueue(const std::vector<uint32_t>& launches, StreamProfile* stream) const {
  std::vector<std::pair<TimeNs, int64_t>> points;  // and how the length changes
  for (const uint32_t task : launches) {
    points.emplace_back(launched_[task], 1);
    points.emplace_back(trace_.tasks[task].begin_ns, -1);
  }
  std::ranges::sort(points, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  int64_t length = 0;
  int64_t sum = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    length += points[i].second;
    sum += length;
    stream->longest_queue = std::max(stream->longest_queue, length);
    stream->full_ns +=
        length >= kFullQueue && i + 1 < points.size() ? points[i + 1].first - points[i].first : 0;
  }
  stream->mean_queue =
      points.empty() ? 0 : static_cast<double>(sum) / static_cast<double>(points.size());
}

void CountedPart::AddStreams(RankProfile* profile) const {
  struct Tasks {
    std::vector<uint32_t> all;
    std::vector<uint32_t> launches;  // the first task of each launch
  };
  std::map<std::pair<int64_t, int64_t>, Tasks> streams;
  for (uint32_t task = 0; task < trace_.tasks.size(); ++task) {
    if (counts_[task]) {
      streams[{trace_.tasks[task].device, trace_.tasks[task].stream}].all.push_back(task);
    }
  }
  for (const HostCall& call : launches_) {
    const KinetoRange& first = trace_.tasks[call.tasks.front()];
    streams[{first.device, first.stream}].launches.push_back(call.tasks.front());
  }
  for (const auto& [where, tasks] : streams) {
    StreamProfile stream = Gaps(tasks.all);
    stream.device = where.first;
    stream.stream = where.second;
    AddQueue(tasks.launches, &stream);
    profile->streams.push_back(stream);
  }
}

void CountedPart::AddLaunches(RankProfile* profile) const {
  LaunchProfile& launches = profile->launches;
  launches.launches = std::ssize(launches_);
  launches.blocked = blocked_;
  for (const HostCall& call : launches_) {
    const DurationNs host = call.range->duration_ns;
    DurationNs gpu = 0;
    for (const uint32_t task : call.tasks) {
      gpu += trace_.tasks[task].duration_ns;
    }
    const DurationNs delay =
        std::max<DurationNs>(0, trace_.tasks[call.tasks.front()].begin_ns - call.range->end_ns());
    launches.short_tasks += gpu < host ? 1 : 0;
    launches.slow += host > kSlowLaunchNs ? 1 : 0;
    launches.delayed += delay > kDelayedNs ? 1 : 0;
    launches.host_ns += host;
    launches.delay_ns += delay;
  }
}

void CountedPart::AddOps(const OpNesting& nesting, RankProfile* profile) const {
  const std::vector<DurationNs> inner = nesting.InnerTimes();
  for (size_t i = 0; i < trace_.ops.size(); ++i) {
    const slicer::KinetoOp& op = trace_.ops[i];
    if (!op.is_function && Has(op.begin_ns)) {
      const DurationNs self = std::max<DurationNs>(0, op.duration_ns - inner[i]);
      profile->ops[std::string(op.name)].Add({1, op.duration_ns, self, 0, 0});
    }
  }
  OpNesting::Cursor cursor(nesting);
  for (const HostCall& call : launches_) {
    cursor.MoveTo(call.range->thread, call.range->begin_ns);
    OpTotals launched;
    TaskTotals on_stack;
    for (const uint32_t task : call.tasks) {
      const DurationNs time = trace_.tasks[task].duration_ns;
      launched.Add({0, 0, 0, 1, time});
      on_stack.Add({1, time, time, time});
    }
    const std::string op = cursor.Op();
    profile->ops[op.empty() ? kNoOp : op].Add(launched);
    if (const std::string stack = cursor.Stack(); !stack.empty()) {
      profile->stacks[stack].Add(on_stack);
    }
  }
}

// An allocation, and what its op allocated.
struct NotedMemory {
  const KinetoMemory* event;
  OpMemory* op;
};

// Of one device, in time.
void FillMemory(const std::vector<NotedMemory>& noted, DeviceMemoryProfile* memory) {
  const TimeNs begin = noted.front().event->time_ns;
  const DurationNs length = noted.back().event->time_ns - begin + 1;
  size_t peak = 0;
  memory->events = std::ssize(noted);
  for (size_t i = 0; i < noted.size(); ++i) {
    const KinetoMemory& event = *noted[i].event;
    memory->peak_reserved_bytes = std::max(memory->peak_reserved_bytes, event.reserved);
    memory->last_allocated_bytes = event.allocated;
    if (event.allocated > memory->peak_allocated_bytes) {
      memory->peak_allocated_bytes = event.allocated;
      memory->peak_ns = event.time_ns;
      peak = i;
    }
    const double part = static_cast<double>(event.time_ns - begin) / static_cast<double>(length);
    const auto point = begin + static_cast<DurationNs>(part * static_cast<double>(kMemoryPoints)) *
                                   (length / kMemoryPoints);
    if (memory->allocated.empty() || memory->allocated.back().first != point) {
      memory->allocated.emplace_back(point, event.allocated);
    }
    memory->allocated.back().second = std::max(memory->allocated.back().second, event.allocated);
  }
  std::unordered_map<int64_t, NotedMemory> live;  // by address
  for (size_t i = 0; i < noted.size(); ++i) {
    const KinetoMemory& event = *noted[i].event;
    noted[i].op->count += event.bytes > 0 ? 1 : 0;
    noted[i].op->bytes += std::max<int64_t>(0, event.bytes);
    const auto freed = live.extract(event.address);
    if (i <= peak && freed) {
      freed.mapped().op->at_peak_bytes -= freed.mapped().event->bytes;
    }
    if (i <= peak && event.bytes > 0) {
      live[event.address] = noted[i];
      noted[i].op->at_peak_bytes += event.bytes;
    }
  }
}

void CountedPart::AddMemory(const OpNesting& nesting, RankProfile* profile) const {
  std::map<std::string, std::vector<NotedMemory>> by_device;
  OpNesting::Cursor cursor(nesting);
  for (const KinetoMemory& event : trace_.memory) {
    if (Has(event.time_ns)) {
      cursor.MoveTo(event.thread, event.time_ns);
      const std::string op = cursor.Op();
      const std::string device = DeviceName(event);
      by_device[device].push_back({&event, &profile->op_memory[{device, op.empty() ? kNoOp : op}]});
    }
  }
  for (const auto& [device, noted] : by_device) {
    FillMemory(noted, &profile->memory[device]);
  }
}

RankProfile CountedPart::Profile() const {
  RankProfile profile;
  profile.rank = trace_.rank;
  profile.steps = steps_;
  profile.has_ops = !trace_.ops.empty();
  profile.is_cut_off = trace_.is_cut_off;
  profile.untimed = trace_.untimed;
  profile.has_calls = !trace_.calls.empty();
  AddTimes(&profile);
  AddKernels(&profile);
  AddStreams(&profile);
  AddLaunches(&profile);
  const OpNesting nesting(trace_.ops);
  AddOps(nesting, &profile);
  AddMemory(nesting, &profile);
  return profile;
}

}  // namespace

void TaskTotals::Add(const TaskTotals& other) {
  shortest_ns = count == 0 ? other.shortest_ns : std::min(shortest_ns, other.shortest_ns);
  longest_ns = std::max(longest_ns, other.longest_ns);
  count += other.count;
  total_ns += other.total_ns;
  product_ns += other.product_ns;
  ideal_ns += other.ideal_ns;
}

void OpTotals::Add(const OpTotals& other) {
  count += other.count;
  host_ns += other.host_ns;
  host_self_ns += other.host_self_ns;
  tasks += other.tasks;
  gpu_ns += other.gpu_ns;
}

void CopyTotals::Add(const CopyTotals& other) {
  count += other.count;
  bytes += other.bytes;
  total_ns += other.total_ns;
  fastest_gb_per_s = std::max(fastest_gb_per_s, other.fastest_gb_per_s);
}

Result<RankProfile> ProfileRank(const KinetoTrace& trace,
                                const ProfileChoice& choice,
                                const std::string& file) {
  PRISM_ASSIGN_OR_RETURN(const CountedPart part, CountedPart::Create(trace, choice, file));
  RankProfile profile = part.Profile();
  profile.file = file;
  return profile;
}

}  // namespace prism::launch
