#include "slicer/import/nsys/nsys_file.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
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
constexpr std::pair<int64_t, std::string_view> kCopyKinds[] = {
    {1, "HtoD"}, {2, "DtoH"}, {3, "HtoA"}, {4, "AtoH"}, {5, "AtoA"},
    {6, "AtoD"}, {7, "DtoA"}, {8, "DtoD"}, {9, "HtoH"}, {10, "PtoP"},
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
    PRISM_RETURN_IF_ERROR(ReadRanges());
    PRISM_RETURN_IF_ERROR(ReadGpus());
    std::vector<KinetoTrace> traces;
    for (auto& [key, process] : processes_) {
      if (!process.tasks.empty() && !process.calls.empty()) {
        traces.push_back(std::move(process));
      }
    }
    if (traces.empty()) {
      return BadFile(fmt::format(
          "{}: contains no kernels with the calls that launched them; profile with nsys profile "
          "--trace=cuda,nvtx and export with nsys export --type sqlite",
          file_));
    }
    for (KinetoTrace& trace : traces) {
      for (auto* const ranges : {&trace.tasks, &trace.calls, &trace.steps}) {
        std::ranges::stable_sort(*ranges, {}, &KinetoRange::begin_ns);
      }
      std::ranges::stable_sort(trace.ops, {}, &KinetoOp::begin_ns);
      DropRepeated(&trace);
    }
    std::ranges::stable_sort(traces, {},
                             [](const KinetoTrace& trace) { return trace.tasks.front().device; });
    return traces;
  }

 private:
  // Of a globalPid or globalTid: its lowest 24 bits are the thread.
  static int64_t ProcessOf(int64_t global) { return global < 0 ? 0 : global >> 24U; }

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

  Status Keep(KinetoRange range, std::vector<KinetoRange>* kept) {
    PRISM_RETURN_IF_ERROR(Take(sizeof(KinetoRange) + range.name.size()));
    kept->push_back(std::move(range));
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
      KinetoTrace& trace = processes_[ProcessOf(row.Int(5))];
      KinetoRange range;
      if (!SetTimes(row.Int(0), row.Int(1), &range, &trace)) {
        return OkStatus();
      }
      range.device = row.Int(2, 0);
      range.stream = row.Int(3, 0);
      range.correlation = row.Int(4);
      range.name = name(row, &range);
      return Keep(std::move(range), &trace.tasks);
    });
  }

  Status ReadKernels() {
    const auto name = [&](const SqliteRow& row, KinetoRange* /*range*/) {
      const std::string_view full = StringOf(row.Int(kFirstOwn));
      const std::string_view brief = StringOf(row.Int(kFirstOwn + 1));
      return std::string(!full.empty() ? full : !brief.empty() ? brief : "(kernel)");
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
                             const auto process = ProcessOfThread(row.Int(2));
                             if (process == processes_.end()) {
                               return OkStatus();
                             }
                             KinetoRange range;
                             if (!SetTimes(row.Int(0), row.Int(1), &range, &process->second)) {
                               return OkStatus();
                             }
                             range.thread = row.Int(2);
                             range.correlation = row.Int(3);
                             range.name = WithoutVersion(StringOf(row.Int(4)));
                             return Keep(std::move(range), &process->second.calls);
                           });
  }

  // Exports that name no processes have one.
  std::map<int64_t, KinetoTrace>::iterator ProcessOfThread(int64_t thread) {
    const auto process = processes_.find(ProcessOf(thread));
    return process == processes_.end() && processes_.size() == 1 ? processes_.begin() : process;
  }

  Status ReadRanges() {
    return tables_.ForRows(
        "NVTX_EVENTS", {"start", "end", "globalTid", "textId", "text"}, [&](const SqliteRow& row) {
          const auto process = ProcessOfThread(row.Int(2));
          const int64_t end = row.Int(1);
          if (process == processes_.end() || end < 0) {
            return OkStatus();  // marks have no end
          }
          KinetoTrace& trace = process->second;
          KinetoRange range;
          const std::string_view own = row.Text(4).substr(0, kLongestNsysName);
          range.name = own.empty() ? StringOf(row.Int(3)) : own;
          range.thread = row.Int(2);
          const bool is_step = range_.empty() ? IsStepName(range.name) : range.name == range_;
          if (!SetTimes(row.Int(0), end, &range, &trace)) {
            return OkStatus();
          }
          if (parts_ == KinetoParts::kAll) {
            PRISM_RETURN_IF_ERROR(Take(sizeof(KinetoOp) + range.name.size()));
            trace.ops.push_back(
                {range.name, range.begin_ns, range.duration_ns, range.thread, false});
          }
          return is_step ? Keep(std::move(range), &trace.steps) : OkStatus();
        });
  }

  Status ReadGpus() {
    return tables_.ForRows(
        "TARGET_INFO_GPU", {"id", "name", "totalMemory"}, [&](const SqliteRow& row) {
          for (auto& [key, trace] : processes_) {
            const bool is_own = !trace.tasks.empty() && trace.tasks.front().device == row.Int(0);
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
