#include "slicer/import/goal/goal_text.h"

#include <vector>

#include <fmt/format.h>

#include "slicer/import/goal/goal_limits.h"
#include "slicer/import/goal/label_table.h"

namespace prism::slicer {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c) || c == '_';
}

// Reads one file; the remaining text is the current position.
class GoalTextReader {
 public:
  GoalTextReader(std::string_view text, const std::string& file, GoalHandler* handler)
      : at_(text.data()), end_(text.data() + text.size()), file_(file), handler_(handler) {}

  Status Run() {
    PRISM_RETURN_IF_ERROR(ReadHead());
    while (SkipToToken()) {
      const std::string_view word = Word();
      if (word != "rank") {
        return Expected("\"rank\"", word);
      }
      PRISM_RETURN_IF_ERROR(ReadRank());
    }
    PRISM_RETURN_IF_ERROR(unclosed_comment_ ? Wrong("a comment is never closed") : OkStatus());
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      if (!seen_[rank]) {
        return Wrong(fmt::format("rank {} of {} is missing", rank, ranks_));
      }
    }
    return OkStatus();
  }

 private:
  Status ReadHead() {
    SkipToToken();
    const std::string_view word = Word();
    if (word != "num_ranks") {
      return Expected("\"num_ranks\"", word);
    }
    uint64_t ranks = 0;
    PRISM_RETURN_IF_ERROR(ReadNumber("a number of ranks", kMaxGoalRanks, &ranks));
    if (ranks == 0) {
      return Wrong("num_ranks is 0");
    }
    ranks_ = static_cast<uint32_t>(ranks);
    seen_.resize(ranks_);
    return handler_->begin(ranks_);
  }

  Status ReadRank() {
    uint64_t rank = 0;
    PRISM_RETURN_IF_ERROR(ReadNumber("a rank", ranks_ - 1, &rank));
    if (seen_[rank]) {
      return Wrong(fmt::format("rank {} appears a second time", rank));
    }
    seen_[rank] = true;
    SkipToToken();
    if (at_ == end_ || *at_ != '{') {
      return Expected("\"{\"", Word());
    }
    ++at_;
    tasks_.Clear();
    tasks_.rank = Rank(static_cast<uint32_t>(rank));
    labels_.Clear();
    while (SkipToToken()) {
      if (*at_ == '}') {
        ++at_;
        return handler_->rank(&tasks_);
      }
      PRISM_RETURN_IF_ERROR(ReadStatement());
    }
    return Wrong(fmt::format("the file ends inside rank {}; is it cut off?", rank));
  }

  // "label: task", "task" or "label requires label".
  Status ReadStatement() {
    std::string_view word = Word();
    if (word == "calc" || word == "send" || word == "recv") {
      return ReadTask(word, {});
    }
    const std::string_view label = word;
    if (label.empty() || IsDigit(label.front())) {
      return Expected("a task, a label or \"}\"", label);
    }
    SkipBlanks();
    if (at_ < end_ && *at_ == ':') {
      ++at_;
      SkipBlanks();
      return ReadTask(Word(), label);
    }
    word = Word();
    if (word != "requires" && word != "irequires") {
      return Expected("\":\", \"requires\" or \"irequires\"", word);
    }
    TaskEdge edge;
    edge.begun = word.front() == 'i';
    SkipBlanks();
    PRISM_RETURN_IF_ERROR(FindLabel(label, &edge.task));
    PRISM_RETURN_IF_ERROR(FindLabel(Word(), &edge.on));
    if (edge.task == edge.on) {
      return Wrong(fmt::format("{} requires itself", label));
    }
    tasks_.edges.push_back(edge);
    return EndOfStatement();
  }

  Status FindLabel(std::string_view label, uint32_t* task) {
    *task = labels_.Find(label);
    if (*task != LabelTable::kNone) {
      return OkStatus();
    }
    return label.empty() ? Expected("a label", label)
                         : Wrong(fmt::format("no task above has the label '{}'", label));
  }

  Status ReadTask(std::string_view kind, std::string_view label) {
    Task task;
    task.line = line_;
    uint64_t size = 0;
    if (kind == "calc") {
      PRISM_RETURN_IF_ERROR(ReadNumber("nanoseconds", kMaxGoalNs, &size));
    } else if (kind == "send" || kind == "recv") {
      task.kind = kind == "send" ? TaskKind::kSend : TaskKind::kReceive;
      PRISM_RETURN_IF_ERROR(ReadNumber("a number of bytes", kMaxGoalBytes, &size));
      PRISM_RETURN_IF_ERROR(ReadPeer(&task));
    } else {
      return Expected("\"calc\", \"send\" or \"recv\"", kind);
    }
    task.value = static_cast<int64_t>(size);
    task.resource = 0;
    PRISM_RETURN_IF_ERROR(ReadAttributes(&task));
    if (!label.empty() && !labels_.Insert(label, static_cast<uint32_t>(tasks_.tasks.size()))) {
      return Wrong(fmt::format("the label '{}' is used twice", label));
    }
    tasks_.Add(task);
    return EndOfStatement();
  }

  // "b to 3" or "b from 3".
  Status ReadPeer(Task* task) {
    SkipBlanks();
    if (const std::string_view unit = Word(); unit != "b") {
      return Expected("\"b\" after the number of bytes", unit);
    }
    const char* const direction = task->kind == TaskKind::kSend ? "to" : "from";
    SkipBlanks();
    if (const std::string_view word = Word(); word != direction) {
      return Expected(fmt::format("\"{}\"", direction), word);
    }
    SkipBlanks();
    if (at_ < end_ && *at_ == '-') {
      return Wrong("a receive from any source (-1) is not supported; name the sender");
    }
    uint64_t peer = 0;
    PRISM_RETURN_IF_ERROR(ReadNumber("a rank", ranks_ - 1, &peer));
    task->peer = static_cast<uint32_t>(peer);
    return OkStatus();
  }

  // Any of "tag 1", "cpu 2", "nic 3".
  Status ReadAttributes(Task* task) {
    for (SkipBlanks(); at_ < end_ && IsWordChar(*at_); SkipBlanks()) {
      const std::string_view word = Word();
      uint64_t value = 0;
      if (word == "tag" && task->kind != TaskKind::kCompute) {
        SkipBlanks();
        if (at_ < end_ && *at_ == '-') {
          return Wrong("a message with any tag (-1) is not supported; name the tag");
        }
        PRISM_RETURN_IF_ERROR(ReadNumber("a tag", kMaxGoalTag, &value));
        task->comm = static_cast<uint32_t>(value);
      } else if (word == "cpu") {
        PRISM_RETURN_IF_ERROR(ReadNumber("a cpu", kMaxGoalCpu, &value));
        task->resource = static_cast<uint16_t>(value);
      } else if (word == "nic") {
        PRISM_RETURN_IF_ERROR(ReadNumber("a nic", kMaxGoalCpu, &value));
        task->nic = static_cast<uint8_t>(value);
      } else {
        return Expected("\"tag\", \"cpu\", \"nic\" or the end of the line", word);
      }
    }
    return OkStatus();
  }

  // A line holds one statement, but its block may end or a comment begin on it.
  Status EndOfStatement() {
    SkipBlanks();
    if (at_ == end_ || *at_ == '\n' || *at_ == '\r' || *at_ == '}' || *at_ == '/') {
      return OkStatus();
    }
    return Expected("the end of the line", Word());
  }

  Status ReadNumber(const char* what, uint64_t highest, uint64_t* value) {
    SkipBlanks();
    if (at_ == end_ || !IsDigit(*at_)) {
      return Expected(what, Word());
    }
    uint64_t number = 0;
    for (; at_ < end_ && IsDigit(*at_); ++at_) {
      number = number * 10 + static_cast<uint64_t>(*at_ - '0');
      if (number > highest) {
        return Wrong(fmt::format("expected {} of at most {}", what, highest));
      }
    }
    *value = number;
    return OkStatus();
  }

  void SkipBlanks() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t')) {
      ++at_;
    }
  }

  // Skips blanks, ends of lines and comments; false at the end of the file.
  bool SkipToToken() {
    while (at_ < end_) {
      if (*at_ == '\n') {
        ++line_;
        ++at_;
      } else if (*at_ == ' ' || *at_ == '\t' || *at_ == '\r') {
        ++at_;
      } else if (*at_ == '/' && at_ + 1 < end_ && (at_[1] == '/' || at_[1] == '*')) {
        SkipComment();
      } else {
        return true;
      }
    }
    return false;
  }

  void SkipComment() {
    const bool to_end_of_line = at_[1] == '/';
    at_ += 2;
    while (at_ < end_) {
      if (to_end_of_line && *at_ == '\n') {
        return;
      }
      if (!to_end_of_line && *at_ == '*' && at_ + 1 < end_ && at_[1] == '/') {
        at_ += 2;
        return;
      }
      line_ += *at_ == '\n' ? 1 : 0;
      ++at_;
    }
    unclosed_comment_ = !to_end_of_line;
  }

  // Letters, digits and underscores from here on; may be empty.
  std::string_view Word() {
    const char* const begin = at_;
    while (at_ < end_ && IsWordChar(*at_)) {
      ++at_;
    }
    return {begin, static_cast<size_t>(at_ - begin)};
  }

  [[nodiscard]] Status Wrong(const std::string& what) const {
    return BadFile(fmt::format("{}:{}: {}", file_, line_, what));
  }

  [[nodiscard]] Status Expected(const std::string& what, std::string_view found) const {
    constexpr size_t kShown = 40;
    if (!found.empty()) {
      return Wrong(fmt::format("expected {}, found '{}'", what, found.substr(0, kShown)));
    }
    if (at_ == end_) {
      return Wrong(fmt::format("expected {}, found the end of the file; is it cut off?", what));
    }
    if (*at_ == '\n' || *at_ == '\r') {
      return Wrong(fmt::format("expected {}, found the end of the line", what));
    }
    const auto byte = static_cast<unsigned char>(*at_);
    return Wrong(byte > 0x20 && byte < 0x7F
                     ? fmt::format("expected {}, found '{}'", what, *at_)
                     : fmt::format("expected {}, found a byte 0x{:02x}", what, byte));
  }

  const char* at_;
  const char* end_;
  const std::string& file_;
  GoalHandler* handler_;
  uint32_t line_ = 1;
  uint32_t ranks_ = 0;
  bool unclosed_comment_ = false;
  std::vector<bool> seen_;  // by rank
  TaskGraph tasks_;
  LabelTable labels_;
};

}  // namespace

Status ReadGoalText(std::string_view text, const std::string& file, GoalHandler* handler) {
  return GoalTextReader(text, file, handler).Run();
}

}  // namespace prism::slicer
