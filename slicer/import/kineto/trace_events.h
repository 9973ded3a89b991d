// Events of a profile → the lists of its trace: what is kept of each, and where.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "slicer/import/kineto/rank_groups.h"
#include "slicer/import/kineto/trace_file.h"

namespace prism::slicer {

inline constexpr int64_t kMaxTraceElements = int64_t{1} << 46U;

enum class TraceCategory : uint8_t { kOther, kTask, kCall, kGpuRange, kFunction, kOp };

TraceCategory TraceCategoryOf(std::string_view text);

struct TraceEventNumbers {
  char phase = 0;
  TraceCategory category = TraceCategory::kOther;
  int64_t in_elements = 0;  // from the kernel's metadata
  int64_t out_elements = 0;
  int64_t group_size = 0;
  int64_t function = 0;  // that PyTorch recorded
  KinetoMemory memory;
  bool has_time = false;        // that is a number
  bool has_duration = false;    // that is a number, and not negative
  bool has_collective = false;  // something of it is noted
};

// The fields of one event that are looked at.
struct TraceEvent : TraceEventNumbers {
  KinetoRange range;  // without its name and collective, which are:
  std::string name;
  KinetoCollective collective;
  std::string group_ranks;                 // "[0, 1]"
  std::vector<int64_t> input_dims;         // elements of each input; from the host's range
  std::string input_type;                  // of the first one
  std::vector<std::vector<int64_t>> dims;  // of the inputs of products

  // Makes it a new one, which keeps the room that texts have.
  void Clear();
};

// Takes events in the order of the file.
class TraceEvents {
 public:
  TraceEvents(const std::string& range, KinetoParts parts, KinetoTrace* trace)
      : asked_(range), parts_(parts), trace_(*trace) {}

  // Leaves the event without what was kept of it.
  void Take(TraceEvent* event);

  // Once there are no more: brings the lists in order.
  void Finish();

 private:
  // What is kept of an event; null: nothing of that kind.
  struct Kept {
    KinetoRange* range = nullptr;
    KinetoOp* op = nullptr;
    KinetoProduct* product = nullptr;
  };

  // "B" and "E": a range's begin and end as events of their own.
  struct Half {
    int64_t process = -1;
    int64_t thread = -1;
    TimeNs time_ns = 0;
    bool is_begin = false;
    Kept kept = {};  // of a begin, until its end is known with no duration
  };

  // Joins where ranges of a thread begin with where they end.
  void JoinEnds();
  void EndAt(TimeNs end, const Half& begun);
  void DropEndless(const std::vector<const Half*>& endless);
  Kept Keep(TraceEvent* event);
  void KeepMemory(TraceEvent* event);
  void FillCollective(TraceEvent* event);
  KinetoProduct* KeepProduct(TraceEvent* event);
  KinetoRanges* ListOf(const TraceEvent& event);

  const std::string& asked_;
  KinetoParts parts_;
  KinetoTrace& trace_;
  std::vector<Half> halves_;
  std::map<ProductInputs, std::shared_ptr<const ProductInputs>> inputs_;
  RankLists rank_lists_;
};

// A task knows the number of its call, and each process counts its calls by itself.
Status RefuseProcesses(const KinetoTrace& trace, const std::string& file);

// Tools that join files repeat events: of equal calls and tasks the first stays. They are sorted.
void DropRepeated(KinetoTrace* trace);

}  // namespace prism::slicer
