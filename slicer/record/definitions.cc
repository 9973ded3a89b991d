#include "slicer/record/definitions.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "graph/describe.h"

namespace prism::slicer {

namespace {

using channel::ContextHeader;
using channel::Table;

// Reads fixed-size values from the front of a payload; every step checks what is left.
class PayloadReader {
 public:
  explicit PayloadReader(std::span<const std::byte> payload) : rest_(payload) {}

  template <typename T>
  bool Read(T* value) {
    if (rest_.size() < sizeof(T)) {
      return false;
    }
    std::memcpy(value, rest_.data(), sizeof(T));
    rest_ = rest_.subspan(sizeof(T));
    return true;
  }

  bool ReadText(size_t bytes, std::string* text) {
    if (rest_.size() < bytes) {
      return false;
    }
    text->resize(bytes);
    if (bytes > 0) {
      std::memcpy(text->data(), rest_.data(), bytes);
    }
    rest_ = rest_.subspan(bytes);
    return true;
  }

 private:
  std::span<const std::byte> rest_;
};

bool ParseTensor(PayloadReader* reader, graph::TensorShape* shape) {
  uint8_t dtype = 0;
  uint8_t dimensions = 0;
  if (!reader->Read(&dtype) || !reader->Read(&dimensions) ||
      dtype > static_cast<uint8_t>(DataType::kFloat64)) {
    return false;
  }
  shape->dtype = static_cast<DataType>(dtype);
  shape->dims.resize(dimensions);
  for (int64_t& dim : shape->dims) {
    if (!reader->Read(&dim)) {
      return false;
    }
  }
  return true;
}

bool ParseContext(std::span<const std::byte> payload, FrameworkContext* context) {
  PayloadReader reader(payload);
  ContextHeader header = {};
  if (!reader.Read(&header) || !reader.ReadText(header.name_bytes, &context->op)) {
    return false;
  }
  context->inputs.resize(header.tensor_count);
  for (graph::TensorShape& shape : context->inputs) {
    if (!ParseTensor(&reader, &shape)) {
      return false;
    }
  }
  return true;
}

}  // namespace

Status Definitions::Add(const channel::DefineBody& define, std::span<const std::byte> payload) {
  if (define.id == 0 || payload.size() < define.payload_bytes) {
    return RunFailed(fmt::format("the shim's stream is damaged: definition {} of {} bytes with {}",
                                 define.id, define.payload_bytes, payload.size()));
  }
  payload = payload.first(define.payload_bytes);
  if (define.table == Table::kContext) {
    FrameworkContext context;
    if (!ParseContext(payload, &context)) {
      return RunFailed(fmt::format("the shim's stream is damaged: framework op {}", define.id));
    }
    contexts_[define.id] = std::move(context);
    return OkStatus();
  }
  if (define.table < Table::kKernelName || define.table > Table::kFramework) {
    return RunFailed(fmt::format("the shim's stream is damaged: definition in unknown table {}",
                                 static_cast<int>(define.table)));
  }
  std::string text;
  PayloadReader(payload).ReadText(payload.size(), &text);
  names_[define.table][define.id] = std::move(text);
  return OkStatus();
}

Result<std::string> Definitions::Name(Table table, uint32_t id) const {
  if (id == 0) {
    return std::string();
  }
  const auto names = names_.find(table);
  if (names != names_.end()) {
    const auto name = names->second.find(id);
    if (name != names->second.end()) {
      return name->second;
    }
  }
  return RunFailed(fmt::format("the shim's stream is damaged: name {} of table {} was not defined",
                               id, static_cast<int>(table)));
}

std::vector<std::string> Definitions::Names(Table table) const {
  std::vector<std::string> all;
  if (const auto names = names_.find(table); names != names_.end()) {
    for (const auto& [id, name] : names->second) {
      all.push_back(name);
    }
  }
  return all;
}

Result<FrameworkContext> Definitions::Context(uint32_t id) const {
  if (id == 0) {
    return FrameworkContext();
  }
  const auto context = contexts_.find(id);
  if (context == contexts_.end()) {
    return RunFailed(
        fmt::format("the shim's stream is damaged: framework op {} was not defined", id));
  }
  return context->second;
}

std::string DescribeContext(const FrameworkContext& context) {
  return graph::DescribeFrameworkOp(context.op, context.inputs);
}

}  // namespace prism::slicer
