// Attributes are in a list of names and values, of which the key says the type ("int64Val"), or
// keys of the node itself. Protobuf prints 64 bits as text.
#include "slicer/import/chakra/trace_json.h"

#include <algorithm>
#include <istream>
#include <streambuf>
#include <utility>
#include <vector>

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
  } else if (value.is_number()) {
    attribute.set_double_val(value.get<double>());
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

bool HasId(const Json& value) {
  return value.is_object() && (value.contains("id") || value.contains("Id"));
}

// Protobuf leaves out what is 0, the first node's id, too.
bool IsMetadata(const Json& value) {
  return value.is_object() && !HasId(value) &&
         (value.empty() || value.contains("version") || value.contains("schema"));
}

constexpr size_t kMostOpenJson = 64;

// Builds one node at a time: those of a list, in an object or not, or messages by themselves.
class ChakraNodes : public nlohmann::json_sax<Json> {
 public:
  ChakraNodes(const std::string& file, const std::function<Status(const chakra::Node&)>& take)
      : file_(file), take_(take) {}

  [[nodiscard]] const Status& status() const { return status_; }

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return Add(value); }
  bool binary(binary_t& /*value*/) override { return Add(nullptr); }
  bool string(string_t& text) override { return Add(std::move(text)); }

  bool key(string_t& text) override {
    open_.back().key = std::move(text);
    return true;
  }

  bool start_object(size_t /*size*/) override { return Open(Json::object()); }
  bool end_object() override { return Close(); }

  bool start_array(size_t /*size*/) override {
    const bool is_list =
        open_.empty() || (open_.size() == 1 && open_[0].value.is_object() &&
                          (open_[0].key == "workload_graph" || open_[0].key == "nodes"));
    list_ = is_list ? open_.size() + 1 : list_;
    return Open(Json::array());
  }

  bool end_array() override {
    if (open_.size() == list_) {
      list_ = 0;
      has_list_ = true;
    }
    return Close();
  }

  bool parse_error(size_t byte,
                   const std::string& /*token*/,
                   const Json::exception& what) override {
    return Fail(
        fmt::format("no execution trace of Chakra as JSON: byte {}: {}", byte, what.what()));
  }

 private:
  struct Value {
    Json value;
    std::string key;  // of an object: the last one
  };

  bool Fail(const std::string& what) {
    status_ = BadFile(fmt::format("{}: {}", file_, what));
    return false;
  }

  bool Open(Json value) {
    open_.push_back({std::move(value), ""});
    return open_.size() <= kMostOpenJson ||
           Fail(fmt::format("more than {} brackets inside each other", kMostOpenJson));
  }

  bool Close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return Add(std::move(value));
  }

  bool Add(Json value) {
    if (!open_.empty() && open_.size() != list_) {
      Value& parent = open_.back();
      if (parent.value.is_array()) {
        parent.value.push_back(std::move(value));
      } else {
        parent.value[parent.key] = std::move(value);
      }
      return true;
    }
    const bool is_done = open_.empty() && std::exchange(has_list_, false);
    const bool is_head = open_.empty() && std::exchange(is_first_, false) && IsMetadata(value);
    if (is_done || is_head) {
      return true;
    }
    if (!value.is_object() || !(HasId(value) || value.contains("name"))) {
      return Fail("has a node that is no object with a name or an id");
    }
    status_ = take_(NodeOf(value));
    return status_.ok();
  }

  const std::string& file_;
  const std::function<Status(const chakra::Node&)>& take_;
  std::vector<Value> open_;
  size_t list_ = 0;        // how many are open in the list of nodes; 0: outside of it
  bool has_list_ = false;  // in what is open
  bool is_first_ = true;
  Status status_;
};

// Reads what is in memory, without a copy.
class TextBuffer : public std::streambuf {
 public:
  explicit TextBuffer(std::string_view text) {
    char* const begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

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
  TextBuffer buffer(bytes);
  std::istream in(&buffer);
  ChakraNodes handler(file, take);
  while (handler.status().ok() && !(in >> std::ws).eof()) {
    Json::sax_parse(in, &handler, nlohmann::detail::input_format_t::json, false);
  }
  return handler.status();
}

}  // namespace prism::slicer
