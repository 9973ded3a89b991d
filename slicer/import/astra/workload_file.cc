#include "slicer/import/astra/workload_file.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "slicer/import/astra/words.h"

namespace prism::slicer {
namespace {

using graph::CollectiveKind;

constexpr size_t kMaxLayers = 1U << 20U;
constexpr size_t kColumns = 12;

constexpr std::pair<std::string_view, WorkloadKind> kKinds[] = {
    {"MICRO", WorkloadKind::kMicro},
    {"DATA", WorkloadKind::kData},
    {"MODEL", WorkloadKind::kModel},
    {"HYBRID_DATA_MODEL", WorkloadKind::kHybridDataModel},
    {"HYBRID_MODEL_DATA", WorkloadKind::kHybridModelData},
    {"HYBRID_TRANSFORMER", WorkloadKind::kTransformer},
    {"HYBRID_TRANSFORMER_FWD_IN_BCKWD", WorkloadKind::kTransformer},
    {"HYBRID_DLRM", WorkloadKind::kDlrm},
};

constexpr std::pair<std::string_view, CollectiveKind> kCollectives[] = {
    {"ALLREDUCE", CollectiveKind::kAllReduce},         {"ALLGATHER", CollectiveKind::kAllGather},
    {"REDUCESCATTER", CollectiveKind::kReduceScatter}, {"ALLTOALL", CollectiveKind::kAllToAll},
    {"BROADCAST", CollectiveKind::kBroadcast},
};

// The number, without its fraction.
std::optional<int64_t> WholeOf(std::string_view text) {
  const size_t point = text.find('.');
  const bool digits = text.find_first_not_of("0123456789", std::min(point, text.size() - 1) + 1) ==
                      std::string_view::npos;
  return point == std::string_view::npos || point == 0 || !digits ? NumberOf(text)
                                                                  : NumberOf(text.substr(0, point));
}

class WorkloadReader {
 public:
  WorkloadReader(std::string_view text, const std::string& file) : lines_(text, file) {}

  Result<LayerWorkload> Read() {
    PRISM_RETURN_IF_ERROR(ReadHead());
    const std::vector<std::string_view> words = Words(lines_.Next());
    const std::optional<int64_t> count = words.size() == 1 ? NumberOf(words.front()) : std::nullopt;
    if (!count.has_value() || *count < 1 || static_cast<size_t>(*count) > kMaxLayers) {
      return lines_.Wrong(fmt::format("a number of layers from 1 to {} is expected", kMaxLayers));
    }
    for (int64_t layer = 0; layer < *count; ++layer) {
      if (lines_.AtEnd()) {
        return lines_.Wrong(
            fmt::format("the file ends after {} of {} layers; is it cut off?", layer, *count));
      }
      PRISM_RETURN_IF_ERROR(ReadLayer());
    }
    while (!lines_.AtEnd()) {
      if (!Words(lines_.Next()).empty()) {
        return lines_.Wrong(
            fmt::format("there is a line after the {} layers that the file announces", *count));
      }
    }
    return std::move(workload_);
  }

 private:
  static constexpr const char* kListed = "a layer of the list";

  // "KIND key: number key: number ..."; SimAI writes one key without its colon.
  Status ReadHead() {
    const std::vector<std::string_view> words = Words(lines_.Next());
    if (words.empty()) {
      return lines_.Wrong("a kind of parallelism is expected, such as DATA or HYBRID_TRANSFORMER");
    }
    bool known = false;
    for (const auto& [name, kind] : kKinds) {
      if (words.front() == name) {
        workload_.kind = kind;
        known = true;
      }
    }
    if (!known) {
      return lines_.Wrong(
          fmt::format("the kind of parallelism '{}' is not supported", words.front()));
    }
    std::span<const std::string_view> rest(words);
    rest = rest.subspan(1);
    if (workload_.kind == WorkloadKind::kDlrm) {
      return ReadNumber(kLastBottomLayer, &rest);
    }
    while (!rest.empty()) {
      std::string_view key = rest.front();
      if (key.ends_with(':')) {
        key.remove_suffix(1);
      }
      rest = rest.subspan(1);
      PRISM_RETURN_IF_ERROR(ReadNumber(key, &rest));
      std::set<int64_t>* const layers = key == "checkpoints"            ? &workload_.checkpoints
                                        : key == "checkpoint_initiates" ? &workload_.initiates
                                                                        : nullptr;
      // That many layers follow.
      for (int64_t i = layers == nullptr ? 0 : workload_.Number(std::string(key), 0); i > 0; --i) {
        PRISM_RETURN_IF_ERROR(ReadNumber(kListed, &rest));
        layers->insert(workload_.Number(kListed, 0));
      }
    }
    workload_.numbers.erase(kListed);
    return OkStatus();
  }

  // The next word, as the number of the key.
  Status ReadNumber(std::string_view key, std::span<const std::string_view>* words) {
    if (words->empty()) {
      return lines_.Wrong(fmt::format("'{}' has no number", key));
    }
    const std::optional<int64_t> number = WholeOf(words->front());
    if (!number.has_value() || *number < 0) {
      return lines_.Wrong(fmt::format("'{}' is not a number for {}", words->front(), key));
    }
    const auto [known, is_new] = workload_.numbers.try_emplace(std::string(key), *number);
    if (!is_new && key != kListed && known->second != *number) {
      return lines_.Wrong(
          fmt::format("'{}' is there twice, as {} and {}", key, known->second, *number));
    }
    known->second = *number;
    *words = words->subspan(1);
    return OkStatus();
  }

  Status ReadLayer() {
    const std::vector<std::string_view> words = Words(lines_.Next());
    if (words.size() != kColumns) {
      return lines_.Wrong(
          fmt::format("expected {} columns for a layer, found {}", kColumns, words.size()));
    }
    WorkloadLayer layer;
    layer.name = words[0];
    const std::span<const std::string_view> columns(words);
    PRISM_RETURN_IF_ERROR(ReadPass(columns.subspan(2, 3), LayerGroup::kModel, &layer.forward));
    PRISM_RETURN_IF_ERROR(
        ReadPass(columns.subspan(5, 3), LayerGroup::kModel, &layer.input_gradient));
    PRISM_RETURN_IF_ERROR(
        ReadPass(columns.subspan(8, 3), LayerGroup::kData, &layer.weight_gradient));
    const std::optional<int64_t> update = WholeOf(words[kColumns - 1]);
    if (!update.has_value() || *update < 0) {
      return lines_.Wrong(fmt::format("'{}' is not the time of an update", words[kColumns - 1]));
    }
    layer.update = *update;
    workload_.layers.push_back(std::move(layer));
    return OkStatus();
  }

  // Compute time, collective, bytes.
  Status ReadPass(std::span<const std::string_view> columns, LayerGroup usual, LayerPass* pass) {
    const std::optional<int64_t> compute = WholeOf(columns[0]);
    const std::optional<int64_t> bytes = WholeOf(columns[2]);
    if (!compute.has_value() || *compute < 0 || !bytes.has_value() || *bytes < 0) {
      return lines_.Wrong(fmt::format("'{}' or '{}' is not a number", columns[0], columns[2]));
    }
    pass->compute = *compute;
    pass->bytes = *bytes;
    pass->group = usual;
    std::string_view name = columns[1];
    for (const auto& [ending, group] :
         {std::pair(std::string_view("_DP_EP"), LayerGroup::kDataExpert),
          std::pair(std::string_view("_EP"), LayerGroup::kExpert)}) {
      if (name.ends_with(ending)) {
        name.remove_suffix(ending.size());
        pass->group = group;
        break;
      }
    }
    if (name == "NONE") {
      return OkStatus();
    }
    for (const auto& [known, kind] : kCollectives) {
      if (name == known) {
        pass->kind = kind;
        pass->communicates = pass->bytes > 0;
        return OkStatus();
      }
    }
    return lines_.Wrong(fmt::format("the collective '{}' is not supported", columns[1]));
  }

  LineReader lines_;
  LayerWorkload workload_;
};

}  // namespace

Result<LayerWorkload> ParseLayerWorkload(std::string_view text, const std::string& file) {
  return WorkloadReader(text, file).Read();
}

}  // namespace prism::slicer
