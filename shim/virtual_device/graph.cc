// Graphs created by capture (capture.h): instantiation, launch, update and queries. A launch issues
// every step on the stream of the launch, and on its own streams for those that had joined the
// capture. The host pays for a launch once: the steps after the first cost it nothing
// (Record::flags). Graphs built node by node refuse by name (generated stubs).
#include "shim/virtual_device/graph.h"

#include <cstdio>
#include <cstring>
#include <utility>

#include "shim/session.h"
#include "shim/virtual_device/device_memory.h"
#include "shim/virtual_device/runtime_state.h"

namespace prism::shim {
namespace {

struct GraphExec {
  std::shared_ptr<GraphBody> body;
  std::map<cudaStream_t, cudaStream_t> streams;
  std::map<uint32_t, uint32_t> events;
};

Graph* FromHandle(cudaGraph_t graph) {
  return reinterpret_cast<Graph*>(graph);
}

GraphExec* FromHandle(cudaGraphExec_t exec) {
  return reinterpret_cast<GraphExec*>(exec);
}

GraphStep* FromHandle(cudaGraphNode_t node) {
  return reinterpret_cast<GraphStep*>(node);
}

cudaGraphNode_t ToHandle(GraphStep* step) {
  return reinterpret_cast<cudaGraphNode_t>(step);
}

// Streams and events of a launch belong to the executable and are created if the body needs more.
void TakeBody(GraphExec* exec, std::shared_ptr<GraphBody> body) {
  exec->body = std::move(body);
  for (const auto& [captured, unused] : exec->body->streams) {
    if (cudaStream_t& stream = exec->streams[captured]; stream == nullptr) {
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    }
  }
  for (const auto& [captured, unused] : exec->body->events) {
    if (uint32_t& event = exec->events[captured]; event == 0) {
      event = NewEventId();
    }
  }
}

std::vector<GraphStep*> NodesOf(const GraphBody& body) {
  std::vector<GraphStep*> nodes;
  for (const auto& step : body.steps) {
    if (step->IsNode()) {
      nodes.push_back(step.get());
    }
  }
  return nodes;
}

bool SameTopology(const GraphBody& left, const GraphBody& right) {
  const auto left_nodes = NodesOf(left);
  const auto right_nodes = NodesOf(right);
  if (left_nodes.size() != right_nodes.size()) {
    return false;
  }
  for (size_t i = 0; i < left_nodes.size(); ++i) {
    if (left_nodes[i]->type != right_nodes[i]->type ||
        left_nodes[i]->dependencies.size() != right_nodes[i]->dependencies.size()) {
      return false;
    }
  }
  return true;
}

void RunSteps(const GraphExec& exec, cudaStream_t target) {
  const GraphRun run = {exec.body->origin, target, &exec.streams, &exec.events};
  const uint32_t context = ThreadContext();
  bool first = true;
  for (const auto& step : exec.body->steps) {
    SetThreadContext(step->context);
    SetThreadInGraph(!first);
    step->run(run);
    first = first && step->is_range;
  }
  SetThreadInGraph(false);
  SetThreadContext(context);
}

// Fills as many handles as there is room for; the rest is null, as in the runtime.
cudaError_t ListNodes(const std::vector<GraphStep*>& nodes,
                      cudaGraphNode_t* handles,
                      size_t* count) {
  if (handles == nullptr) {
    *count = nodes.size();
    return cudaSuccess;
  }
  for (size_t i = 0; i < *count; ++i) {
    handles[i] = i < nodes.size() ? ToHandle(nodes[i]) : nullptr;
  }
  *count = *count < nodes.size() ? *count : nodes.size();
  return cudaSuccess;
}

const char* TypeName(cudaGraphNodeType type) {
  switch (type) {
    case cudaGraphNodeTypeKernel:
      return "kernel";
    case cudaGraphNodeTypeMemcpy:
      return "memcpy";
    case cudaGraphNodeTypeMemset:
      return "memset";
    case cudaGraphNodeTypeHost:
      return "host";
    default:
      return "event";
  }
}

}  // namespace

cudaGraph_t ToHandle(Graph* graph) {
  return reinterpret_cast<cudaGraph_t>(graph);
}

extern "C" {

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec,
                                          cudaGraph_t graph,
                                          unsigned long long /*flags*/) {
  auto made = std::make_unique<GraphExec>();
  TakeBody(made.get(), FromHandle(graph)->body);
  *exec = reinterpret_cast<cudaGraphExec_t>(made.release());
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec,
                                 cudaGraph_t graph,
                                 unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec,
                                           cudaGraph_t graph,
                                           cudaGraphInstantiateParams* parameters) {
  parameters->errNode_out = nullptr;
  parameters->result_out = cudaGraphInstantiateSuccess;
  return cudaGraphInstantiateWithFlags(exec, graph, parameters->flags);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec,
                                cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* result) {
  const bool same = SameTopology(*FromHandle(exec)->body, *FromHandle(graph)->body);
  *result = {};
  result->result = same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
  if (!same) {
    return Return(cudaErrorGraphExecUpdateFailure);
  }
  TakeBody(FromHandle(exec), FromHandle(graph)->body);
  return cudaSuccess;
}

// A launch into a stream under capture would be a child graph.
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (IsCaptured(stream)) {
    Refuse("cudaGraphLaunch_in_capture");
    return Return(cudaErrorNotSupported);
  }
  RunSteps(*FromHandle(exec), stream);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete FromHandle(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  for (const auto& [captured, own] : FromHandle(exec)->streams) {
    cudaStreamDestroy(own);
  }
  delete FromHandle(exec);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return ListNodes(NodesOf(*FromHandle(graph)->body), nodes, count);
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = FromHandle(node)->type;
  return cudaSuccess;
}

// older_calls.cc has the other form.
decltype(cudaGraphNodeGetDependencies) cudaGraphNodeGetDependencies_v2;

cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node,
                                            cudaGraphNode_t* dependencies,
                                            cudaGraphEdgeData* edges,
                                            size_t* count) {
  if (edges != nullptr) {
    std::memset(edges, 0, *count * sizeof(*edges));
  }
  return ListNodes(FromHandle(node)->dependencies, dependencies, count);
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned int /*flags*/) {
  FILE* const file = std::fopen(path, "we");
  if (file == nullptr) {
    return Return(cudaErrorOperatingSystem);
  }
  std::map<GraphStep*, size_t> numbers;
  std::fprintf(file, "digraph {\n");
  for (GraphStep* node : NodesOf(*FromHandle(graph)->body)) {
    const size_t number = numbers.emplace(node, numbers.size()).first->second;
    std::fprintf(file, "  n%zu [label=\"%s\"];\n", number, TypeName(node->type));
    for (GraphStep* before : node->dependencies) {
      std::fprintf(file, "  n%zu -> n%zu;\n", numbers.at(before), number);
    }
  }
  std::fprintf(file, "}\n");
  return std::fclose(file) == 0 ? cudaSuccess : Return(cudaErrorOperatingSystem);
}
}  // extern "C"
}  // namespace prism::shim
