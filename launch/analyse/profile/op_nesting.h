// Where the host was at a time: the innermost op and the functions of Python around it, by the
// nesting of a profile's ranges on each thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/time.h"
#include "slicer/import/kineto/trace_file.h"

namespace prism::launch {

class OpNesting {
 public:
  // `ops` as in a trace; must outlive this.
  explicit OpNesting(const std::deque<slicer::KinetoOp>& ops);

  // What ops inside each one take, by op; 0 for functions.
  [[nodiscard]] std::vector<DurationNs> InnerTimes() const;

  // Goes through the threads in time.
  class Cursor {
   public:
    explicit Cursor(const OpNesting& nesting) : nesting_(&nesting) {}

    // Times of one thread must not decrease from call to call.
    void MoveTo(int64_t thread, TimeNs time);

    // The innermost op there; "" none.
    [[nodiscard]] std::string Op() const;
    // "b.py(3): g < a.py(1): f": the innermost functions, at most 16; "" none.
    [[nodiscard]] std::string Stack() const;

   private:
    struct Thread {
      size_t next = 0;  // position in the order
      std::vector<uint32_t> ops = {};
      std::vector<uint32_t> functions = {};
    };

    const OpNesting* nesting_;
    std::map<int64_t, Thread> threads_;
    const Thread* at_ = nullptr;
  };

 private:
  const std::deque<slicer::KinetoOp>& ops_;
  std::vector<uint32_t> order_;                         // by thread and begin, the longest first
  std::map<int64_t, std::pair<size_t, size_t>> spans_;  // of threads in the order
};

}  // namespace prism::launch
