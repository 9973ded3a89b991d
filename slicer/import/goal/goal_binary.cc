#include "slicer/import/goal/goal_binary.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "slicer/import/goal/goal_limits.h"

namespace prism::slicer {
namespace {

constexpr uint64_t kMagic = 4223;
constexpr uint64_t kSpent = 2342;  // a schedule that LogGOPSim has consumed (--save-mem)
constexpr size_t kMagicBytes = 8;  // parts are counted from here
constexpr size_t kHeadBytes = 6;   // after it: ranks, cpu, nic
constexpr size_t kJumpBytes = 16;  // a rank
constexpr size_t kTaskBytes = 39;
constexpr uint32_t kAny = 0xFFFFFFFFU;  // source or tag
constexpr uint8_t kSend = 1;
constexpr uint8_t kReceive = 2;
constexpr uint8_t kCalc = 3;

template <typename Int>
Int Load(const char* at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(Int); ++i) {
    value |= uint64_t{static_cast<unsigned char>(at[i])} << (8 * i);
  }
  return static_cast<Int>(value);
}

template <typename Int>
void Store(Int value, std::string* bytes) {
  for (size_t i = 0; i < sizeof(Int); ++i) {
    bytes->push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
  }
}

class GoalBinaryReader {
 public:
  GoalBinaryReader(std::string_view bytes, const std::string& file, GoalHandler* handler)
      : bytes_(bytes), file_(file), handler_(handler) {}

  Status Run() {
    if (bytes_.size() >= kMagicBytes && Load<uint64_t>(bytes_.data()) == kSpent) {
      return Wrong(0, "this schedule was consumed by a simulation (--save-mem); make it again");
    }
    if (bytes_.size() < kMagicBytes + kHeadBytes) {
      return Wrong(bytes_.size(), "the file ends inside its header; is it cut off?");
    }
    ranks_ = Load<uint32_t>(bytes_.data() + kMagicBytes);
    if (ranks_ == 0 || ranks_ > kMaxGoalRanks) {
      return Wrong(kMagicBytes, fmt::format("a number of ranks of at most {} is expected, found {}",
                                            kMaxGoalRanks, ranks_));
    }
    if ((bytes_.size() - kMagicBytes - kHeadBytes) / kJumpBytes < ranks_) {
      return Wrong(bytes_.size(), "the file ends inside its table of ranks; is it cut off?");
    }
    PRISM_RETURN_IF_ERROR(handler_->begin(ranks_));
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      PRISM_RETURN_IF_ERROR(ReadRank(rank));
    }
    return OkStatus();
  }

 private:
  Status ReadRank(uint32_t rank) {
    const size_t jump = kMagicBytes + kHeadBytes + kJumpBytes * rank;
    const auto begin = Load<uint64_t>(bytes_.data() + jump);
    const auto end = Load<uint64_t>(bytes_.data() + jump + 8);
    const uint64_t room = bytes_.size() - kMagicBytes;
    if (begin > end || end > room || end - begin < 8) {
      return Wrong(
          jump, fmt::format("rank {} should be at bytes {} to {} of {}; is the file cut off?", rank,
                            begin, end, room));
    }
    part_ = bytes_.substr(kMagicBytes + begin, end - begin);
    part_at_ = kMagicBytes + begin;
    const auto count = Load<uint32_t>(part_.data());
    const auto roots = Load<uint32_t>(part_.data() + 4);
    const uint64_t first = 8 + uint64_t{4} * roots;
    const uint64_t lists = first + uint64_t{kTaskBytes} * count;
    if (lists > part_.size()) {
      return Wrong(part_at_,
                   fmt::format("rank {} has {} tasks, which do not fit into its part of the file",
                               rank, count));
    }
    tasks_.Clear();
    tasks_.rank = Rank(rank);
    for (uint32_t task = 0; task < count; ++task) {
      PRISM_RETURN_IF_ERROR(ReadTask(first + uint64_t{kTaskBytes} * task, task));
    }
    for (uint32_t task = 0; task < count; ++task) {
      const uint64_t at = first + uint64_t{kTaskBytes} * task;
      PRISM_RETURN_IF_ERROR(ReadWaiting({at + 23, lists, task, count, false}));
      PRISM_RETURN_IF_ERROR(ReadWaiting({at + 31, lists, task, count, true}));
    }
    PRISM_RETURN_IF_ERROR(CheckCounts(first));
    return handler_->rank(&tasks_);
  }

  Status ReadTask(uint64_t at, uint32_t index) {
    const char* const data = part_.data() + at;
    Task task;
    task.line = index + 1;
    const auto kind = Load<uint8_t>(data + 4);
    const auto peer = Load<uint32_t>(data + 5);
    const auto size = Load<uint64_t>(data + 9);
    const auto tag = Load<uint32_t>(data + 17);
    task.resource = Load<uint8_t>(data + 21);
    if (kind < kSend || kind > kCalc) {
      return Wrong(part_at_ + at + 4, fmt::format("a task has the unknown kind {}", kind));
    }
    if (size > (kind == kCalc ? kMaxGoalNs : kMaxGoalBytes)) {
      return Wrong(part_at_ + at + 9,
                   fmt::format("a task has the size {}, which is out of range", size));
    }
    task.value = static_cast<int64_t>(size);
    if (kind != kCalc) {
      if ((kind == kReceive && peer == kAny) || tag == kAny) {
        return Wrong(
            part_at_ + at + 5,
            "a receive from any source or with any tag is not supported; name source and tag");
      }
      if (peer >= ranks_) {
        return Wrong(part_at_ + at + 5,
                     fmt::format("a message names rank {}, but there are {} ranks", peer, ranks_));
      }
      task.kind = kind == kSend ? TaskKind::kSend : TaskKind::kReceive;
      task.peer = peer;
      task.comm = tag;
      task.nic = Load<uint8_t>(data + 22);
    }
    tasks_.Add(task);
    return OkStatus();
  }

  // A list of tasks that wait for a task, and where the file refers to it.
  struct List {
    uint64_t at = 0;     // offset of its count and first in the part
    uint64_t lists = 0;  // where all lists begin
    uint32_t on = 0;
    uint32_t tasks = 0;
    bool begun = false;
  };

  Status ReadWaiting(const List& list) {
    const auto count = Load<uint32_t>(part_.data() + list.at);
    const auto first = Load<uint32_t>(part_.data() + list.at + 4);
    if (count == 0) {
      return OkStatus();
    }
    if (list.lists + (uint64_t{first} + count) * 4 > part_.size()) {
      return Wrong(part_at_ + list.at,
                   "a list of dependencies lies outside its rank's part of the file");
    }
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t at = list.lists + (uint64_t{first} + i) * 4;
      const auto task = Load<uint32_t>(part_.data() + at);
      if (task >= list.tasks || task == list.on) {
        return Wrong(
            part_at_ + at,
            fmt::format("task {} waits for task {}, but its rank has other tasks only, {} in all",
                        list.on, task, list.tasks));
      }
      tasks_.edges.push_back({task, list.on, list.begun});
    }
    return OkStatus();
  }

  // The number of tasks that a task waits for must agree with the lists.
  Status CheckCounts(uint64_t first) {
    std::vector<uint32_t> waits(tasks_.tasks.size());
    for (const TaskEdge& edge : tasks_.edges) {
      ++waits[edge.task];
    }
    for (size_t task = 0; task < waits.size(); ++task) {
      const uint64_t at = first + kTaskBytes * task;
      const auto said = Load<uint32_t>(part_.data() + at);
      if (said != waits[task]) {
        return Wrong(part_at_ + at,
                     fmt::format("a task waits for {} others, but {} list it", said, waits[task]));
      }
    }
    return OkStatus();
  }

  [[nodiscard]] Status Wrong(uint64_t at, const std::string& what) const {
    return BadFile(fmt::format("{}: byte {}: {}", file_, at, what));
  }

  std::string_view bytes_;
  const std::string& file_;
  GoalHandler* handler_;
  uint32_t ranks_ = 0;
  std::string_view part_;
  uint64_t part_at_ = 0;
  TaskGraph tasks_;
};

// Tasks by what they wait for: those of `on` at waiting[begin[on] .. begin[on + 1]).
struct WaitingIndex {
  std::vector<uint32_t> begin;
  std::vector<uint32_t> waiting;
};

WaitingIndex IndexWaiting(const TaskGraph& tasks, bool begun) {
  WaitingIndex index;
  index.begin.resize(tasks.tasks.size() + 1);
  for (const TaskEdge& edge : tasks.edges) {
    index.begin[edge.on + 1] += edge.begun == begun ? 1U : 0U;
  }
  for (size_t i = 1; i < index.begin.size(); ++i) {
    index.begin[i] += index.begin[i - 1];
  }
  index.waiting.resize(index.begin.back());
  std::vector<uint32_t> next(index.begin.begin(), index.begin.end() - 1);
  for (const TaskEdge& edge : tasks.edges) {
    if (edge.begun == begun) {
      index.waiting[next[edge.on]++] = edge.task;
    }
  }
  return index;
}

}  // namespace

bool IsGoalBinary(std::string_view bytes) {
  return bytes.size() >= kMagicBytes &&
         (Load<uint64_t>(bytes.data()) == kMagic || Load<uint64_t>(bytes.data()) == kSpent);
}

Status ReadGoalBinary(std::string_view bytes, const std::string& file, GoalHandler* handler) {
  return GoalBinaryReader(bytes, file, handler).Run();
}

std::string GoalBinaryHeadBytes(const GoalBinaryHead& head) {
  std::string bytes;
  Store<uint64_t>(kMagic, &bytes);
  Store(static_cast<uint32_t>(head.part_bytes.size()), &bytes);
  Store(head.highest_cpu, &bytes);
  Store(head.highest_nic, &bytes);
  uint64_t at = kHeadBytes + kJumpBytes * head.part_bytes.size();
  for (const uint64_t part : head.part_bytes) {
    Store(at, &bytes);
    at += part;
    Store(at, &bytes);
  }
  return bytes;
}

std::string GoalBinaryPart(const TaskGraph& tasks) {
  std::vector<uint32_t> waits(tasks.tasks.size());
  for (const TaskEdge& edge : tasks.edges) {
    ++waits[edge.task];
  }
  const WaitingIndex ends = IndexWaiting(tasks, false);
  const WaitingIndex begins = IndexWaiting(tasks, true);
  std::string bytes;
  Store(static_cast<uint32_t>(tasks.tasks.size()), &bytes);
  Store(static_cast<uint32_t>(std::ranges::count(waits, 0U)), &bytes);
  for (uint32_t task = 0; task < waits.size(); ++task) {
    if (waits[task] == 0) {
      Store(task, &bytes);
    }
  }
  uint32_t listed = 0;
  for (uint32_t i = 0; i < waits.size(); ++i) {
    const Task& task = tasks.tasks[i];
    const bool is_calc = task.kind == TaskKind::kCompute;
    Store(waits[i], &bytes);
    Store(is_calc ? kCalc : task.kind == TaskKind::kSend ? kSend : kReceive, &bytes);
    Store(is_calc ? 0U : task.peer, &bytes);
    Store(static_cast<uint64_t>(task.value), &bytes);
    Store(is_calc ? 0U : task.comm, &bytes);
    Store(static_cast<uint8_t>(task.resource == kNoResource ? 0 : task.resource), &bytes);
    Store(task.nic, &bytes);
    for (const WaitingIndex* index : {&ends, &begins}) {
      const uint32_t count = index->begin[i + 1] - index->begin[i];
      Store(count, &bytes);
      Store(listed, &bytes);
      listed += count;
    }
  }
  for (uint32_t i = 0; i < waits.size(); ++i) {
    for (const WaitingIndex* index : {&ends, &begins}) {
      for (uint32_t at = index->begin[i]; at < index->begin[i + 1]; ++at) {
        Store(index->waiting[at], &bytes);
      }
    }
  }
  return bytes;
}

}  // namespace prism::slicer
