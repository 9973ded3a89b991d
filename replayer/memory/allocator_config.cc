#include "replayer/memory/allocator_config.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/divide.h"
#include "graph/base/parse_number.h"

namespace prism::replayer {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

int Log2(int64_t value) {
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(value))) - 1;
}

constexpr int64_t kMinOptionMebibytes = 20;  // minimum of max_split_size_mb and similar options

// Options that change no address and no size.
constexpr std::array<std::string_view, 7> kWithoutEffect = {
    "release_lock_on_cudamalloc",    "release_lock_on_hipmalloc",   "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",  "pinned_num_register_threads", "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb"};

bool IsPowerOfTwo(int64_t value) {
  return value > 0 && std::has_single_bit(static_cast<uint64_t>(value));
}

template <typename Number>
std::optional<Number> Parse(std::string_view text) {
  Number value = {};
  return ParseNumber(text, &value) ? std::optional(value) : std::nullopt;
}

// Cuts at commas outside of brackets.
std::vector<std::string_view> SplitOptions(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    depth += c == '[' ? 1 : (c == ']' ? -1 : 0);
    if (c == ',' && (depth == 0 || i == text.size())) {
      if (i > begin) {
        parts.push_back(text.substr(begin, i - begin));
      }
      begin = i + 1;
    }
  }
  return parts;
}

std::pair<std::string_view, std::string_view> SplitAtColon(std::string_view text) {
  const size_t colon = text.find(':');
  return colon == std::string_view::npos ? std::pair(text, std::string_view())
                                         : std::pair(text.substr(0, colon), text.substr(colon + 1));
}

Status Refuse(std::string_view key, std::string_view value) {
  return InvalidArgument(fmt::format("allocator option '{}' cannot be '{}'", key, value));
}

Status ReadMebibytes(std::string_view key, std::string_view value, int64_t* bytes) {
  const std::optional<int64_t> mebibytes = Parse<int64_t>(value);
  if (!mebibytes || *mebibytes < kMinOptionMebibytes || *mebibytes > kUnlimitedBytes / kMebibyte) {
    return Refuse(key, value);
  }
  *bytes = *mebibytes * kMebibyte;
  return OkStatus();
}

Status ReadFraction(std::string_view key, std::string_view value, double* fraction) {
  const std::optional<double> number = Parse<double>(value);
  if (!number || !(*number > 0) || !(*number <= 1)) {
    return Refuse(key, value);
  }
  *fraction = *number;
  return OkStatus();
}

// "8" for all intervals, or "[256:1,512:2,>:8]": sizes in MiB. Intervals below the first named one
// take its divisions, ">" those after the last.
Status ReadDivisions(std::string_view value, std::array<int64_t, 16>* divisions) {
  constexpr std::string_view kKey = "roundup_power2_divisions";
  if (!value.starts_with('[')) {
    const std::optional<int64_t> all = Parse<int64_t>(value);
    if (!all || !IsPowerOfTwo(*all)) {
      return Refuse(kKey, value);
    }
    divisions->fill(*all);
    return OkStatus();
  }
  if (!value.ends_with(']')) {
    return Refuse(kKey, value);
  }
  size_t next = 0;
  for (const std::string_view part : SplitOptions(value.substr(1, value.size() - 2))) {
    const auto [size, count] = SplitAtColon(part);
    const std::optional<int64_t> parsed = Parse<int64_t>(count);
    if (!parsed || (*parsed != 0 && !IsPowerOfTwo(*parsed))) {
      return Refuse(kKey, value);
    }
    if (size == ">") {
      std::fill(divisions->begin() + static_cast<ptrdiff_t>(next), divisions->end(), *parsed);
      continue;
    }
    const std::optional<int64_t> mebibytes = Parse<int64_t>(size);
    if (!mebibytes || !IsPowerOfTwo(*mebibytes)) {
      return Refuse(kKey, value);
    }
    const size_t index = std::min<size_t>(
        static_cast<size_t>(std::bit_width(static_cast<uint64_t>(*mebibytes)) - 1), 15);
    if (next == 0) {
      std::fill_n(divisions->begin(), index, *parsed);
    }
    (*divisions)[index] = *parsed;
    next = index + 1;
  }
  return OkStatus();
}

Status ReadOption(std::string_view key, std::string_view value, AllocatorConfig* config) {
  if (key == "expandable_segments") {
    config->expandable_segments = value == "True";
    return value == "True" || value == "False" ? OkStatus() : Refuse(key, value);
  }
  if (key == "max_split_size_mb") {
    return ReadMebibytes(key, value, &config->max_split_bytes);
  }
  if (key == "max_non_split_rounding_mb") {
    return ReadMebibytes(key, value, &config->max_non_split_rounding_bytes);
  }
  if (key == "large_segment_size_mb") {
    return ReadMebibytes(key, value, &config->large_segment_bytes);
  }
  if (key == "garbage_collection_threshold") {
    return ReadFraction(key, value, &config->garbage_collection_threshold);
  }
  if (key == "per_process_memory_fraction") {
    return ReadFraction(key, value, &config->memory_fraction);
  }
  if (key == "roundup_power2_divisions") {
    return ReadDivisions(value, &config->power2_divisions);
  }
  const bool is_native_backend = key == "backend" && value == "native";
  return is_native_backend || std::ranges::find(kWithoutEffect, key) != kWithoutEffect.end()
             ? OkStatus()
             : Refuse(key, value);
}

}  // namespace

int64_t AllocatorConfig::RoundSize(int64_t bytes) const {
  if (bytes < kMinBlockBytes) {
    return kMinBlockBytes;
  }
  const int interval = std::clamp(Log2(bytes) - Log2(kMebibyte), 0, 15);
  const int64_t divisions = power2_divisions[static_cast<size_t>(interval)];
  if (divisions <= 1 || bytes <= kMinBlockBytes * divisions) {
    return RoundUp(bytes, kMinBlockBytes);
  }
  const int64_t floor = int64_t{1} << static_cast<unsigned>(Log2(bytes));
  if (bytes == floor) {
    return bytes;
  }
  const int64_t division = floor / divisions;
  return division == 0 ? 2 * floor : RoundUp(bytes, division);
}

int64_t AllocatorConfig::SegmentSize(int64_t rounded_bytes) const {
  if (rounded_bytes <= kSmallBytes) {
    return kSmallSegmentBytes;
  }
  if (rounded_bytes < kMinLargeBytes) {
    return large_segment_bytes;
  }
  return RoundUp(rounded_bytes, kRoundLargeBytes);
}

Result<AllocatorConfig> ParseAllocatorConfig(std::string_view text) {
  AllocatorConfig config;
  std::string compact(text);
  std::erase(compact, ' ');
  for (const std::string_view part : SplitOptions(compact)) {
    const auto [key, value] = SplitAtColon(part);
    PRISM_RETURN_IF_ERROR(ReadOption(key, value, &config));
  }
  return config;
}

}  // namespace prism::replayer
