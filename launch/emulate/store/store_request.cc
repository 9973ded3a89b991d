// A request has no length in front, so where it ends is known only when its last field has been
// read, and its bytes may arrive one at a time. The parser advances over whole texts and numbers
// only, and remembers the field and how many texts of a list are missing: more bytes continue where
// it stopped, and no text is taken twice.
#include "launch/emulate/store/store_request.h"

#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace prism::launch {
namespace {

// Fields of each operation after its byte: k: key, v: value, K: list of keys, P: list of key-value
// pairs, 4 and 8: a number of that many bytes.
constexpr std::array<std::string_view, 18> kFields = {
    "4", "kv", "kvv", "k", "k8", "K", "K", "", "k", "kv", "K", "P", "", "4", "kv", "k", "k", ""};

}  // namespace

template <typename Number>
std::optional<Number> StoreRequestParser::ReadNumber() {
  if (buffer_.size() - at_ < sizeof(Number)) {
    return std::nullopt;
  }
  Number number = 0;
  std::memcpy(&number, buffer_.data() + at_, sizeof(number));
  at_ += sizeof(number);
  return number;
}

Result<StoreRequestParser::Progress> StoreRequestParser::ReadText(uint64_t max_bytes) {
  const size_t begin = at_;
  const std::optional<uint64_t> bytes = ReadNumber<uint64_t>();
  if (!bytes) {
    return Progress::kNeedsMore;
  }
  if (*bytes > max_bytes) {
    return BadFile(fmt::format("store request {} holds a text of {} bytes, more than {}",
                               static_cast<int>(request_.op), *bytes, max_bytes));
  }
  if (buffer_.size() - at_ < *bytes) {
    at_ = begin;
    return Progress::kNeedsMore;
  }
  request_.texts.emplace_back(buffer_, at_, *bytes);
  at_ += *bytes;
  return Progress::kDone;
}

Result<StoreRequestParser::Progress> StoreRequestParser::ReadTexts(uint64_t texts_per_item) {
  if (!missing_) {
    const std::optional<uint64_t> count = ReadNumber<uint64_t>();
    if (!count) {
      return Progress::kNeedsMore;
    }
    if (*count > kMaxStoreKeys) {
      return BadFile(fmt::format("store request {} names {} keys, more than {}",
                                 static_cast<int>(request_.op), *count, kMaxStoreKeys));
    }
    missing_ = *count * texts_per_item;
  }
  for (; *missing_ > 0; --*missing_) {
    const bool is_value = texts_per_item == 2 && *missing_ % 2 == 1;
    PRISM_ASSIGN_OR_RETURN(const Progress progress,
                           ReadText(is_value ? kMaxStoreValueBytes : kMaxStoreKeyBytes));
    if (progress == Progress::kNeedsMore) {
      return progress;
    }
  }
  missing_.reset();
  return Progress::kDone;
}

Result<StoreRequestParser::Progress> StoreRequestParser::ReadField(char field) {
  switch (field) {
    case 'k':
      return ReadText(kMaxStoreKeyBytes);
    case 'v':
      return ReadText(kMaxStoreValueBytes);
    case 'K':
      return ReadTexts(1);
    case 'P':
      return ReadTexts(2);
    default:
      break;
  }
  const std::optional<int64_t> number =
      field == '8' ? ReadNumber<int64_t>() : std::optional<int64_t>(ReadNumber<uint32_t>());
  request_.number = number.value_or(0);
  return number ? Progress::kDone : Progress::kNeedsMore;
}

Result<std::optional<StoreRequest>> StoreRequestParser::Next() {
  if (!in_request_) {
    const std::optional<uint8_t> op = ReadNumber<uint8_t>();
    if (!op) {
      return std::optional<StoreRequest>();
    }
    if (*op >= kFields.size()) {
      return BadFile(fmt::format("unknown store operation {}", *op));
    }
    in_request_ = true;
    request_ = {};
    request_.op = static_cast<StoreOp>(*op);
    field_ = 0;
  }
  const std::string_view fields = kFields[static_cast<size_t>(request_.op)];
  for (; field_ < fields.size(); ++field_) {
    PRISM_ASSIGN_OR_RETURN(const Progress progress, ReadField(fields[field_]));
    if (progress == Progress::kNeedsMore) {
      buffer_.erase(0, at_);
      at_ = 0;
      return std::optional<StoreRequest>();
    }
  }
  in_request_ = false;
  if (at_ == buffer_.size()) {
    buffer_.clear();
    at_ = 0;
  }
  return std::optional<StoreRequest>(std::move(request_));
}

}  // namespace prism::launch
