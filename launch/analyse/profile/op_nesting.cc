#include "launch/analyse/profile/op_nesting.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace prism::launch {
namespace {

using slicer::KinetoOp;

constexpr size_t kMostFunctions = 16;

// Ends those that have ended by then.
void PopEnded(const std::deque<KinetoOp>& ops, TimeNs time, std::vector<uint32_t>* open) {
  while (!open->empty() && ops[open->back()].end_ns() <= time) {
    open->pop_back();
  }
}

}  // namespace

OpNesting::OpNesting(const std::deque<KinetoOp>& ops) : ops_(ops), order_(ops.size()) {
  std::iota(order_.begin(), order_.end(), 0U);
  std::ranges::stable_sort(order_, {}, [&](uint32_t op) {
    return std::tuple(ops_[op].thread, ops_[op].begin_ns, -ops_[op].duration_ns);
  });
  for (size_t i = 0; i < order_.size(); ++i) {
    auto& [begin, end] = spans_.try_emplace(ops_[order_[i]].thread, i, i).first->second;
    end = i + 1;
  }
}

std::vector<DurationNs> OpNesting::InnerTimes() const {
  std::vector<DurationNs> inner(ops_.size(), 0);
  for (const auto& [thread, span] : spans_) {
    std::vector<uint32_t> open;
    for (size_t i = span.first; i < span.second; ++i) {
      const KinetoOp& op = ops_[order_[i]];
      if (op.is_function) {
        continue;
      }
      PopEnded(ops_, op.begin_ns, &open);
      if (!open.empty()) {
        inner[open.back()] += std::min(op.end_ns(), ops_[open.back()].end_ns()) - op.begin_ns;
      }
      open.push_back(order_[i]);
    }
  }
  return inner;
}

void OpNesting::Cursor::MoveTo(int64_t thread, TimeNs time) {
  const auto span = nesting_->spans_.find(thread);
  if (span == nesting_->spans_.end()) {
    at_ = nullptr;
    return;
  }
  Thread& at = threads_.try_emplace(thread, Thread{span->second.first}).first->second;
  const std::deque<KinetoOp>& ops = nesting_->ops_;
  for (; at.next < span->second.second && ops[nesting_->order_[at.next]].begin_ns <= time;
       ++at.next) {
    const uint32_t op = nesting_->order_[at.next];
    std::vector<uint32_t>& open = ops[op].is_function ? at.functions : at.ops;
    PopEnded(ops, ops[op].begin_ns, &open);
    open.push_back(op);
  }
  PopEnded(ops, time, &at.ops);
  PopEnded(ops, time, &at.functions);
  at_ = &at;
}

std::string OpNesting::Cursor::Op() const {
  return at_ == nullptr || at_->ops.empty() ? std::string()
                                            : std::string(nesting_->ops_[at_->ops.back()].name);
}

std::string OpNesting::Cursor::Stack() const {
  std::string stack;
  const size_t depth = at_ == nullptr ? 0 : at_->functions.size();
  for (size_t i = 0; i < std::min(depth, kMostFunctions); ++i) {
    stack += i == 0 ? "" : " < ";
    stack += nesting_->ops_[at_->functions[depth - 1 - i]].name;
  }
  return stack;
}

}  // namespace prism::launch
