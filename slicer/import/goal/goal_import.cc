#include "slicer/import/goal/goal_import.h"

#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/hash.h"
#include "slicer/import/goal/goal_binary.h"
#include "slicer/import/goal/goal_limits.h"
#include "slicer/import/goal/goal_text.h"
#include "slicer/import/source_files.h"

namespace prism::slicer {
namespace {

// Communicators cost memory by rank and comparisons by pair. If there are more tags than that, they
// share one, which changes nothing as long as each pair's messages are sent in the order of their
// receives.
constexpr size_t kMaxTagCommunicators = 4096;

struct GoalPolicy {
  ImportPolicy tasks;
  bool one_communicator = false;  // of all tags
};

// Reads one file with one policy.
class GoalImport {
 public:
  GoalImport(std::string_view bytes, const std::string& file, const GoalPolicy& policy)
      : bytes_(bytes), file_(file), policy_(policy) {}

  Status Read() {
    GoalHandler handler;
    handler.begin = [this](uint32_t ranks) {
      assembly_.emplace(ranks);
      calc_ = assembly_->KernelName(kGoalCalc);
      lowering_.emplace(assembly_->lower_names());
      return OkStatus();
    };
    handler.rank = [this](TaskGraph* tasks) { return Take(tasks); };
    PRISM_RETURN_IF_ERROR(IsGoalBinary(bytes_) ? ReadGoalBinary(bytes_, file_, &handler)
                                               : ReadGoalText(bytes_, file_, &handler));
    return OkStatus();
  }

  [[nodiscard]] bool too_many_tags() const { return too_many_tags_; }

  ImportAttempt Finish(const ImportOptions& options) {
    ImportResult& result = result_;
    result.bytes_read = static_cast<int64_t>(bytes_.size());
    result.tasks = task_count_;
    Notes& notes = result.notes;
    notes.Add(fmt::format("messages take as long as sends and receives on {}; their cpu time (o of "
                          "LogGOPS) is not charged",
                          options.cluster.name),
              messages_);
    notes.Add("calcs ordered only by their cpu run in the order of the file", unordered_);
    if (policy_.one_communicator) {
      const Status in_order = CheckTagOrder();
      if (!in_order.ok()) {
        return {in_order};
      }
      notes.Add("tags are not kept, because there are too many",
                static_cast<int64_t>(tags_.size()));
    }
    return FinishImport(*std::move(assembly_), options, std::move(result_), file_);
  }

 private:
  Status Take(TaskGraph* tasks) {
    task_count_ += static_cast<int64_t>(tasks->tasks.size());
    rank_begin_ = tasks->tasks.data();
    rank_tags_.resize(tasks->tasks.size());
    for (Task& task : tasks->tasks) {
      if (task.resource != 0 || task.nic != 0) {
        task.place = assembly_->MarkerName(GoalPlace(task.resource, task.nic));
      }
      if (task.kind == TaskKind::kCompute) {
        task.name = calc_;
        continue;
      }
      ++messages_;
      PRISM_RETURN_IF_ERROR(NumberTag(&task));
    }
    ApplyPolicy(policy_.tasks, tasks, &result_.notes);
    Result<LoweredRank> lowered = lowering_->Lower(*tasks);
    if (!lowered.ok()) {
      return BadFile(fmt::format("{}:{}", file_, lowered.status().message()));
    }
    unordered_ += lowered->unordered;
    FollowTags(*tasks);
    assembly_->AddRank(tasks->rank, *std::move(lowered));
    return OkStatus();
  }

  // What a pair of ranks sends and receives, as hashes over its tags in order.
  struct TagSequence {
    uint64_t sent = 0;
    uint64_t received = 0;
  };

  void FollowTags(const TaskGraph& tasks) {
    if (!policy_.one_communicator) {
      return;
    }
    const uint64_t own = tasks.rank.value();
    for (const uint32_t index : lowering_->order()) {
      const Task& task = tasks.tasks[index];
      if (task.kind == TaskKind::kSend) {
        uint64_t& sent = sequences_[(own << 32U) | task.peer].sent;
        sent = Hash64(fmt::format("{} {}", sent, rank_tags_[index]));
      } else if (task.kind == TaskKind::kReceive) {
        uint64_t& received = sequences_[(uint64_t{task.peer} << 32U) | own].received;
        received = Hash64(fmt::format("{} {}", received, rank_tags_[index]));
      }
    }
  }

  [[nodiscard]] Status CheckTagOrder() const {
    for (const auto& [pair, sequence] : sequences_) {
      if (sequence.sent != sequence.received) {
        return BadFile(
            fmt::format("{}: rank {} sends to rank {} in another order of tags than that rank "
                        "receives, and more than {} tags cannot be told apart; use fewer tags",
                        file_, pair >> 32U, pair & 0xFFFFFFFFU, kMaxTagCommunicators));
      }
    }
    return OkStatus();
  }

  Status NumberTag(Task* task) {
    const uint32_t tag = task->comm;
    if (policy_.one_communicator) {
      rank_tags_[static_cast<size_t>(task - rank_begin_)] = tag;
      tags_.try_emplace(tag, 0);
      task->comm = assembly_->Communicator("messages");
      return OkStatus();
    }
    auto found = tags_.find(tag);
    if (found == tags_.end()) {
      if (tags_.size() == kMaxTagCommunicators) {
        too_many_tags_ = true;
        return BadFile("too many tags");  // read again with another policy
      }
      found = tags_.emplace(tag, assembly_->Communicator(fmt::format("tag {}", tag))).first;
    }
    task->comm = found->second;
    return OkStatus();
  }

  std::string_view bytes_;
  const std::string& file_;
  GoalPolicy policy_;
  std::optional<GraphAssembly> assembly_;
  std::optional<TaskLowering> lowering_;
  std::unordered_map<uint32_t, uint32_t> tags_;  // → communicator
  std::map<uint64_t, TagSequence> sequences_;    // by sender and receiver; with one communicator
  std::vector<uint32_t> rank_tags_;              // by task of the current rank; with one
                                                 // communicator
  const Task* rank_begin_ = nullptr;
  bool too_many_tags_ = false;
  uint32_t calc_ = 0;
  ImportResult result_;
  int64_t task_count_ = 0;
  int64_t messages_ = 0;
  int64_t unordered_ = 0;
};

}  // namespace

Result<ImportResult> ImportGoalBytes(std::string_view bytes,
                                     const std::string& file,
                                     const ImportOptions& options) {
  GoalPolicy goal;
  return ImportByPolicy([&](const ImportPolicy& policy) -> ImportAttempt {
    goal.tasks = policy;
    GoalImport import(bytes, file, goal);
    const Status read = import.Read();
    if (read.ok()) {
      return import.Finish(options);
    }
    if (!import.too_many_tags()) {
      return {read};
    }
    goal.one_communicator = true;
    GoalImport again(bytes, file, goal);
    const Status read_again = again.Read();
    return read_again.ok() ? again.Finish(options) : ImportAttempt{read_again};
  });
}

Result<ImportResult> ImportGoal(const std::string& path, const ImportOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const SourceFiles opened, SourceFiles::Open({path}));
  return ImportGoalBytes(opened.sources().front().bytes, path, options);
}

}  // namespace prism::slicer
