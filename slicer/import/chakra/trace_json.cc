// Attributes are in a list of names and values, of which the key says the type ("int64Val"), or
// keys of the node itself. Protobuf prints 64 bits as text.
#include "slicer/import/chakra/trace_json.h"

#include <algorithm>
#include <istream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/base/lower_case.h"
#include "graph/base/parse_number.h"

namespace prism::slicer {
namespace {

using Json = nlohmann::json;

// "data_deps", "dataDeps" and "DataDeps" are one.
std::string PlainKey(std::string_view key) {
  std::string text = LowerCase(key);
  std::erase(text, '_');
  return text;
}

bool ReadInteger(const Json& value, int64_t* number) {
  if (value.is_number_integer() || value.is_boolean()) {
    *number = value.get<int64_t>();
    return true;
  }
  return value.is_string() && ParseNumber(value.get_ref<const std::string&>(), number);
}

// 0 for all else.
uint64_t UnsignedOf(const Json& value) {
  int64_t number = 0;
  return ReadInteger(value, &number) ? static_cast<uint64_t>(std::max<int64_t>(number, 0)) : 0;
}

chakra::NodeType TypeOf(const Json& value) {
  chakra::NodeType type = chakra::INVALID_NODE;
  if (!value.is_string() || !chakra::NodeType_Parse(value.get<std::string>(), &type)) {
    const uint64_t number = UnsignedOf(value);
    type = number <= chakra::COMM_COLL_NODE ? static_cast<chakra::NodeType>(number)
                                            : chakra::INVALID_NODE;
  }
  return type;
}

void AddAttribute(const std::string& name, const Json& value, chakra::Node* node) {
  chakra::Attribute attribute;
  attribute.set_name(name);
  const Json& list = value.is_object() && value.contains("values") ? value["values"] : value;
  if (int64_t number = 0; value.is_boolean()) {
    attribute.set_bool_val(value.get<bool>());
  } else if (ReadInteger(value, &number)) {
    attribute.set_int64_val(number);
  } else if (value.is_string()) {
    attribute.set_string_val(value.get<std::string>());
  } else if (list.is_array()) {
    for (const Json& entry : list) {
      attribute.mutable_bool_list()->add_values(entry.is_boolean() && entry.get<bool>());
    }
  } else {
    return;
  }
  *node->add_attr() = std::move(attribute);
}

void AddListed(const Json& attributes, chakra::Node* node) {
  for (const Json& attribute : attributes) {
    if (!attribute.is_object() || !attribute.contains("name") || !attribute["name"].is_string()) {
      continue;
    }
    for (const auto& [key, value] : attribute.items()) {
      if (key != "name" && !key.starts_with("doc")) {
        AddAttribute(attribute["name"].get<std::string>(), value, node);
      }
    }
  }
}

chakra::Node NodeOf(const Json& object) {
  chakra::Node node;
  for (const auto& [key, value] : object.items()) {
    const std::string name = PlainKey(key);
    if (name == "id") {
      node.set_id(UnsignedOf(value));
    } else if (name == "name" && value.is_string()) {
      node.set_name(value.get<std::string>());
    } else if (name == "type" || name == "nodetype") {
      node.set_type(TypeOf(value));
    } else if (name == "durationmicros" || name == "runtime") {
      node.set_duration_micros(UnsignedOf(value));
    } else if (name == "datadeps" || name == "ctrldeps") {
      for (const Json& dep : value) {
        name == "datadeps" ? node.add_data_deps(UnsignedOf(dep))
                           : node.add_ctrl_deps(UnsignedOf(dep));
      }
    } else if (name == "inputs" && value.is_object() && value.contains("values") &&
               value["values"].is_string()) {
      node.mutable_inputs()->set_values(value["values"].get<std::string>());
    } else if (name == "attr" || name == "attrs") {
      AddListed(value, &node);
    } else {
      AddAttribute(key, value, &node);
    }
  }
  return node;
}

// The list of nodes in one object or list; null: the value is a message by itself.
const Json* ListOf(const Json& value) {
  for (const char* const key : {"workload_graph", "nodes"}) {
    if (value.is_object() && value.contains(key) && value[key].is_array()) {
      return &value[key];
    }
  }
  return value.is_array() ? &value : nullptr;
}

bool HasId(const Json& value) {
  return value.is_object() && (value.contains("id") || value.contains("Id"));
}

// Protobuf leaves out what is 0, the first node's id, too.
bool IsMetadata(const Json& value) {
  return value.is_object() && !HasId(value) &&
         (value.empty() || value.contains("version") || value.contains("schema"));
}

Status TakeValue(const Json& value,
                 bool is_first,
                 const std::string& file,
                 const std::function<Status(const chakra::Node&)>& take) {
  if (const Json* const list = ListOf(value); list != nullptr) {
    for (const Json& node : *list) {
      PRISM_RETURN_IF_ERROR(TakeValue(node, false, file, take));
    }
    return OkStatus();
  }
  if (is_first && IsMetadata(value)) {
    return OkStatus();
  }
  return value.is_object() && (HasId(value) || value.contains("name"))
             ? take(NodeOf(value))
             : BadFile(fmt::format("{}: has a node that is no object with a name or an id", file));
}

}  // namespace

bool IsChakraJson(std::string_view bytes) {
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  const size_t next = bytes.find_first_not_of(" \t\r\n", first + 1);
  return first != std::string_view::npos && next != std::string_view::npos &&
         ((bytes[first] == '{' && (bytes[next] == '"' || bytes[next] == '}')) ||
          (bytes[first] == '[' && bytes[next] == '{'));
}

Status ReadChakraJson(std::string_view bytes,
                      const std::string& file,
                      const std::function<Status(const chakra::Node&)>& take) {
  std::istringstream in{std::string(bytes)};
  bool is_first = true;
  try {
    while (!(in >> std::ws).eof()) {
      Json value;
      in >> value;
      PRISM_RETURN_IF_ERROR(TakeValue(value, is_first, file, take));
      is_first = false;
    }
  } catch (const Json::exception& error) {
    return BadFile(fmt::format("{}: no execution trace of Chakra as JSON: {}", file, error.what()));
  }
  return OkStatus();
}

}  // namespace prism::slicer
