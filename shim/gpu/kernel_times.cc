#include "shim/gpu/kernel_times.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shim/clock/host_meter.h"
#include "shim/gpu/cupti_calls.h"
#include "shim/gpu/real_library.h"
#include "shim/issued_ops.h"
#include "shim/session.h"

namespace prism::shim {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20U;
constexpr int64_t kFlushPeriodNs = 20'000'000;

// A kernel, copy or memset of the GPU.
struct Work {
  uint32_t correlation = 0;
  uint64_t graph_node = 0;
  int64_t duration_ns = 0;
};

template <typename T>
T FieldAt(const uint8_t* record, size_t offset) {
  T value;
  memcpy(&value, record + offset, sizeof(value));
  return value;
}

Work WorkOf(const uint8_t* record, const cupti::WorkFields& fields) {
  return {FieldAt<uint32_t>(record, fields.correlation),
          FieldAt<uint64_t>(record, fields.graph_node),
          static_cast<int64_t>(FieldAt<uint64_t>(record, cupti::kEnd) -
                               FieldAt<uint64_t>(record, cupti::kStart))};
}

thread_local bool thread_is_timed = false;
thread_local bool thread_may_wait = false;
thread_local IssuedOps thread_captures;  // while its call is made

class KernelTimes {
 public:
  static KernelTimes& Get() {
    static KernelTimes* const times = new KernelTimes();  // CUPTI's threads never end
    return *times;
  }

  void Begin(const IssuedOps& issued) {
    if (!works_) {
      return;
    }
    if (issued.captured) {
      thread_captures = issued;
      return;
    }
    thread_is_timed = calls_.cuptiActivityPushExternalCorrelationId(cupti::kCustomCorrelation,
                                                                    issued.first + 1) == 0;
  }

  void End() {
    uint64_t last = 0;
    calls_.cuptiActivityPopExternalCorrelationId(cupti::kCustomCorrelation, &last);
    thread_is_timed = false;
  }

 private:
  KernelTimes() { works_ = Start(); }

  template <typename Function>
  bool Find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(LookForReal(name));
    return *function != nullptr || Fail(name, -1);
  }

  static bool Fail(const char* call, int code) {
    Count("kernels_not_timed:" + std::string(call) + " " + std::to_string(code));
    return false;
  }

  static bool Check(const char* call, int code) { return code == 0 || Fail(call, code); }

  bool FindCalls() {
#define PRISM_FIND_CUPTI(name) Find(#name, &calls_.name)
    return PRISM_FIND_CUPTI(cuptiActivityRegisterCallbacks) &&
           PRISM_FIND_CUPTI(cuptiActivityEnable) && PRISM_FIND_CUPTI(cuptiActivityFlushAll) &&
           PRISM_FIND_CUPTI(cuptiActivityGetNextRecord) &&
           PRISM_FIND_CUPTI(cuptiActivityPushExternalCorrelationId) &&
           PRISM_FIND_CUPTI(cuptiActivityPopExternalCorrelationId) &&
           PRISM_FIND_CUPTI(cuptiSubscribe) && PRISM_FIND_CUPTI(cuptiEnableCallback) &&
           PRISM_FIND_CUPTI(cuptiGetGraphNodeId);
#undef PRISM_FIND_CUPTI
  }

  bool Start() {
    const WithinReal within;
    void* subscriber = nullptr;
    if (!FindCalls() ||
        !Check("cuptiSubscribe", calls_.cuptiSubscribe(&subscriber, &SeeResource, this)) ||
        !Check("cuptiActivityRegisterCallbacks",
               calls_.cuptiActivityRegisterCallbacks(&GiveBuffer, &TakeBuffer))) {
      return false;
    }
    for (const uint32_t id : {cupti::kGraphNodeCreated, cupti::kGraphNodeCloned}) {
      if (!Check("cuptiEnableCallback",
                 calls_.cuptiEnableCallback(1, subscriber, cupti::kResourceDomain, id))) {
        return false;
      }
    }
    for (const int kind : {cupti::kExternalCorrelation, cupti::kRuntime, cupti::kDriver,
                           cupti::kMemcpy, cupti::kMemset, cupti::kConcurrentKernel}) {
      if (!Check("cuptiActivityEnable", calls_.cuptiActivityEnable(kind))) {
        return false;
      }
    }
    atexit(&FlushAtExit);  // before the session's end, which was registered first
    std::thread(&KernelTimes::Flush, this).detach();
    return true;
  }

  void Flush() {
    pthread_setname_np(pthread_self(), "prism times");
    const WithinReal within;
    while (true) {
      const timespec nap = {.tv_sec = 0, .tv_nsec = kFlushPeriodNs};
      syscall(SYS_nanosleep, &nap, nullptr);
      calls_.cuptiActivityFlushAll(0);
    }
  }

  static void FlushAtExit() {
    const WithinReal within;
    Get().calls_.cuptiActivityFlushAll(1);
    const std::lock_guard<std::mutex> lock(Get().mutex_);  // what the thread was reading is sent
  }

  static void GiveBuffer(uint8_t** buffer, size_t* size, size_t* max_records) {
    *buffer = static_cast<uint8_t*>(aligned_alloc(8, kBufferBytes));
    *size = *buffer == nullptr ? 0 : kBufferBytes;
    *max_records = 0;  // as many as fit
  }

  static void TakeBuffer(
      void* /*context*/, uint32_t /*stream*/, uint8_t* buffer, size_t /*size*/, size_t valid) {
    Get().Read(buffer, valid);
    free(buffer);
  }

  void Read(uint8_t* buffer, size_t valid) {
    const std::lock_guard<std::mutex> lock(mutex_);
    uint8_t* record = nullptr;
    while (calls_.cuptiActivityGetNextRecord(buffer, valid, &record) == 0) {
      switch (FieldAt<uint32_t>(record, 0)) {
        case cupti::kExternalCorrelation: {
          const auto external = FieldAt<cupti::ExternalCorrelation>(record, 0);
          if (external.kind == cupti::kCustomCorrelation) {
            op_of_[external.correlation] = external.external_id - 1;
          }
          break;
        }
        case cupti::kConcurrentKernel:
          works_seen_.push_back(WorkOf(record, cupti::kKernelFields));
          break;
        case cupti::kMemcpy:
        case cupti::kMemset:
          works_seen_.push_back(WorkOf(record, cupti::kCopyFields));
          break;
        default:
          break;
      }
    }
    std::erase_if(works_seen_, [this](const Work& work) { return SendLocked(work); });
    // The rest is of no op, or its call's record comes in a later buffer.
    constexpr size_t kMostUnknown = 1U << 16U;
    if (works_seen_.size() > kMostUnknown) {
      works_seen_.erase(works_seen_.begin(), works_seen_.end() - kMostUnknown / 2);
    }
  }

  bool SendLocked(const Work& work) {
    const auto op = op_of_.find(work.correlation);
    if (op == op_of_.end()) {
      return false;
    }
    uint64_t number = op->second;
    if (work.graph_node != 0) {
      const std::lock_guard<std::mutex> lock(nodes_mutex_);
      const auto node = captured_.find(work.graph_node);
      if (node == captured_.end()) {
        return true;  // of a hold
      }
      number += node->second;
    }
    channel::Record record = {};
    record.kind = channel::RecordKind::kDuration;
    record.duration = {number, work.duration_ns};
    Emit(record);
    return true;
  }

  static void SeeResource(void* user, int domain, uint32_t id, const void* data) {
    if (domain == cupti::kResourceDomain) {
      static_cast<KernelTimes*>(user)->SeeNode(
          id, *static_cast<const cupti::ResourceData*>(data)->descriptor);
    }
  }

  void SeeNode(uint32_t id, const cupti::GraphData& graph) {
    uint64_t node = 0;
    uint64_t original = 0;
    calls_.cuptiGetGraphNodeId(graph.node, &node);
    const std::lock_guard<std::mutex> lock(nodes_mutex_);
    if (id == cupti::kGraphNodeCreated && thread_captures.captured) {
      captured_[node] = thread_captures.first;
    } else if (id == cupti::kGraphNodeCloned &&
               calls_.cuptiGetGraphNodeId(graph.original_node, &original) == 0) {
      if (const auto found = captured_.find(original); found != captured_.end()) {
        captured_[node] = found->second;
      }
    }
  }

  cupti::Calls calls_ = {};
  bool works_ = false;
  std::mutex mutex_;
  std::unordered_map<uint32_t, uint64_t> op_of_;     // by correlation: the first of the call's ops
  std::vector<Work> works_seen_;                     // whose op is not known yet
  std::mutex nodes_mutex_;                           // taken after mutex_
  std::unordered_map<uint64_t, uint64_t> captured_;  // by node: which of its capture's ops
};

}  // namespace

void BeginTimedCall() {
  const IssuedOps issued = TakeIssuedOps();
  if (issued.may_wait) {
    EnterShim();
    thread_may_wait = true;
  }
  if (issued.count > 0) {
    KernelTimes::Get().Begin(issued);
  }
}

void EndTimedCall() {
  if (std::exchange(thread_may_wait, false)) {
    LeaveShim();
  }
  if (thread_is_timed) {
    KernelTimes::Get().End();
  }
  thread_captures = {};
}

}  // namespace prism::shim
