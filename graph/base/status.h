// Status and Result<T>: how a foreseeable failure travels.
//
// Bad user input, a damaged file, a missing library or a full disk are values, not exceptions; a
// broken invariant of our own is PRISM_CHECK (check.h). The code of a Status decides the exit code
// of the program (launch/exit_codes.h), the message says what, where and what to do, in lower case
// and without a full stop.
//
//   Result<Graph> graph = ReadGraph(path);
//   if (!graph.ok()) return graph.status().WithContext("while loading the graph");
//   Use(*graph);
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "graph/base/check.h"

namespace prism {

// Why something failed. Each maps to exactly one exit code.
enum class StatusCode {
  kOk = 0,
  kRunFailed = 1,        // a program crashed, ran out of memory, was killed; a disk filled mid-run
  kInvalidArgument = 2,  // the command line: unknown, contradictory or impossible
  kBadFile = 3,          // a file the user named is absent, unreadable or damaged
  kGateNotMet = 4,       // --max-error, --strict
  kEnvironment = 5,      // no GPU, library, MPI slot or writable output folder
  kInterrupted = 130,    // SIGINT
  kTerminated = 143,     // SIGTERM
};

class [[nodiscard]] Status {
 public:
  Status() = default;

  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {
    PRISM_CHECK(code != StatusCode::kOk);
  }

  [[nodiscard]] bool ok() const { return code_ == StatusCode::kOk; }

  [[nodiscard]] StatusCode code() const { return code_; }

  [[nodiscard]] const std::string& message() const { return message_; }

  // The same failure with one more line of context in front: "<context>: <message>".
  [[nodiscard]] Status WithContext(std::string_view context) const {
    if (ok()) {
      return *this;
    }
    return {code_, std::string(context) + ": " + message_};
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() {
  return {};
}

inline Status RunFailed(std::string message) {
  return {StatusCode::kRunFailed, std::move(message)};
}

inline Status InvalidArgument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}

inline Status BadFile(std::string message) {
  return {StatusCode::kBadFile, std::move(message)};
}

inline Status GateNotMet(std::string message) {
  return {StatusCode::kGateNotMet, std::move(message)};
}

inline Status EnvironmentLacks(std::string message) {
  return {StatusCode::kEnvironment, std::move(message)};
}

// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor): by design

  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    PRISM_CHECK(!status_.ok());
  }

  [[nodiscard]] bool ok() const { return value_.has_value(); }

  [[nodiscard]] const Status& status() const { return status_; }

  T& operator*() & { return Value(); }

  const T& operator*() const& { return Value(); }

  T&& operator*() && { return std::move(Value()); }

  T* operator->() { return &Value(); }

  const T* operator->() const { return &Value(); }

 private:
  T& Value() {
    PRISM_CHECK_MSG(value_.has_value(), status_.message());
    return *value_;
  }

  const T& Value() const {
    PRISM_CHECK_MSG(value_.has_value(), status_.message());
    return *value_;
  }

  Status status_;
  std::optional<T> value_;
};

}  // namespace prism

#define PRISM_CONCAT_INNER(a, b) a##b
#define PRISM_CONCAT(a, b) PRISM_CONCAT_INNER(a, b)

// Returns from the calling function when the expression is a failed Status.
#define PRISM_RETURN_IF_ERROR(expression)         \
  do {                                            \
    ::prism::Status prism_status_ = (expression); \
    if (!prism_status_.ok()) {                    \
      return prism_status_;                       \
    }                                             \
  } while (false)

// Declares or assigns `target` from a Result, or returns its Status.
#define PRISM_ASSIGN_OR_RETURN(target, expression) \
  PRISM_ASSIGN_OR_RETURN_IMPL(PRISM_CONCAT(prism_result_, __LINE__), target, expression)
#define PRISM_ASSIGN_OR_RETURN_IMPL(result, target, expression) \
  auto result = (expression);                                   \
  if (!result.ok()) {                                           \
    return result.status();                                     \
  }                                                             \
  target = *std::move(result)
