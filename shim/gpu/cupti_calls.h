// The part of CUPTI that kernel_times.cc calls, since its headers are in no package that the build
// needs. Numbers and offsets are those of its headers since CUDA 12.0, whose records grow at the
// end.
#pragma once

#include <cstddef>
#include <cstdint>

namespace prism::shim::cupti {

enum ActivityKind : int {
  kMemcpy = 1,
  kMemset = 2,
  kDriver = 4,
  kRuntime = 5,
  kConcurrentKernel = 10,
  kExternalCorrelation = 39,
};

inline constexpr int kCustomCorrelation = 3;       // CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0
inline constexpr int kResourceDomain = 3;          // CUPTI_CB_DOMAIN_RESOURCE
inline constexpr uint32_t kGraphNodeCreated = 13;  // CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED
inline constexpr uint32_t kGraphNodeCloned = 20;   // CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED

// CUpti_ActivityKernel9, _Memcpy5, _Memset4: where their fields are.
struct WorkFields {
  size_t correlation;
  size_t graph_node;
};
inline constexpr size_t kStart = 16;
inline constexpr size_t kEnd = 24;
inline constexpr WorkFields kKernelFields = {92, 144};
inline constexpr WorkFields kCopyFields = {44, 64};

struct ExternalCorrelation {  // CUpti_ActivityExternalCorrelation
  uint32_t activity_kind;
  uint32_t kind;
  uint64_t external_id;
  uint32_t correlation;
  uint32_t reserved;
};

struct GraphData {  // CUpti_GraphData
  void* graph;
  void* original_graph;
  void* node;
  void* original_node;
};

struct ResourceData {  // CUpti_ResourceData
  void* context;
  void* handle;
  const GraphData* descriptor;
};

using BufferRequested = void(uint8_t** buffer, size_t* size, size_t* max_records);
using BufferCompleted = void(void* context, uint32_t stream, uint8_t* buffer, size_t, size_t valid);
using Callback = void(void* user, int domain, uint32_t id, const void* data);

// CUPTI's functions; 0 is success.
struct Calls {
  int (*cuptiActivityRegisterCallbacks)(BufferRequested*, BufferCompleted*);
  int (*cuptiActivityEnable)(int kind);
  int (*cuptiActivityFlushAll)(uint32_t flags);
  int (*cuptiActivityGetNextRecord)(uint8_t* buffer, size_t valid, uint8_t** record);
  int (*cuptiActivityPushExternalCorrelationId)(int kind, uint64_t id);
  int (*cuptiActivityPopExternalCorrelationId)(int kind, uint64_t* last);
  int (*cuptiSubscribe)(void** subscriber, Callback*, void* user);
  int (*cuptiEnableCallback)(uint32_t enable, void* subscriber, int domain, uint32_t id);
  int (*cuptiGetGraphNodeId)(void* node, uint64_t* id);
};

}  // namespace prism::shim::cupti
