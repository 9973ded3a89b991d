#include "slicer/import/nsys/nsys_file.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "graph/base/lower_case.h"
#include "slicer/import/kineto/trace_events.h"
#include "slicer/import/nsys/sqlite_rows.h"

namespace prism::slicer {
namespace {

constexpr size_t kLongestNsysName = 4096;
constexpr int64_t kLatestNs = 4'000'000'000'000'000'000;  // the sum of two fits
// What events may take in memory: so many times the file, beyond a first part that is free.
constexpr size_t kMostNsysRatio = 8;
constexpr size_t kFreeNsysBytes = size_t{64} << 20U;

// CUPTI's kinds of copies, in torch.profiler's words.
constexpr std::pair<int64_t, std::string_view> kCopyKinds[] =
    {
        {1, "HtoD"},  {2, "DtoH"},  {3, "HtoA"},  {4, "AtoH"}, {5, "AtoA"},
        {6, "AtoD"},  {7, "DtoA"},  {8, "DtoD"},  {9, "HtoH"}, {10, "PtoP"},
        {11, "HtoD"}, {12, "DtoH"}, {13, "DtoD"},  // of unified memory
};

constexpr std::string_view kStepWords[] = {"profilerstep", "training_step", "train_step",
                                           "iteration",    "iter",          "step"};

// "iteration 3", "step:3", "ProfilerStep#3", "step".
bool IsStepName(std::string_view name) {
  const std::string text = LowerCase(name);
  const auto* const word =
      std::ranges::find_if(kStepWords, [&](std::string_view one) { return text.starts_with(one); });
  return word != std::end(kStepWords) &&
         text.find_first_not_of(" _:#=-0123456789", word->size()) == std::string::npos;
}

// "cudaLaunchKernel_v7000" without its version.
std::string_view WithoutVersion(std::string_view name) {
  const size_t version = name.rfind("_v");
  return version != std::string_view::npos &&
                 name.find_first_not_of("0123456789", version + 2) == std::string_view::npos
             ? name.substr(0, version)
             : name;
}

// Reads the tables one after the other.
class NsysReader {
 public:
  NsysReader(const SqliteFile& tables,
             const std::string& file,
             const std::string& range,
             KinetoParts parts)
      : tables_(tables), file_(file), range_(range), parts_(parts) {
    std::error_code ignored;
    left_ = kFreeNsysBytes + kMostNsysRatio * std::filesystem::file_size(file, ignored);
  }

  Result<std::vector<KinetoTrace>> Read() {
    PRISM_RETURN_IF_ERROR(ReadStrings());
    PRISM_RETURN_IF_ERROR(ReadKernels());
    PRISM_RETURN_IF_ERROR(ReadOtherTasks());
    PRISM_RETURN_IF_ERROR(ReadCalls());
    PRISM_RETURN_IF_ERROR(RefuseIncomplete());
    PRISM_RETURN_IF_ERROR(ReadRanges());
    PRISM_RETURN_IF_ERROR(ReadRanks());
    PRISM_RETURN_IF_ERROR(ReadGpus());
    std::vector<std::pair<int64_t, KinetoTrace>> by_gpu;
    for (auto& [key, process] : processes_) {
      if (!process.tasks.empty()) {
        by_gpu.emplace_back(GpuOf(key, process), std::move(process));
      }
    }
    std::ranges::stable_sort(by_gpu, {}, &std::pair<int64_t, KinetoTrace>::first);
    std::vector<KinetoTrace> traces;
    for (auto& [gpu, trace] : by_gpu) {
      for (auto* const ranges : {&trace.tasks, &trace.calls, &trace.steps}) {
        std::ranges::stable_sort(*ranges, {}, &KinetoRange::begin_ns);
      }
      std::ranges::stable_sort(trace.ops, {}, &KinetoOp::begin_ns);
      DropRepeated(&trace);
      traces.push_back(std::move(trace));
    }
    return traces;
  }

 private:
  // Of a globalPid or globalTid: its lowest 24 bits are the thread. 0: not stated.
  static int64_t ProcessOf(int64_t global) {
    return static_cast<int64_t>(static_cast<uint64_t>(global) >> 24U);
  }

  // As the operating system numbers it.
  static int64_t PidOf(int64_t process) { return process & 0xFFFFFF; }

  // The machine's number of the GPU that the process calls its first task's device.
  [[nodiscard]] int64_t GpuOf(int64_t process, const KinetoTrace& trace) const {
    const int64_t device = trace.tasks.front().device;
    const auto gpu = gpus_.find({PidOf(process), device});
    return gpu == gpus_.end() ? device : gpu->second;
  }

  // What would be left out, or be wrong, without a word.
  [[nodiscard]] Status RefuseIncomplete() const {
    const auto has_tasks = [](const auto& process) { return !process.second.tasks.empty(); };
    if (std::ranges::none_of(processes_, has_tasks) ||
        (parts_ == KinetoParts::kCalls && calls_ == 0)) {
      return BadFile(fmt::format(
          "{}: contains no kernels with the calls that launched them; profile with nsys profile "
          "--trace=cuda,nvtx and export with nsys export --type sqlite",
          file_));
    }
    if (calls_ > 0 && unnamed_ == calls_) {
      return BadFile(fmt::format(
          "{}: its calls of CUDA have no names: the table StringIds lacks them; export it anew",
          file_));
    }
    const bool one = processes_.size() == 1 && processes_.contains(0);
    if (one && callers_.size() > 1) {
      return BadFile(fmt::format(
          "{}: {} processes called CUDA, and its kernels do not say whose they are (globalPid); "
          "export it anew by a newer nsys",
          file_, callers_.size()));
    }
    for (const auto& [process, trace] : processes_) {
      if (parts_ == KinetoParts::kCalls && !trace.tasks.empty() && trace.calls.empty()) {
        return BadFile(
            fmt::format("{}: has kernels of process {}, but none of the calls that launched them",
                        file_, PidOf(process)));
      }
    }
    return OkStatus();
  }

  // Of processes that MPI started.
  Status ReadRanks() {
    return tables_.ForRows("MPI_RANKS", {"globalTid", "rank"}, [&](const SqliteRow& row) {
      const auto process = processes_.find(ProcessOf(row.Int(0, 0)));
      if (process != processes_.end()) {
        process->second.rank = std::max<int64_t>(row.Int(1), -1);
      }
      return OkStatus();
    });
  }

  Status Take(size_t bytes) {
    if (bytes > left_) {
      return BadFile(
          fmt::format("{}: its events take more than {} times its size", file_, kMostNsysRatio));
    }
    left_ -= bytes;
    return OkStatus();
  }

  Status ReadStrings() {
    return tables_.ForRows("StringIds", {"id", "value"}, [&](const SqliteRow& row) {
      const std::string_view text = row.Text(1);
      strings_[row.Int(0)] = text.substr(0, kLongestNsysName);
      return Take(std::min(text.size(), kLongestNsysName) + sizeof(std::string));
    });
  }

  [[nodiscard]] std::string_view StringOf(int64_t id) const {
    const auto found = strings_.find(id);
    return found == strings_.end() ? std::string_view() : std::string_view(found->second);
  }

  // False: its times are no times, which is counted.
  static bool SetTimes(int64_t begin, int64_t end, KinetoRange* range, KinetoTrace* trace) {
    const bool valid = begin >= 0 && end >= begin && end < kLatestNs;
    trace->untimed += valid ? 0 : 1;
    range->begin_ns = begin;
    range->duration_ns = end - begin;
    return valid;
  }

  // Takes the memory of names that the trace does not have yet.
  Status SetName(std::string_view name, KinetoRange* range, KinetoTrace* trace) {
    const size_t before = trace->texts.bytes();
    range->name = trace->texts.Keep(name);
    return Take(trace->texts.bytes() - before);
  }

  Status Keep(const KinetoRange& range, KinetoRanges* kept) {
    PRISM_RETURN_IF_ERROR(Take(sizeof(KinetoRange)));
    kept->push_back(range);
    return OkStatus();
  }

  // Tables of tasks begin with the same columns.
  Status ReadTasks(const std::string& table,
                   std::vector<std::string> more,
                   const std::function<std::string(const SqliteRow& row, KinetoRange*)>& name) {
    std::vector<std::string> columns = {"start",    "end",           "deviceId",
                                        "streamId", "correlationId", "globalPid"};
    columns.insert(columns.end(), more.begin(), more.end());
    return tables_.ForRows(table, columns, [&](const SqliteRow& row) {
      KinetoTrace& trace = processes_[ProcessOf(row.Int(5, 0))];
      KinetoRange range;
      if (!SetTimes(row.Int(0), row.Int(1), &range, &trace)) {
        return OkStatus();
      }
      range.device = row.Int(2, 0);
      range.stream = row.Int(3, 0);
      range.correlation = row.Int(4);
      PRISM_RETURN_IF_ERROR(SetName(name(row, &range), &range, &trace));
      return Keep(range, &trace.tasks);
    });
  }

  Status ReadKernels() {
    const auto name = [&](const SqliteRow& row, KinetoRange* /*range*/) {
      const std::string_view full = StringOf(row.Int(kFirstOwn));
      const std::string_view brief = StringOf(row.Int(kFirstOwn + 1));
      return !full.empty()           ? std::string(full)
             : !brief.empty()        ? std::string(brief)
             : row.IsText(kFirstOwn) ? std::string(row.Text(kFirstOwn).substr(0, kLongestNsysName))
                                     : fmt::format("(kernel {})", row.Int(kFirstOwn));
    };
    PRISM_RETURN_IF_ERROR(
        ReadTasks("CUPTI_ACTIVITY_KIND_KERNEL", {"demangledName", "shortName"}, name));
    return ReadTasks("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {"graphId"},
                     [](const SqliteRow& row, KinetoRange* /*range*/) {
                       return fmt::format("CUDA graph {}", row.Int(kFirstOwn));
                     });
  }

  Status ReadOtherTasks() {
    PRISM_RETURN_IF_ERROR(ReadTasks(
        "CUPTI_ACTIVITY_KIND_MEMCPY", {"copyKind", "bytes"},
        [](const SqliteRow& row, KinetoRange* range) {
          range->bytes = std::max<int64_t>(0, row.Int(kFirstOwn + 1));
          const auto* const kind = std::ranges::find(kCopyKinds, row.Int(kFirstOwn),
                                                     &std::pair<int64_t, std::string_view>::first);
          return fmt::format("Memcpy {}", kind == std::end(kCopyKinds) ? "unknown" : kind->second);
        }));
    return ReadTasks("CUPTI_ACTIVITY_KIND_MEMSET", {"bytes"},
                     [](const SqliteRow& row, KinetoRange* range) {
                       range->bytes = std::max<int64_t>(0, row.Int(kFirstOwn));
                       return std::string("Memset (Device)");
                     });
  }

  Status ReadCalls() {
    return tables_.ForRows("CUPTI_ACTIVITY_KIND_RUNTIME",
                           {"start", "end", "globalTid", "correlationId", "nameId"},
                           [&](const SqliteRow& row) {
                             const auto process = ProcessOfThread(row.Int(2, 0));
                             if (process == processes_.end()) {
                               return OkStatus();
                             }
                             ++calls_;
                             unnamed_ += StringOf(row.Int(4)).empty() ? 1 : 0;
                             callers_.insert(ProcessOf(row.Int(2, 0)));
                             KinetoRange range;
                             if (!SetTimes(row.Int(0), row.Int(1), &range, &process->second)) {
                               return OkStatus();
                             }
                             range.thread = row.Int(2);
                             range.correlation = row.Int(3);
                             PRISM_RETURN_IF_ERROR(SetName(WithoutVersion(StringOf(row.Int(4))),
                                                           &range, &process->second));
                             return Keep(range, &process->second.calls);
                           });
  }

  // Kernels that name no process are those of one.
  std::map<int64_t, KinetoTrace>::iterator ProcessOfThread(int64_t thread) {
    const auto process = processes_.find(ProcessOf(thread));
    return process == processes_.end() && processes_.size() == 1 && processes_.contains(0)
               ? processes_.begin()
               : process;
  }

  Status ReadRanges() {
    return tables_.ForRows(
        "NVTX_EVENTS", {"start", "end", "globalTid", "textId", "text"}, [&](const SqliteRow& row) {
          const auto process = ProcessOfThread(row.Int(2, 0));
          const int64_t end = row.Int(1);
          if (process == processes_.end() || end < 0) {
            return OkStatus();  // marks have no end
          }
          KinetoTrace& trace = process->second;
          KinetoRange range;
          const std::string_view own = row.Text(4).substr(0, kLongestNsysName);
          PRISM_RETURN_IF_ERROR(SetName(own.empty() ? StringOf(row.Int(3)) : own, &range, &trace));
          range.thread = row.Int(2);
          const bool is_step = range_.empty() ? IsStepName(range.name) : range.name == range_;
          if (!SetTimes(row.Int(0), end, &range, &trace)) {
            return OkStatus();
          }
          if (parts_ == KinetoParts::kAll) {
            PRISM_RETURN_IF_ERROR(Take(sizeof(KinetoOp)));
            trace.ops.push_back(
                {range.name, range.begin_ns, range.duration_ns, range.thread, false});
          }
          return is_step ? Keep(range, &trace.steps) : OkStatus();
        });
  }

  // A process may call any of the machine's GPUs its first (CUDA_VISIBLE_DEVICES).
  Status ReadGpus() {
    PRISM_RETURN_IF_ERROR(tables_.ForRows("TARGET_INFO_CUDA_DEVICE", {"pid", "cudaId", "gpuId"},
                                          [&](const SqliteRow& row) {
                                            gpus_[{row.Int(0), row.Int(1)}] = row.Int(2);
                                            return Take(sizeof(*gpus_.begin()));
                                          }));
    return tables_.ForRows(
        "TARGET_INFO_GPU", {"id", "name", "totalMemory"}, [&](const SqliteRow& row) {
          for (auto& [key, trace] : processes_) {
            const bool is_own = !trace.tasks.empty() && GpuOf(key, trace) == row.Int(0);
            if (is_own || trace.gpu.empty()) {
              trace.gpu = row.Text(1).substr(0, kLongestNsysName);
              trace.gpu_bytes = row.Int(2, 0);
            }
          }
          return OkStatus();
        });
  }

  static constexpr int kFirstOwn = 6;  // column of a table of tasks

  const SqliteFile& tables_;
  const std::string& file_;
  const std::string& range_;
  KinetoParts parts_;
  size_t left_ = 0;  // bytes that events may still take
  std::unordered_map<int64_t, std::string> strings_;
  std::map<int64_t, KinetoTrace> processes_;
  std::map<std::pair<int64_t, int64_t>, int64_t> gpus_;  // by process and its number there
  int64_t calls_ = 0;                                    // of processes with tasks
  int64_t unnamed_ = 0;                                  // of them
  std::set<int64_t> callers_;                            // processes that made them
};

}  // namespace

Result<std::vector<KinetoTrace>> ReadNsysTraces(const std::string& file,
                                                const std::string& range,
                                                KinetoParts parts) {
  PRISM_ASSIGN_OR_RETURN(const SqliteFile tables, SqliteFile::Open(file));
  return NsysReader(tables, file, range, parts).Read();
}

Result<ImportResult> ImportNsys(const std::vector<std::string>& files,
                                const ImportOptions& options,
                                const KinetoChoice& choice) {
  ReadProfiles read;
  for (const std::string& file : files) {
    PRISM_ASSIGN_OR_RETURN(std::vector<KinetoTrace> traces, ReadNsysTraces(file, choice.range));
    read.names.insert(read.names.end(), traces.size(), file);
    std::ranges::move(traces, std::back_inserter(read.traces));
    std::error_code ignored;
    read.bytes += static_cast<int64_t>(std::filesystem::file_size(file, ignored));
  }
  return ImportTraces(read, options, choice);
}

}  // namespace prism::slicer
