#include "launch/inputs/json_reader.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace prism::launch {
namespace {

using Json = nlohmann::json;

const Json& ValueOf(const void* value) {
  return *static_cast<const Json*>(value);
}

// What is in the file, short enough for a message.
std::string Shown(const Json& value) {
  constexpr size_t kLongest = 40;
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

// The library's message without its own error number.
std::string WithoutNumber(const std::string& what) {
  const size_t end = what.find("] ");
  return end == std::string::npos ? what : what.substr(end + 2);
}

bool SwitchesNothingOn(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         (value.is_number() && value.get<double>() == 0) ||
         (value.is_string() && value.get_ref<const std::string&>().empty()) ||
         (value.is_structured() && value.empty());
}

}  // namespace

struct JsonReader::Document {
  Json root;
};

Result<JsonReader> JsonReader::Parse(std::string_view text, const std::string& where) {
  constexpr int kDeepest = 16;
  bool too_deep = false;
  const auto keep = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep;
  };
  auto document = std::make_shared<Document>();
  try {
    document->root = Json::parse(text, keep);
  } catch (const Json::exception& error) {
    return BadFile(fmt::format("{}: {}", where, WithoutNumber(error.what())));
  }
  if (too_deep) {
    return BadFile(fmt::format("{}: nests deeper than {} levels", where, kDeepest));
  }
  if (!document->root.is_object()) {
    return BadFile(fmt::format("{}: is not a JSON object", where));
  }
  const void* root = &document->root;
  return JsonReader(std::move(document), root, where);
}

const void* JsonReader::Find(const std::string& key) {
  used_.insert(key);
  const Json& object = ValueOf(object_);
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool JsonReader::Has(const std::string& key) {
  return Find(key) != nullptr;
}

int64_t JsonReader::Integer(const std::string& key, int64_t lowest, int64_t highest) {
  const void* found = Find(key);
  if (found == nullptr) {
    Fail(key, "is missing");
    return lowest;
  }
  const Json& value = ValueOf(found);
  const bool is_small = value.is_number_unsigned()
                            ? value.get<uint64_t>() <= static_cast<uint64_t>(highest)
                            : value.is_number_integer();
  const int64_t number = is_small ? value.get<int64_t>() : lowest - 1;
  if (number < lowest || number > highest) {
    Fail(key,
         fmt::format("is {}, not a whole number from {} to {}", Shown(value), lowest, highest));
    return lowest;
  }
  return number;
}

double JsonReader::PositiveOr(const std::string& key, double fallback) {
  const void* found = Find(key);
  if (found == nullptr) {
    return fallback;
  }
  const Json& value = ValueOf(found);
  if (!value.is_number() || !(value.get<double>() > 0)) {
    Fail(key, fmt::format("is {}, not a positive number", Shown(value)));
    return fallback;
  }
  return value.get<double>();
}

bool JsonReader::BoolOr(const std::string& key, bool fallback) {
  const void* found = Find(key);
  if (found == nullptr) {
    return fallback;
  }
  if (!ValueOf(found).is_boolean()) {
    Fail(key, fmt::format("is {}, not true or false", Shown(ValueOf(found))));
    return fallback;
  }
  return ValueOf(found).get<bool>();
}

std::string JsonReader::TextOr(const std::string& key, const std::string& fallback) {
  const void* found = Find(key);
  if (found == nullptr) {
    return fallback;
  }
  if (!ValueOf(found).is_string()) {
    Fail(key, fmt::format("is {}, not text", Shown(ValueOf(found))));
    return fallback;
  }
  return ValueOf(found).get<std::string>();
}

std::vector<std::string> JsonReader::TextsOr(const std::string& key) {
  std::vector<std::string> texts;
  const void* found = Find(key);
  if (found == nullptr) {
    return texts;
  }
  bool is_list = ValueOf(found).is_array();
  for (const Json& value : ValueOf(found)) {
    is_list = is_list && value.is_string();
    texts.push_back(is_list ? value.get<std::string>() : std::string());
  }
  if (!is_list) {
    Fail(key, fmt::format("is {}, not a list of texts", Shown(ValueOf(found))));
  }
  return texts;
}

std::vector<int64_t> JsonReader::IntegersOr(const std::string& key) {
  std::vector<int64_t> numbers;
  const void* found = Find(key);
  if (found == nullptr) {
    return numbers;
  }
  bool is_list = ValueOf(found).is_array();
  for (const Json& value : ValueOf(found)) {
    is_list = is_list && value.is_number_integer();
    numbers.push_back(is_list ? value.get<int64_t>() : 0);
  }
  if (!is_list) {
    Fail(key, fmt::format("is {}, not a list of whole numbers", Shown(ValueOf(found))));
  }
  return numbers;
}

JsonReader JsonReader::Object(const std::string& key) {
  static const Json kEmpty = Json::object();
  const void* found = Find(key);
  const bool is_object = found != nullptr && ValueOf(found).is_object();
  JsonReader inside(document_, is_object ? found : &kEmpty, where_);
  if (!is_object) {
    inside.Fail(key, "is not an object");
  }
  return inside;
}

void JsonReader::Fail(const std::string& key, const std::string& what) {
  if (status_.ok()) {
    status_ = BadFile(fmt::format("{}: {} {}", where_, key, what));
  }
}

std::vector<std::string> JsonReader::Others() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : ValueOf(object_).items()) {
    if (!used_.contains(key) && !SwitchesNothingOn(value)) {
      keys.push_back(key);
    }
  }
  return keys;
}

}  // namespace prism::launch
