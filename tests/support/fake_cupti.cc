#include "tests/support/fake_cupti.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "shim/gpu/cupti_calls.h"
#include "tests/support/drawn_times.h"

namespace prism::testing {
namespace {

namespace cupti = shim::cupti;

constexpr size_t kRecordBytes = 160;  // of all kinds
constexpr int64_t kOutlierEvery = 97;
constexpr int64_t kOutlierFactor = 4;

using ActivityRecord = std::array<uint8_t, kRecordBytes>;

struct Node {
  uint64_t id;
};

struct State {
  std::mutex mutex;
  cupti::BufferRequested* requested = nullptr;
  cupti::BufferCompleted* completed = nullptr;
  cupti::Callback* callback = nullptr;
  void* user = nullptr;
  std::set<int> enabled;
  std::vector<ActivityRecord> records;  // not delivered yet
  uint32_t next_correlation = 1;
  int64_t ops = 0;
  std::string before;
  std::deque<Node> nodes;  // never freed: the handles of nodes
  std::vector<Node*> captured;
  std::map<const void*, std::vector<Node*>> nodes_of;  // by graph and executable
};

State& Get() {
  static State* const state = new State();
  return *state;
}

thread_local std::vector<uint64_t> thread_external;
thread_local const std::vector<Node*>* thread_launch = nullptr;
thread_local size_t thread_launched = 0;  // ops of the launch so far
thread_local uint32_t thread_correlation = 0;
thread_local bool thread_spins = false;

template <typename T>
void Put(ActivityRecord* record, size_t offset, T value) {
  std::memcpy(record->data() + offset, &value, sizeof(value));
}

uint64_t Seed() {
  const char* const text = std::getenv("FAKE_GPU_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

ActivityRecord ExternalRecord(uint32_t correlation) {
  ActivityRecord record = {};
  Put(&record, 0,
      cupti::ExternalCorrelation{cupti::kExternalCorrelation, cupti::kCustomCorrelation,
                                 thread_external.back(), correlation, 0});
  return record;
}

Node* NewNodeLocked(State& state) {
  return &state.nodes.emplace_back(Node{state.nodes.size() + 1});
}

void Tell(const State& state, uint32_t id, Node* node, Node* original) {
  if (state.callback != nullptr) {
    const cupti::GraphData graph = {nullptr, nullptr, node, original};
    const cupti::ResourceData resource = {nullptr, nullptr, &graph};
    state.callback(state.user, cupti::kResourceDomain, id, &resource);
  }
}

}  // namespace

void RunDrawnOp(const std::string& op, channel::RecordKind kind) {
  thread_spins = op.find("spin_kernel") != std::string::npos;
  State& state = Get();
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (thread_external.empty() || state.enabled.empty()) {
    return;
  }
  const bool outlier = ++state.ops % kOutlierEvery == 0;
  const auto duration =
      static_cast<uint64_t>(DrawnNs(Seed(), op, state.before) * (outlier ? kOutlierFactor : 1));
  state.before = IsDrawnKernel(op) ? op : state.before;
  const bool first = thread_launch == nullptr || thread_launched == 0;
  thread_correlation = first ? state.next_correlation++ : thread_correlation;
  const bool is_copy = kind == channel::RecordKind::kMemcpy;
  const bool is_kernel = !is_copy && kind != channel::RecordKind::kMemset;
  const cupti::WorkFields fields = is_kernel ? cupti::kKernelFields : cupti::kCopyFields;
  ActivityRecord work = {};
  Put<uint32_t>(&work, 0,
                is_kernel ? cupti::kConcurrentKernel
                : is_copy ? cupti::kMemcpy
                          : cupti::kMemset);
  constexpr uint64_t kBegin = 1'000'000;
  Put(&work, cupti::kStart, kBegin);
  Put(&work, cupti::kEnd, kBegin + duration);
  Put(&work, fields.correlation, thread_correlation);
  if (thread_launch != nullptr) {
    Put(&work, fields.graph_node, (*thread_launch).at(thread_launched++)->id);
  }
  // Which of the two comes first depends on the buffers that they lie in.
  const ActivityRecord external = ExternalRecord(thread_correlation);
  const bool late = state.ops % 2 == 0;
  state.records.push_back(late ? work : external);
  state.records.push_back(late ? external : work);
}

void MakeGraphNode() {
  State& state = Get();
  Node* node = nullptr;
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    node = NewNodeLocked(state);
    state.captured.push_back(node);
  }
  Tell(state, cupti::kGraphNodeCreated, node, nullptr);
}

}  // namespace prism::testing

using prism::testing::ActivityRecord;
using prism::testing::Get;
using prism::testing::Node;
using prism::testing::State;
namespace cupti = prism::shim::cupti;

extern "C" {

void cuptiKeepNodes(const void* graph) {
  State& state = Get();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.nodes_of[graph] = std::exchange(state.captured, {});
}

void cuptiCloneNodes(const void* graph, const void* launched) {
  State& state = Get();
  std::vector<std::pair<Node*, Node*>> clones;
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    std::vector<Node*>& nodes = state.nodes_of[launched];
    nodes.clear();
    for (Node* const original : state.nodes_of[graph]) {
      nodes.push_back(prism::testing::NewNodeLocked(state));
      clones.emplace_back(nodes.back(), original);
    }
  }
  for (const auto& [node, original] : clones) {
    Tell(state, cupti::kGraphNodeCloned, node, original);
  }
}

void cuptiLaunch(const void* launched) {
  State& state = Get();
  const std::lock_guard<std::mutex> lock(state.mutex);
  prism::testing::thread_launch = launched == nullptr ? nullptr : &state.nodes_of[launched];
  prism::testing::thread_launched = 0;
}

bool cuptiLaunchedSpin() {
  return prism::testing::thread_spins;
}

uint64_t cuptiOp() {
  return prism::testing::thread_external.empty() ? 0 : prism::testing::thread_external.back();
}

void cuptiRunAs(uint64_t op) {
  prism::testing::thread_external.assign(op == 0 ? 0 : 1, op);
}

int cuptiActivityRegisterCallbacks(cupti::BufferRequested* requested,
                                   cupti::BufferCompleted* completed) {
  Get().requested = requested;
  Get().completed = completed;
  return 0;
}

int cuptiActivityEnable(int kind) {
  State& state = Get();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.enabled.insert(kind);
  return 0;
}

int cuptiSubscribe(void** subscriber, cupti::Callback* callback, void* user) {
  *subscriber = &Get();
  Get().callback = callback;
  Get().user = user;
  return 0;
}

int cuptiEnableCallback(uint32_t /*enable*/, void* /*subscriber*/, int /*domain*/, uint32_t) {
  return 0;
}

int cuptiActivityPushExternalCorrelationId(int /*kind*/, uint64_t id) {
  prism::testing::thread_external.push_back(id);
  return 0;
}

int cuptiActivityPopExternalCorrelationId(int /*kind*/, uint64_t* last) {
  *last = prism::testing::thread_external.back();
  prism::testing::thread_external.pop_back();
  return 0;
}

int cuptiGetGraphNodeId(void* node, uint64_t* id) {
  *id = static_cast<Node*>(node)->id;
  return 0;
}

int cuptiActivityFlushAll(uint32_t /*flags*/) {
  State& state = Get();
  std::vector<ActivityRecord> records;
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    records.swap(state.records);
  }
  for (size_t sent = 0; sent < records.size();) {
    uint8_t* buffer = nullptr;
    size_t size = 0;
    size_t most = 0;
    state.requested(&buffer, &size, &most);
    const size_t count = std::min(size / sizeof(ActivityRecord), records.size() - sent);
    std::memcpy(buffer, &records[sent], count * sizeof(ActivityRecord));
    sent += count;
    state.completed(nullptr, 0, buffer, size, count * sizeof(ActivityRecord));
  }
  return 0;
}

int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
  uint8_t* const next = *record == nullptr ? buffer : *record + sizeof(ActivityRecord);
  if (next >= buffer + valid) {
    return 12;  // CUPTI_ERROR_MAX_LIMIT_REACHED
  }
  *record = next;
  return 0;
}
}
