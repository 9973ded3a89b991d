// Read as a stream, since a trace has a node for every op of a step: of each node its name, the
// shapes and types of its inputs and its number are kept until its end, and then only if it is a
// product. Up to 1.0.4 the schema has these as keys of the node itself ("input_shapes", "rf_id"),
// later below "inputs" and in the list "attrs".
#include "slicer/import/kineto/execution_trace.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/validate/limits.h"
#include "slicer/import/chakra/process_groups.h"
#include "slicer/import/kineto/product_shapes.h"
#include "slicer/import/source_files.h"

namespace prism::slicer {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostDims = 8;  // of inputs, and of each of them
constexpr size_t kMostOpen = 64;
constexpr size_t kNodeDepth = 3;  // root, list, node

// Of "Tensor(c10::BFloat16)" what is inside.
std::string_view TensorType(std::string_view type) {
  constexpr std::string_view kBefore = "Tensor(";
  return type.starts_with(kBefore) && type.ends_with(')')
             ? type.substr(kBefore.size(), type.size() - kBefore.size() - 1)
             : std::string_view();
}

// Receives the parser's events; `path_` has the last key of each open object, "" for a list.
class NodeHandler : public nlohmann::json_sax<Json> {
 public:
  NodeHandler(const std::string& file, ExecutionTrace* trace) : file_(file), trace_(*trace) {}

  [[nodiscard]] const std::string& error() const { return error_; }

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t value) override { return Number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return Number(static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX)));
  }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }

  bool string(string_t& text) override {
    if (path_.size() == kNodeDepth && path_.back() == "name") {
      node_.name = std::move(text);
    } else if (path_.size() == InputDepth("input_types", "types") && node_.inputs.type.empty()) {
      node_.inputs.type = TensorType(text);
    } else if (IsAttribute() && path_.back() == "name") {
      attribute_ = std::move(text);
    } else if (path_.size() == InputDepth("inputs", "values") && IsGroupNode()) {
      AddGroups(text);
    }
    return error_.empty();
  }

  bool start_object(size_t /*size*/) override {
    if (path_.size() + 1 == kNodeDepth && path_.front() == "nodes") {
      node_ = ExecutedProduct();
    }
    return Open();
  }

  bool key(string_t& text) override {
    path_.back() = std::move(text);
    return true;
  }

  bool end_object() override {
    path_.pop_back();
    if (path_.size() + 1 == kNodeDepth && IsProductOp(node_.name) && node_.function > 0) {
      const int64_t function = node_.function;
      trace_.products.insert_or_assign(function, std::move(node_));
    }
    return true;
  }

  bool start_array(size_t /*size*/) override {
    if (path_.size() == InputDepth("input_shapes", "shapes") &&
        node_.inputs.dims.size() < kMostDims) {
      node_.inputs.dims.emplace_back();
    }
    return Open();
  }

  bool end_array() override {
    path_.pop_back();
    return true;
  }

  bool parse_error(size_t byte,
                   const std::string& /*token*/,
                   const Json::exception& what) override {
    error_ = fmt::format("{}: no execution trace of PyTorch: byte {} of the JSON: {}", file_, byte,
                         what.what());
    return false;
  }

 private:
  bool Open() {
    path_.emplace_back();
    if (path_.size() > kMostOpen) {
      error_ = fmt::format("{}: more than {} brackets inside each other", file_, kMostOpen);
    }
    return error_.empty();
  }

  [[nodiscard]] bool InNode() const {
    return path_.size() > kNodeDepth && path_.front() == "nodes";
  }

  // How many brackets are open in the list of the inputs' shapes, types or values, in which `older`
  // is its key in the node and `key` that below "inputs"; 0: somewhere else.
  [[nodiscard]] size_t InputDepth(std::string_view older, std::string_view key) const {
    if (!InNode()) {
      return 0;
    }
    const bool is_below = path_[2] == "inputs" && path_[3] == key;
    return is_below ? kNodeDepth + 2 : path_[2] == older ? kNodeDepth + 1 : 0;
  }

  [[nodiscard]] bool IsAttribute() const {
    return path_.size() == kNodeDepth + 2 && path_.front() == "nodes" && path_[2] == "attrs";
  }

  [[nodiscard]] bool IsGroupNode() const {
    return node_.name.find("process_group:init") != std::string::npos;
  }

  void AddGroups(const std::string& list) {
    ProcessGroups groups;
    const Status read = ReadGroupList(list, file_, graph::kMaxRanks, &groups);
    error_ = read.ok() ? "" : std::string(read.message());
    for (auto& [name, ranks] : groups) {
      AddGroup(name, 0, std::move(ranks), &trace_.groups);
    }
  }

  bool Number(int64_t value) {
    const size_t shapes = InputDepth("input_shapes", "shapes");
    if (shapes > 0 && path_.size() == shapes + 1 && !node_.inputs.dims.empty() &&
        node_.inputs.dims.back().size() < kMostDims) {
      node_.inputs.dims.back().push_back(value);
    } else if ((path_.size() == kNodeDepth && path_.back() == "rf_id") ||
               (IsAttribute() && path_.back() == "value" && attribute_ == "rf_id")) {
      node_.function = value;
    }
    return true;
  }

  const std::string& file_;
  ExecutionTrace& trace_;
  std::vector<std::string> path_;
  ExecutedProduct node_;
  std::string attribute_;
  std::string error_;
};

}  // namespace

// Some tools sort the keys.
bool IsExecutionTrace(std::string_view bytes) {
  constexpr size_t kLook = 64;
  constexpr std::string_view kFirst[] = {"\"schema\"",   "\"pid\"",       "\"time\"",
                                         "\"start_ts\"", "\"finish_ts\"", "\"nodes\""};
  const std::string_view beginning = bytes.substr(0, kLook);
  const size_t quote = beginning.find('"');
  return beginning.find_first_not_of(" \t\r\n") != std::string_view::npos &&
         beginning[beginning.find_first_not_of(" \t\r\n")] == '{' &&
         quote != std::string_view::npos && std::ranges::any_of(kFirst, [&](std::string_view key) {
           return beginning.substr(quote).starts_with(key);
         });
}

Result<ExecutionTrace> ReadExecutionTrace(std::string_view bytes, const std::string& file) {
  ExecutionTrace trace;
  NodeHandler handler(file, &trace);
  if (!Json::sax_parse(bytes.begin(), bytes.end(), &handler)) {
    return BadFile(handler.error());
  }
  return trace;
}

Result<ExecutionTrace> ReadExecutionFile(const std::string& file, int64_t* bytes) {
  PRISM_ASSIGN_OR_RETURN(const SourceFiles opened, SourceFiles::Open({file}));
  const std::string_view text = opened.sources().front().bytes;
  if (bytes != nullptr) {
    *bytes += std::ssize(text);
  }
  return ReadExecutionTrace(text, file);
}

Result<int64_t> JoinExecutionTrace(const ExecutionTrace& executed,
                                   const std::string& file,
                                   const std::string& profile_file,
                                   KinetoTrace* profile) {
  int64_t joined = 0;
  int64_t other = 0;
  std::vector<TimeNs> places;
  for (KinetoProduct& product : profile->products) {
    const auto found = executed.products.find(product.function);
    if (product.function <= 0 || found == executed.products.end()) {
      continue;
    }
    if (found->second.name != product.name) {
      ++other;
      continue;
    }
    places.push_back(product.begin_ns);
    if (product.inputs == nullptr) {
      ++joined;
      product.inputs = std::make_shared<const ProductInputs>(found->second.inputs);
    }
  }
  const bool none = places.empty() && !executed.products.empty() && !profile->products.empty();
  if (none || other > std::ssize(places)) {
    return BadFile(fmt::format(
        "{}: is not the execution trace of {}: of {} products {} have the same number in both "
        "files, {} of them the same name; record both in one run, and name them in one order",
        file, profile_file, profile->products.size(), std::ssize(places) + other, places.size()));
  }
  profile->groups.insert(executed.groups.begin(), executed.groups.end());
  CompleteGroups(profile);
  const auto is_untraced = [&](const KinetoRange& step) {
    const auto first = std::ranges::lower_bound(places, step.begin_ns);
    return first == places.end() || *first >= step.end_ns();
  };
  if (!std::ranges::all_of(profile->steps, is_untraced)) {
    std::erase_if(profile->steps, is_untraced);
  }
  return joined;
}

}  // namespace prism::slicer
