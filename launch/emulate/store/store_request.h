// Requests of the TCPStore protocol (torch 2.11, TCPStore.cpp and TCPStoreLibUvBackend.cpp): one
// byte operation, then its fields, little-endian and without framing. A text is a u64 length and
// its bytes; a list is a u64 count and its texts. Requests arrive split at any byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

// The numbers are those of the wire. Later versions of torch add operations after the last.
enum class StoreOp : uint8_t {
  kValidate = 0,
  kSet = 1,
  kCompareSet = 2,
  kGet = 3,
  kAdd = 4,
  kCheck = 5,
  kWait = 6,
  kGetNumKeys = 7,
  kDeleteKey = 8,
  kAppend = 9,
  kMultiGet = 10,
  kMultiSet = 11,
  kCancelWait = 12,
  kPing = 13,
  kQueuePush = 14,
  kQueuePop = 15,
  kQueueLen = 16,
  kListKeys = 17,
};

inline constexpr int64_t kStoreValidationNumber = 0x3C85F7CE;

// Limits of torch's own server, which drops a client that exceeds them.
inline constexpr uint64_t kMaxStoreKeys = 128U << 10U;
inline constexpr uint64_t kMaxStoreKeyBytes = 8U << 10U;
inline constexpr uint64_t kMaxStoreValueBytes = 8U << 20U;

struct StoreRequest {
  StoreOp op = StoreOp::kValidate;
  std::vector<std::string> texts;  // keys and values, in the order of the wire
  int64_t number = 0;              // the amount of kAdd, the number of kValidate and kPing
};

// Cuts a stream of bytes into requests.
class StoreRequestParser {
 public:
  void Append(std::string_view bytes) { buffer_.append(bytes); }

  // The next complete request; none when more bytes are needed. kBadFile, naming the operation or
  // the limit, when the bytes are not a request: nothing can be read after that.
  Result<std::optional<StoreRequest>> Next();

 private:
  enum class Progress { kDone, kNeedsMore };

  Result<Progress> ReadField(char field);
  Result<Progress> ReadTexts(uint64_t texts_per_item);
  Result<Progress> ReadText(uint64_t max_bytes);
  template <typename Number>
  std::optional<Number> ReadNumber();

  std::string buffer_;
  size_t at_ = 0;  // bytes of the buffer read so far
  bool in_request_ = false;
  StoreRequest request_;
  size_t field_ = 0;                 // fields of the request read so far
  std::optional<uint64_t> missing_;  // texts of the current list still to be read
};

}  // namespace prism::launch
