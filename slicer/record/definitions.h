// The names and payloads that a sandbox process has defined so far (kDefine records of
// shim/channel/messages.h), by table and id. Grows only; id 0 means none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/program/signature.h"
#include "shim/channel/messages.h"

namespace prism::slicer {

// A framework op with the shapes of its tensor arguments.
struct FrameworkContext {
  std::string op;
  std::vector<graph::TensorShape> inputs;
};

class Definitions {
 public:
  // Fails on a payload that does not match its table's layout, on an unknown table, and on id 0.
  Status Add(const channel::DefineBody& define, std::span<const std::byte> payload);

  // Empty for id 0; fails for an id that was never defined.
  [[nodiscard]] Result<std::string> Name(channel::Table table, uint32_t id) const;

  // All of that table, by id.
  [[nodiscard]] std::vector<std::string> Names(channel::Table table) const;

  // Nameless and without inputs for id 0; fails for an id that was never defined.
  [[nodiscard]] Result<FrameworkContext> Context(uint32_t id) const;

 private:
  std::map<channel::Table, std::map<uint32_t, std::string>> names_;
  std::map<uint32_t, FrameworkContext> contexts_;
};

// In the words of graph/describe.h.
std::string DescribeContext(const FrameworkContext& context);

}  // namespace prism::slicer
