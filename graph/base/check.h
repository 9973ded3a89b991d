// PRISM_CHECK: an invariant of our own code. On in every build; a violation prints file, line,
// expression and operands, and aborts. Never reachable from user input (that is Status).
// PRISM_DCHECK is the same for hot loops: only in debug and sanitizer builds.
#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace prism::internal {

// Prints the failure to stderr and aborts. Defined in check.cc.
[[noreturn]] void CheckFailed(const char* file,
                              int line,
                              const char* expression,
                              std::string_view detail);

template <typename A, typename B>
std::string Operands(const A& left, const B& right) {
  std::ostringstream out;
  out << left << " against " << right;
  return out.str();
}

}  // namespace prism::internal

#define PRISM_CHECK(condition)                                            \
  do {                                                                    \
    if (!(condition)) [[unlikely]] {                                      \
      ::prism::internal::CheckFailed(__FILE__, __LINE__, #condition, {}); \
    }                                                                     \
  } while (false)

#define PRISM_CHECK_MSG(condition, detail)                                      \
  do {                                                                          \
    if (!(condition)) [[unlikely]] {                                            \
      ::prism::internal::CheckFailed(__FILE__, __LINE__, #condition, (detail)); \
    }                                                                           \
  } while (false)

#define PRISM_CHECK_OP(op, left, right) \
  PRISM_CHECK_MSG((left)op(right), ::prism::internal::Operands((left), (right)))
#define PRISM_CHECK_EQ(left, right) PRISM_CHECK_OP(==, left, right)
#define PRISM_CHECK_NE(left, right) PRISM_CHECK_OP(!=, left, right)
#define PRISM_CHECK_LT(left, right) PRISM_CHECK_OP(<, left, right)
#define PRISM_CHECK_LE(left, right) PRISM_CHECK_OP(<=, left, right)
#define PRISM_CHECK_GE(left, right) PRISM_CHECK_OP(>=, left, right)

#ifdef NDEBUG
#define PRISM_DCHECK(condition) \
  do {                          \
  } while (false)
#else
#define PRISM_DCHECK(condition) PRISM_CHECK(condition)
#endif
