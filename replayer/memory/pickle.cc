#include "replayer/memory/pickle.h"

#include <array>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace prism::replayer {
namespace {

// Opcodes: Python's pickletools.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kNone = 'N',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kBinFloat = 'G',
  kBinUnicode = 'X',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyList = ']',
  kEmptyDict = '}',
  kEmptyTuple = ')',
  kTuple = 't',
  kSetItem = 's',
  kSetItems = 'u',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8A,
  kShortBinUnicode = 0x8C,
  kMemoize = 0x94,
  kFrame = 0x95,
};

constexpr uint8_t kNewestProtocol = 5;

constexpr uint32_t kNoPiece = 0xFFFFFFFF;
constexpr uint32_t kPieceHead = 2;  // words before its elements

uint32_t FirstPiece(const PickleValue& container) {
  return static_cast<uint32_t>(container.number);
}

uint32_t LastPiece(const PickleValue& container) {
  return static_cast<uint32_t>(static_cast<uint64_t>(container.number) >> 32U);
}

int64_t Pieces(uint32_t first, uint32_t last) {
  return static_cast<int64_t>(uint64_t{last} << 32U | first);
}

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

std::string_view PickleTree::Text(const PickleValue& value) const {
  return value.kind == PickleValue::Kind::kString
             ? bytes_.substr(static_cast<size_t>(value.number), value.count)
             : std::string_view();
}

template <typename Visit>
void PickleTree::ForElements(const PickleValue& value, const Visit& visit) const {
  const bool holds =
      value.kind == PickleValue::Kind::kSequence || value.kind == PickleValue::Kind::kDict;
  uint32_t piece = holds && value.count > 0 ? FirstPiece(value) : kNoPiece;
  for (; piece != kNoPiece; piece = pieces_[piece + 1]) {
    for (uint32_t i = 0; i < pieces_[piece]; ++i) {
      if (!visit(pieces_[piece + kPieceHead + i])) {
        return;
      }
    }
  }
}

std::vector<uint32_t> PickleTree::Elements(const PickleValue& value) const {
  std::vector<uint32_t> elements;
  ForElements(value, [&](uint32_t element) {
    elements.push_back(element);
    return true;
  });
  return elements;
}

const PickleValue* PickleTree::Find(const PickleValue& dict, std::string_view key) const {
  const PickleValue* found = nullptr;
  bool is_key = false;
  bool matches = false;
  if (dict.kind == PickleValue::Kind::kDict) {
    ForElements(dict, [&](uint32_t element) {
      is_key = !is_key;
      found = matches ? &values_[element] : nullptr;
      matches = is_key && values_[element].kind == PickleValue::Kind::kString &&
                Text(values_[element]) == key;
      return found == nullptr;
    });
  }
  return found;
}

// The stack machine of pickle. Every step checks what it takes from the input and from the stack.
class PickleReader {
 public:
  PickleReader(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {
    tree_.bytes_ = bytes;
    small_.fill(kUnknown);
  }

  Result<PickleTree> Read() {
    while (!stopped_) {
      const size_t at = position_;
      const std::optional<uint64_t> opcode = Take(1);
      if (!opcode || !Step(static_cast<uint8_t>(*opcode))) {
        return BadFile(fmt::format("{}: byte {} of its pickle cannot be read", name_, at));
      }
      if (Taken() > kFreePickleBytes + kMostPickleRatio * bytes_.size()) {
        return BadFile(
            fmt::format("{}: byte {} of its pickle: its values take more than {} times its size",
                        name_, at, kMostPickleRatio));
      }
    }
    tree_.root_ = stack_.back();
    return std::move(tree_);
  }

 private:
  using Kind = PickleValue::Kind;

  static constexpr uint32_t kUnknown = 0xFFFFFFFF;
  static constexpr int64_t kSmall = 256;

  [[nodiscard]] size_t Taken() const {
    return tree_.values_.size() * sizeof(PickleValue) + marks_.size() * sizeof(size_t) +
           (tree_.pieces_.size() + stack_.size() + memo_.size()) * sizeof(uint32_t);
  }

  std::optional<uint64_t> Take(size_t bytes) {
    if (bytes_.size() - position_ < bytes) {
      return std::nullopt;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) {
      value |= uint64_t{static_cast<uint8_t>(bytes_[position_ + i])} << (8U * i);
    }
    position_ += bytes;
    return value;
  }

  bool Push(const PickleValue& value) {
    stack_.push_back(static_cast<uint32_t>(tree_.values_.size()));
    tree_.values_.push_back(value);
    return true;
  }

  // Values that never change and are written often are one.
  bool PushNumber(Kind kind, int64_t number) {
    const bool is_small = kind == Kind::kInt && number >= 0 && number < kSmall;
    const int64_t place = is_small ? number : kSmall + number;
    if (!is_small && kind == Kind::kInt) {
      return Push({kind, 0, number});
    }
    uint32_t& known = small_[static_cast<size_t>(kind == Kind::kNone ? kSmall + 2 : place)];
    if (known == kUnknown) {
      known = static_cast<uint32_t>(tree_.values_.size());
      tree_.values_.push_back({kind, 0, number});
    }
    stack_.push_back(known);
    return true;
  }

  bool PushString(size_t length_bytes) {
    const std::optional<uint64_t> length = Take(length_bytes);
    if (!length || bytes_.size() - position_ < *length) {
      return false;
    }
    const auto begin = static_cast<int64_t>(position_);
    position_ += *length;
    return Push({Kind::kString, static_cast<uint32_t>(*length), begin});
  }

  // Two's complement, little endian, of up to 9 bytes: the top bit of an address may be set.
  bool PushLong() {
    const std::optional<uint64_t> size = Take(1);
    if (!size || *size > 9) {
      return false;
    }
    const size_t kept = std::min<size_t>(*size, 8);
    const std::optional<uint64_t> low = Take(kept);
    const std::optional<uint64_t> high = Take(*size - kept);
    if (!low || !high || *high != 0) {
      return false;
    }
    uint64_t value = *low;
    const bool is_negative = *size > 0 && *size < 8 && ((value >> (8U * *size - 1)) & 1U) != 0;
    if (is_negative) {
      value |= ~uint64_t{0} << (8U * *size);
    }
    return PushNumber(Kind::kInt, static_cast<int64_t>(value));
  }

  bool PushContainer(Kind kind) { return Push({kind, 0, Pieces(kNoPiece, kNoPiece)}); }

  // The stack above `begin`, as the container's next elements.
  void Fill(size_t begin, PickleValue* container) {
    const auto count = static_cast<uint32_t>(stack_.size() - begin);
    std::deque<uint32_t>& pieces = tree_.pieces_;
    const uint32_t last = LastPiece(*container);
    const bool grows = last != kNoPiece && last + kPieceHead + pieces[last] == pieces.size();
    if (count > 0 && !grows) {
      const auto piece = static_cast<uint32_t>(pieces.size());
      pieces.insert(pieces.end(), {0, kNoPiece});
      if (last != kNoPiece) {
        pieces[last + 1] = piece;
      }
      container->number = Pieces(last == kNoPiece ? piece : FirstPiece(*container), piece);
    }
    if (count > 0) {
      pieces[LastPiece(*container)] += count;
      container->count += count;
    }
    pieces.insert(pieces.end(), stack_.begin() + static_cast<ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin);
  }

  // Moves the stack above `begin` into the container below it, which stays on the stack.
  bool MoveInto(Kind kind, size_t begin) {
    if (begin == 0 || begin > stack_.size() || (!marks_.empty() && marks_.back() >= begin)) {
      return false;
    }
    PickleValue& container = tree_.values_[stack_[begin - 1]];
    const size_t count = stack_.size() - begin;
    if (container.kind != kind || (kind == Kind::kDict && count % 2 != 0)) {
      return false;
    }
    Fill(begin, &container);
    return true;
  }

  bool MoveFromMark(Kind kind) {
    if (marks_.empty()) {
      return false;
    }
    const size_t begin = marks_.back();
    marks_.pop_back();
    return MoveInto(kind, begin);
  }

  bool MakeTuple(size_t begin) {
    if (begin > stack_.size() || (!marks_.empty() && marks_.back() > begin)) {
      return false;
    }
    PickleValue tuple = {Kind::kSequence, 0, Pieces(kNoPiece, kNoPiece)};
    Fill(begin, &tuple);
    return Push(tuple);
  }

  bool MakeTupleOf(size_t count) {
    return stack_.size() >= count && MakeTuple(stack_.size() - count);
  }

  bool MakeTupleFromMark() {
    if (marks_.empty()) {
      return false;
    }
    const size_t begin = marks_.back();
    marks_.pop_back();
    return MakeTuple(begin);
  }

  bool Remember(std::optional<uint64_t> index) {
    if (!index || stack_.empty()) {
      return false;
    }
    if (*index >= memo_.size()) {
      if (*index > bytes_.size()) {
        return false;  // they are numbered as they come
      }
      memo_.resize(*index + 1, kUnknown);
    }
    memo_[*index] = stack_.back();
    return true;
  }

  bool Recall(size_t index_bytes) {
    const std::optional<uint64_t> index = Take(index_bytes);
    if (!index || *index >= memo_.size() || memo_[*index] == kUnknown) {
      return false;
    }
    stack_.push_back(memo_[*index]);
    return true;
  }

  bool PushInt(size_t bytes) {
    const std::optional<uint64_t> value = Take(bytes);
    if (!value) {
      return false;
    }
    const int64_t number =
        bytes == 4 ? int64_t{static_cast<int32_t>(*value)} : static_cast<int64_t>(*value);
    return PushNumber(Kind::kInt, number);
  }

  bool Step(uint8_t opcode) {
    switch (opcode) {
      case kProto: {
        const std::optional<uint64_t> protocol = Take(1);
        return protocol && *protocol <= kNewestProtocol;
      }
      case kFrame:
        return Take(8).has_value();
      case kMark:
        marks_.push_back(stack_.size());
        return true;
      case kStop:
        stopped_ = true;
        return stack_.size() == 1 && marks_.empty();
      case kAppend:
        return stack_.size() >= 2 && MoveInto(Kind::kSequence, stack_.size() - 1);
      case kAppends:
        return MoveFromMark(Kind::kSequence);
      case kSetItem:
        return stack_.size() >= 3 && MoveInto(Kind::kDict, stack_.size() - 2);
      case kSetItems:
        return MoveFromMark(Kind::kDict);
      case kMemoize:
        return Remember(memo_.size());
      case kBinPut:
        return Remember(Take(1));
      case kLongBinPut:
        return Remember(Take(4));
      case kBinGet:
        return Recall(1);
      case kLongBinGet:
        return Recall(4);
      default:
        return StepValue(opcode);
    }
  }

  bool StepValue(uint8_t opcode) {
    switch (opcode) {
      case kNone:
        return PushNumber(Kind::kNone, 0);
      case kNewTrue:
        return PushNumber(Kind::kBool, 1);
      case kNewFalse:
        return PushNumber(Kind::kBool, 0);
      case kBinInt:
        return PushInt(4);
      case kBinInt1:
        return PushInt(1);
      case kBinInt2:
        return PushInt(2);
      case kLong1:
        return PushLong();
      case kBinFloat:
        return Take(sizeof(double)) && Push({Kind::kFloat, 0, 0});
      case kShortBinUnicode:
        return PushString(1);
      case kBinUnicode:
        return PushString(4);
      case kEmptyList:
        return PushContainer(Kind::kSequence);
      case kEmptyDict:
        return PushContainer(Kind::kDict);
      case kEmptyTuple:
        return MakeTuple(stack_.size());
      case kTuple:
        return MakeTupleFromMark();
      case kTuple1:
        return MakeTupleOf(1);
      case kTuple2:
        return MakeTupleOf(2);
      case kTuple3:
        return MakeTupleOf(3);
      default:
        return false;
    }
  }

  std::string_view bytes_;
  const std::string& name_;
  size_t position_ = 0;
  bool stopped_ = false;
  PickleTree tree_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;  // sizes of the stack
  std::vector<uint32_t> memo_;
  std::array<uint32_t, kSmall + 3> small_ = {};  // integers, booleans and None
};

Result<PickleTree> ReadPickle(std::string_view bytes, const std::string& name) {
  return PickleReader(bytes, name).Read();
}

}  // namespace prism::replayer
