// How a call of the program reaches both devices: the virtual one, which records it (twins.h), and
// the real one, whose result the program gets. One macro per call says which way:
//
//   PRISM_RECORD(name)   work and waits: recorded, then done
//   PRISM_CREATE(name)   what makes objects: done, then made on the virtual device and paired
//   PRISM_DESTROY(name)  what destroys one, its first argument
//   PRISM_INTERCEPT(name, function)
//                        by a function of ours, which calls PRISM_REAL(name) and CallTwin
//
// All other calls go straight to the real library (pass.S).
#pragma once

#include <atomic>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shim/gpu/last_calls.h"
#include "shim/gpu/real_library.h"
#include "shim/gpu/real_memory.h"
#include "shim/gpu/twins.h"
#include "shim/session.h"

namespace prism::shim {

template <typename Call, typename Function>
Function* RealOf() {
  static std::atomic<void*> found{nullptr};
  return reinterpret_cast<Function*>(FindRealOnce(Call::kName, &found));
}

template <typename Call, typename Function>
struct Real;
template <typename Call, typename Result, typename... Arguments>
struct Real<Call, Result(Arguments...)> {
  static Result Make(Arguments... arguments) {
    const WithinReal within;
    const uint64_t number = NoteCall(Call::kName);
    if constexpr (std::is_enum_v<Result>) {
      const Result result = RealOf<Call, Result(Arguments...)>()(arguments...);
      NoteCode(number, Call::kName, static_cast<int64_t>(result));
      return result;
    } else {
      return RealOf<Call, Result(Arguments...)>()(arguments...);
    }
  }
};

// Makes the call on the virtual device, if its handles have twins there.
template <typename Function, typename... Arguments>
void CallTwin(Function* twin, Arguments... arguments) {
  if ((IsUsable(arguments) && ...)) {
    twin(arguments...);
  } else {
    Count("calls_on_unknown_handles");
  }
}

template <typename Call, typename Function>
struct Recorded;
template <typename Call, typename Result, typename... Arguments>
struct Recorded<Call, Result(Arguments...)> {
  static Result Make(Arguments... arguments) {
    if (!WithinReal::Is()) {
      CallTwin(Call::kTwin, TwinOf(arguments)...);
    }
    return Real<Call, Result(Arguments...)>::Make(arguments...);
  }
};

// An argument of a call that creates objects: the virtual call writes its handle to a separate
// place, and in the end the two handles are paired.
template <typename Argument>
class Place {
 public:
  explicit Place(Argument given) : given_(given) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    if constexpr (kMakes) {
      PairHandles(*given_, twin_);
    }
  }
  Argument argument() {
    if constexpr (kMakes) {
      return &twin_;
    } else {
      return TwinOf(given_);
    }
  }

 private:
  using Pointee = std::remove_pointer_t<Argument>;
  static constexpr bool kMakes = std::is_pointer_v<Argument> && kHasTwin<Pointee>;

  Argument given_;
  std::conditional_t<kMakes, Pointee, char> twin_ = {};
};

template <typename Call, typename Function>
struct Created;
template <typename Call, typename Result, typename... Arguments>
struct Created<Call, Result(Arguments...)> {
  static Result Make(Arguments... arguments) {
    const bool within = WithinReal::Is();
    const Result result = Real<Call, Result(Arguments...)>::Make(arguments...);
    if (!within && result == Result{}) {
      Tell(Place<Arguments>(arguments)...);
    }
    return result;
  }
  static void Tell(Place<Arguments>&&... places) { CallTwin(Call::kTwin, places.argument()...); }
};

template <typename Call, typename Function>
struct Destroyed;
template <typename Call, typename Result, typename Handle>
struct Destroyed<Call, Result(Handle)> {
  static Result Make(Handle handle) {
    if (!WithinReal::Is() && handle != nullptr && FindTwin(handle) != nullptr) {
      Call::kTwin(TwinOf(handle));
      UnpairHandle(handle);
    }
    return Real<Call, Result(Handle)>::Make(handle);
  }
};

}  // namespace prism::shim

// The headers define some calls as macros for a versioned name, so names are expanded before they
// are concatenated.

// The virtual device's function.
#define PRISM_TWIN_OF(name) PRISM_TWIN_OF_NAMED(name)
#define PRISM_TWIN_OF_NAMED(name) prism_twin_##name
#define PRISM_TWIN(name) PRISM_TWIN_NAMED(name, decltype(name))
#define PRISM_TWIN_NAMED(name, ...) \
  extern "C" __attribute__((visibility("hidden"))) __VA_ARGS__ prism_twin_##name

#define PRISM_CALL_NAMED(name, ...)                               \
  namespace prism::shim::calls {                                  \
  using Function_##name = __VA_ARGS__;                            \
  }                                                               \
  PRISM_TWIN_NAMED(name, prism::shim::calls::Function_##name);    \
  namespace prism::shim::calls {                                  \
  struct Call_##name {                                            \
    static constexpr const char* kName = #name;                   \
    static constexpr Function_##name* kTwin = &prism_twin_##name; \
  };                                                              \
  }

// The exported symbol: a jump through a pointer of the call's own type.
#define PRISM_EXPORT_NAMED(name, function)                                                \
  extern "C" __attribute__((                                                              \
      visibility("hidden"))) prism::shim::calls::Function_##name* const prism_see_##name; \
  prism::shim::calls::Function_##name* const prism_see_##name = function;                 \
  asm(".text\n.globl " #name "\n.type " #name ", @function\n" #name                       \
      ":\n  endbr64\n  jmp *prism_see_" #name "(%rip)\n.size " #name ", . - " #name "\n")

#define PRISM_FORWARD_NAMED(name, Way, ...) \
  PRISM_CALL_NAMED(name, __VA_ARGS__)       \
  PRISM_EXPORT_NAMED(name, (&prism::shim::Way<prism::shim::calls::Call_##name, __VA_ARGS__>::Make))

#define PRISM_RECORD(name) PRISM_FORWARD_NAMED(name, Recorded, decltype(name))
#define PRISM_CREATE(name) PRISM_FORWARD_NAMED(name, Created, decltype(name))
#define PRISM_DESTROY(name) PRISM_FORWARD_NAMED(name, Destroyed, decltype(name))

// `function` is declared after PRISM_CALL(name).
#define PRISM_CALL(name) PRISM_CALL_NAMED(name, decltype(name))
#define PRISM_INTERCEPT(name, function) PRISM_EXPORT_NAMED(name, function)
#define PRISM_REAL(name) PRISM_REAL_NAMED(name)
#define PRISM_REAL_NAMED(name) \
  prism::shim::Real<prism::shim::calls::Call_##name, prism::shim::calls::Function_##name>::Make
