#include "replayer/memory/pickle.h"

#include <limits>
#include <utility>

namespace prism::replayer {
namespace {

// Opcodes: Python's pickletools.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kBinUnicode = 'X',
  kAppends = 'e',
  kEmptyList = ']',
  kEmptyDict = '}',
  kSetItems = 'u',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kProto = 0x80,
  kTuple2 = 0x86,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8A,
  kShortBinUnicode = 0x8C,
  kMemoize = 0x94,
};

}  // namespace

PickleWriter::PickleWriter() {
  out_ = {static_cast<char>(kProto), 4};
}

void PickleWriter::Little(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    out_.push_back(static_cast<char>((value >> (8U * static_cast<unsigned>(i))) & 0xFFU));
  }
}

void PickleWriter::BeginList() {
  out_ += {kEmptyList, kMark};
}

void PickleWriter::EndList() {
  out_.push_back(kAppends);
}

void PickleWriter::BeginDict() {
  out_ += {kEmptyDict, kMark};
}

void PickleWriter::EndDict() {
  out_.push_back(kSetItems);
}

void PickleWriter::Pair(int64_t first, int64_t second) {
  Int(first);
  Int(second);
  out_.push_back(static_cast<char>(kTuple2));
}

void PickleWriter::Bool(bool value) {
  out_.push_back(static_cast<char>(value ? kNewTrue : kNewFalse));
}

void PickleWriter::Int(int64_t value) {
  if (value >= 0 && value < 256) {
    out_.push_back(kBinInt1);
    Little(static_cast<uint64_t>(value), 1);
  } else if (value >= std::numeric_limits<int32_t>::min() &&
             value <= std::numeric_limits<int32_t>::max()) {
    out_.push_back(kBinInt);
    Little(static_cast<uint64_t>(value), 4);
  } else {
    out_ += {static_cast<char>(kLong1), 8};
    Little(static_cast<uint64_t>(value), 8);
  }
}

void PickleWriter::String(const std::string& text) {
  const auto [entry, is_new] = memo_.emplace(text, static_cast<uint32_t>(memo_.size()));
  if (!is_new) {
    const bool is_short = entry->second < 256;
    out_.push_back(is_short ? kBinGet : kLongBinGet);
    Little(entry->second, is_short ? 1 : 4);
    return;
  }
  const bool is_short = text.size() < 256;
  out_.push_back(static_cast<char>(is_short ? kShortBinUnicode : kBinUnicode));
  Little(text.size(), is_short ? 1 : 4);
  out_ += text;
  out_.push_back(static_cast<char>(kMemoize));
}

std::string PickleWriter::Finish() {
  out_.push_back(kStop);
  return std::move(out_);
}

}  // namespace prism::replayer
