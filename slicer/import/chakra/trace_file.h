// Chakra execution traces (.et) as plain values: nodes with the few attributes that say when they
// run and what they move. The generated protobuf types stay inside trace_file.cc
// and trace_json.cc.
//
// Attributes, by the names that Chakra's converters and ASTRA-sim use: is_cpu_op, stream, num_ops,
// tensor_size, comm_type, comm_size, comm_src, comm_dst, comm_tag, pg_name, involved_dim. comm_size
// means what it means in ASTRA-sim: for an all_gather the part of one rank, else the whole buffer.
// Our own attributes, which other tools ignore: duration_ns (durations are whole microseconds
// there), dtype, reduce_op, root, pg_desc (the communicator's name).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"
#include "graph/program/op.h"

namespace prism::slicer {

enum class ChakraType : uint8_t {
  kInvalid,
  kMetadata,
  kMemoryLoad,
  kMemoryStore,
  kCompute,
  kSend,
  kReceive,
  kCollective,
};

enum class ChakraCollective : uint8_t {
  kAllReduce,
  kReduce,
  kAllGather,
  kGather,
  kScatter,
  kBroadcast,
  kAllToAll,
  kReduceScatter,
  kReduceScatterBlock,
  kBarrier,
};

// By ChakraCollective.
inline constexpr graph::CollectiveKind kChakraKinds[] = {
    graph::CollectiveKind::kAllReduce,     graph::CollectiveKind::kReduce,
    graph::CollectiveKind::kAllGather,     graph::CollectiveKind::kGather,
    graph::CollectiveKind::kScatter,       graph::CollectiveKind::kBroadcast,
    graph::CollectiveKind::kAllToAll,      graph::CollectiveKind::kReduceScatter,
    graph::CollectiveKind::kReduceScatter, graph::CollectiveKind::kAllReduce,
};

// The framework op of kernels that stand for nodes of a CPU: an export makes them such nodes again.
inline constexpr std::string_view kChakraCpuOp = "chakra::cpu";

struct ChakraNode {
  uint64_t id = 0;
  std::string name;
  ChakraType type = ChakraType::kInvalid;
  std::vector<uint64_t> control_deps;
  std::vector<uint64_t> data_deps;
  uint64_t duration_us = 0;
  std::string input_values;
  bool on_cpu = false;
  std::optional<int64_t> duration_ns;
  std::optional<int64_t> stream;
  double operations = 0;    // num_ops
  double tensor_bytes = 0;  // tensor_size
  int64_t collective = 0;   // a ChakraCollective, if the file is valid
  std::optional<int64_t> bytes;
  std::optional<int64_t> source;
  std::optional<int64_t> destination;
  int64_t tag = 0;
  std::string group;        // pg_name
  std::string group_label;  // pg_desc
  std::vector<bool> involved_dims;
  int64_t dtype = 0;   // a DataType
  int64_t reduce = 0;  // a graph::ReduceOp
  int64_t root = -1;
};

// Calls `take` for every node in the order of the file. kBadFile: "<file>: byte <n>: ...".
Status ReadChakraTrace(std::string_view bytes,
                       const std::string& file,
                       const std::function<Status(const ChakraNode&)>& take);

// What goes before all nodes.
void AppendChakraHead(std::string* bytes);
void AppendChakraNode(const ChakraNode& node, std::string* bytes);

}  // namespace prism::slicer
