// Profiles that torch.profiler writes (Kineto's JSON, the trace event format): what the host called
// and what the GPU ran, of one rank. Read in one pass, using memory only for what is kept.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "slicer/import/kineto/rank_groups.h"

namespace prism::slicer {

// What a process group did, as PyTorch notes it at the kernel or at the range that issued it.
struct KinetoCollective {
  std::string name;          // "allreduce", "_allgather_base", ...; "": not noted
  std::string dtype;         // "Float", "BFloat16"
  int64_t elements = 0;      // of the larger buffer on one rank, or as below; 0: not noted
  bool is_input = false;     // elements count what the rank contributes
  int64_t source = -1;       // of a message between two ranks; -1: not noted
  int64_t destination = -1;  // likewise
  std::string group;         // name of the process group
  RankList members;          // null: not noted
  int64_t size = 0;          // how many there are, of which `members` may be some; 0: not noted

  // Ascending; empty: not noted.
  [[nodiscard]] const std::vector<uint32_t>& ranks() const {
    static const std::vector<uint32_t> none;
    return members == nullptr ? none : *members;
  }
};

// Texts that stay where they are, each once: a large profile repeats some hundred names a million
// times.
class TraceTexts {
 public:
  TraceTexts() = default;
  TraceTexts(TraceTexts&&) = default;
  TraceTexts& operator=(TraceTexts&&) = default;

  std::string_view Keep(std::string_view text) {
    const auto known = texts_.find(text);
    if (known != texts_.end()) {
      return *known;
    }
    bytes_ += sizeof(std::string) + text.size();
    return *texts_.emplace(text).first;
  }

  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_set<std::string, Hash, std::equal_to<>> texts_;
  size_t bytes_ = 0;
};

// A range of time. Times are those of the file in whole nanoseconds. Texts are the trace's.
struct KinetoRange {
  std::string_view name;
  TimeNs begin_ns = 0;
  DurationNs duration_ns = 0;
  int64_t thread = -1;                // of the host
  int64_t device = 0;                 // GPU: of the process
  int64_t stream = -1;                // GPU: as CUPTI numbers them
  int64_t correlation = -1;           // shared by a call and the GPU task that it launched
  int64_t bytes = 0;                  // of a copy or memset; 0: not stated
  int64_t process = -1;               // of the host; -1: not stated
  KinetoCollective* noted = nullptr;  // of the trace; null: nothing

  [[nodiscard]] const KinetoCollective& collective() const {
    static const KinetoCollective none;
    return noted == nullptr ? none : *noted;
  }
  [[nodiscard]] TimeNs end_ns() const { return begin_ns + duration_ns; }
};

// What the host was in: an op of the framework, or with stacks a function of Python.
struct KinetoOp {
  std::string_view name;
  TimeNs begin_ns = 0;
  DurationNs duration_ns = 0;
  int64_t thread = -1;
  bool is_function = false;

  [[nodiscard]] TimeNs end_ns() const { return begin_ns + duration_ns; }
};

struct ProductInputs {
  std::vector<std::vector<int64_t>> dims;  // of each; empty: not noted
  std::string type;                        // of the first one

  auto operator<=>(const ProductInputs&) const = default;
};

// A matrix product of the framework (product_shapes.h).
struct KinetoProduct {
  std::string_view name;
  TimeNs begin_ns = 0;
  DurationNs duration_ns = 0;
  int64_t thread = -1;
  int64_t function = 0;                         // that PyTorch recorded; 0: not noted
  std::shared_ptr<const ProductInputs> inputs;  // equal ones are kept once; null: not noted
};

// An allocation of a framework, or what was freed, which has negative bytes; -1: not stated.
struct KinetoMemory {
  TimeNs time_ns = 0;
  int64_t thread = -1;
  int64_t address = -1;
  int64_t bytes = 0;
  int64_t device_type = -1;  // as c10::DeviceType counts: 0 CPU, 1 CUDA
  int64_t device = -1;
  int64_t allocated = -1;  // of the device, after it
  int64_t reserved = -1;   // likewise
};

// What is kept of a profile: what a step's program needs, or ops and memory as well.
enum class KinetoParts : uint8_t { kCalls, kAll };

using KinetoRanges = std::deque<KinetoRange>;  // grows without a copy

// Each list is sorted by begin; ranges that begin together are in the order of the file.
struct KinetoTrace {
  int64_t rank = -1;      // -1: not stated
  int64_t world = -1;     // likewise
  std::string gpu;        // "" likewise
  int64_t gpu_bytes = 0;  // of its memory; 0: not stated
  KinetoRanges steps;     // ProfilerStep#N, or the ranges of the name that was asked for
  KinetoRanges calls;     // of CUDA's runtime and driver
  KinetoRanges issues;    // host ranges that issue a collective: nccl:all_reduce
  KinetoRanges tasks;     // kernels, copies and memsets of the GPU
  std::deque<KinetoProduct> products;
  RankGroups groups;                         // that the file lists
  std::deque<KinetoOp> ops;                  // only of KinetoParts::kAll, with issues
  std::deque<KinetoMemory> memory;           // likewise
  std::deque<KinetoCollective> collectives;  // that ranges note
  TraceTexts texts;
  bool is_cut_off = false;  // the file ends early; what came before is kept
  int64_t long_names = 0;   // of events, of which only the first 4,096 bytes are kept
  int64_t untimed = 0;      // events left out: their times are no numbers, or negative
  int64_t repeated = 0;     // calls and tasks left out: they are in the file once more
};

// The next piece of a text, valid until the next one; empty at the end.
using TextPieces = std::function<std::string_view()>;

// `range`: name of the host ranges that are the steps; "": ProfilerStep#N.
// kBadFile: "<file>: byte N: ...".
Result<KinetoTrace> ReadKinetoTrace(const TextPieces& pieces,
                                    const std::string& file,
                                    const std::string& range = "",
                                    KinetoParts parts = KinetoParts::kCalls);

// Of bytes in memory.
Result<KinetoTrace> ReadKinetoTrace(std::string_view bytes,
                                    const std::string& file,
                                    const std::string& range = "",
                                    KinetoParts parts = KinetoParts::kCalls);

// Of a file, packed or not. `bytes` grows by its length.
Result<KinetoTrace> ReadKinetoFile(const std::string& file,
                                   const std::string& range,
                                   KinetoParts parts,
                                   int64_t* bytes = nullptr);

// Gives collectives of the groups that the trace lists all ranks of their group.
void CompleteGroups(KinetoTrace* trace);

}  // namespace prism::slicer
