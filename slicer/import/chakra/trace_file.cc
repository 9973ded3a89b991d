#include "slicer/import/chakra/trace_file.h"

#include <fmt/format.h>

#include "slicer/import/chakra/chakra.pb.h"
#include "slicer/import/chakra/trace_json.h"

namespace prism::slicer {
namespace {

constexpr uint64_t kMaxMessage = 64U << 20U;  // a node with all its attributes
constexpr const char* kVersion = "0.0.4";     // of the schema

// The integer, in whatever integer type its writer chose; null for other types.
std::optional<int64_t> IntegerOf(const chakra::Attribute& attribute) {
  using Case = chakra::Attribute::ValueCase;
  switch (attribute.value_case()) {
    case Case::kInt32Val:
      return attribute.int32_val();
    case Case::kInt64Val:
      return attribute.int64_val();
    case Case::kUint32Val:
      return attribute.uint32_val();
    case Case::kUint64Val:
      return static_cast<int64_t>(attribute.uint64_val());
    case Case::kSint32Val:
      return attribute.sint32_val();
    case Case::kSint64Val:
      return attribute.sint64_val();
    case Case::kFixed32Val:
      return attribute.fixed32_val();
    case Case::kFixed64Val:
      return static_cast<int64_t>(attribute.fixed64_val());
    case Case::kSfixed32Val:
      return attribute.sfixed32_val();
    case Case::kSfixed64Val:
      return attribute.sfixed64_val();
    case Case::kBoolVal:
      return attribute.bool_val() ? 1 : 0;
    default:
      return std::nullopt;
  }
}

// The number, whole or not; 0 for other types.
double RealOf(const chakra::Attribute& attribute) {
  return attribute.has_double_val()  ? attribute.double_val()
         : attribute.has_float_val() ? double{attribute.float_val()}
         : attribute.has_uint64_val() || attribute.has_fixed64_val()
             ? static_cast<double>(static_cast<uint64_t>(*IntegerOf(attribute)))
             : static_cast<double>(IntegerOf(attribute).value_or(0));
}

// Attributes of an unexpected type are ignored, like unknown names.
void TakeAttribute(const chakra::Attribute& attribute, ChakraNode* node) {
  const std::string& name = attribute.name();
  if (name == "pg_name") {
    // The group is a name or a number.
    const std::optional<int64_t> number = IntegerOf(attribute);
    node->group = number.has_value() ? fmt::format("{}", *number) : attribute.string_val();
    return;
  }
  if (name == "pg_desc") {
    node->group_label = attribute.string_val();
    return;
  }
  if (name == "involved_dim" && attribute.has_bool_list()) {
    node->involved_dims.assign(attribute.bool_list().values().begin(),
                               attribute.bool_list().values().end());
    return;
  }
  if (name == "num_ops" || name == "tensor_size") {
    (name == "num_ops" ? node->operations : node->tensor_bytes) = RealOf(attribute);
    return;
  }
  const std::optional<int64_t> value = IntegerOf(attribute);
  if (!value.has_value()) {
    return;
  }
  if (name == "is_cpu_op") {
    node->on_cpu = *value != 0;
  } else if (name == "duration_ns") {
    node->duration_ns = value;
  } else if (name == "stream") {
    node->stream = value;
  } else if (name == "comm_type") {
    node->collective = *value;
  } else if (name == "comm_size") {
    node->bytes = value;
  } else if (name == "comm_src") {
    node->source = value;
  } else if (name == "comm_dst") {
    node->destination = value;
  } else if (name == "comm_tag") {
    node->tag = *value;
  } else if (name == "dtype") {
    node->dtype = *value;
  } else if (name == "reduce_op") {
    node->reduce = *value;
  } else if (name == "root") {
    node->root = *value;
  }
}

ChakraNode NodeOf(const chakra::Node& message) {
  ChakraNode node;
  node.id = message.id();
  node.name = message.name();
  const int type = message.type();
  node.type = type >= 0 && type <= static_cast<int>(ChakraType::kCollective)
                  ? static_cast<ChakraType>(type)
                  : ChakraType::kInvalid;
  node.control_deps.assign(message.ctrl_deps().begin(), message.ctrl_deps().end());
  node.data_deps.assign(message.data_deps().begin(), message.data_deps().end());
  node.duration_us = message.duration_micros();
  node.input_values = message.inputs().values();
  for (const chakra::Attribute& attribute : message.attr()) {
    TakeAttribute(attribute, &node);
  }
  return node;
}

// Cuts a file into its messages.
class MessageReader {
 public:
  MessageReader(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  [[nodiscard]] bool AtEnd() const { return at_ == bytes_.size(); }

  template <typename Message>
  Status Read(Message* message) {
    const size_t begin = at_;
    uint64_t size = 0;
    PRISM_RETURN_IF_ERROR(ReadSize(&size));
    if (size > kMaxMessage || size > bytes_.size() - at_) {
      return Wrong(begin, fmt::format("a message of {} bytes, but only {} follow; is the file cut "
                                      "off?",
                                      size, bytes_.size() - at_));
    }
    if (!message->ParseFromArray(bytes_.data() + at_, static_cast<int>(size))) {
      return Wrong(begin, "this is not a Chakra message; is the file an execution trace (.et)?");
    }
    at_ += size;
    return OkStatus();
  }

 private:
  Status ReadSize(uint64_t* size) {
    for (uint32_t shift = 0; shift < 35; shift += 7) {
      if (AtEnd()) {
        return Wrong(at_, "the file ends inside the size of a message; is it cut off?");
      }
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      *size |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) {
        return OkStatus();
      }
    }
    return Wrong(
        at_,
        "the size of a message has more than five bytes; is the file an execution trace (.et)?");
  }

  [[nodiscard]] Status Wrong(size_t at, const std::string& what) const {
    return BadFile(fmt::format("{}: byte {}: {}", file_, at, what));
  }

  std::string_view bytes_;
  const std::string& file_;
  size_t at_ = 0;
};

void AppendMessage(const google::protobuf::MessageLite& message, std::string* bytes) {
  for (size_t size = message.ByteSizeLong();; size >>= 7U) {
    bytes->push_back(static_cast<char>((size & 0x7FU) | (size > 0x7F ? 0x80U : 0U)));
    if (size <= 0x7F) {
      break;
    }
  }
  message.AppendToString(bytes);
}

chakra::Attribute* AddAttribute(const char* name, chakra::Node* node) {
  chakra::Attribute* const attribute = node->add_attr();
  attribute->set_name(name);
  return attribute;
}

void AddCommunication(const ChakraNode& node, chakra::Node* message) {
  // Types as ASTRA-sim's feeder reads them.
  if (node.bytes) {
    AddAttribute("comm_size", message)->set_int64_val(*node.bytes);
  }
  if (node.type == ChakraType::kCollective) {
    AddAttribute("comm_type", message)->set_int64_val(node.collective);
    AddAttribute("pg_name", message)->set_string_val(node.group);
    AddAttribute("pg_desc", message)->set_string_val(node.group_label);
    AddAttribute("dtype", message)->set_int64_val(node.dtype);
    AddAttribute("reduce_op", message)->set_int64_val(node.reduce);
    AddAttribute("root", message)->set_int64_val(node.root);
    return;
  }
  AddAttribute("comm_src", message)->set_int32_val(static_cast<int32_t>(node.source.value_or(0)));
  AddAttribute("comm_dst", message)
      ->set_int32_val(static_cast<int32_t>(node.destination.value_or(0)));
  AddAttribute("comm_tag", message)->set_int32_val(static_cast<int32_t>(node.tag));
}

}  // namespace

Status ReadChakraTrace(std::string_view bytes,
                       const std::string& file,
                       const std::function<Status(const ChakraNode&)>& take) {
  if (IsChakraJson(bytes)) {
    return ReadChakraJson(bytes, file,
                          [&](const chakra::Node& node) { return take(NodeOf(node)); });
  }
  MessageReader reader(bytes, file);
  chakra::GlobalMetadata metadata;
  PRISM_RETURN_IF_ERROR(reader.Read(&metadata));
  if (reader.AtEnd() && metadata.ByteSizeLong() == 0) {
    return BadFile(
        fmt::format("{}: has neither a version nor nodes; is it an execution trace (.et)?", file));
  }
  chakra::Node message;
  while (!reader.AtEnd()) {
    PRISM_RETURN_IF_ERROR(reader.Read(&message));
    if (message.ByteSizeLong() == 0) {
      return BadFile(fmt::format("{}: has an empty node; is it an execution trace (.et)?", file));
    }
    PRISM_RETURN_IF_ERROR(take(NodeOf(message)));
  }
  return OkStatus();
}

void AppendChakraHead(std::string* bytes) {
  chakra::GlobalMetadata metadata;
  metadata.set_version(kVersion);
  AppendMessage(metadata, bytes);
}

void AppendChakraNode(const ChakraNode& node, std::string* bytes) {
  chakra::Node message;
  message.set_id(node.id);
  message.set_name(node.name);
  message.set_type(static_cast<chakra::NodeType>(node.type));
  for (const uint64_t dep : node.data_deps) {
    message.add_data_deps(dep);
  }
  message.set_duration_micros(node.duration_us);
  AddAttribute("is_cpu_op", &message)->set_bool_val(node.on_cpu);
  if (node.stream.has_value()) {
    AddAttribute("stream", &message)->set_int64_val(*node.stream);
  }
  if (node.duration_ns.has_value()) {
    AddAttribute("duration_ns", &message)->set_int64_val(*node.duration_ns);
  }
  if (node.type != ChakraType::kCompute) {
    AddCommunication(node, &message);
  }
  AppendMessage(message, bytes);
}

}  // namespace prism::slicer
