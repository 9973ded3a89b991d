// Text as the JSON parser reads it, a piece after the other. The parser's own stream takes one byte
// at a time through the object; this one lets it hold the place in registers, skip blanks and copy
// texts in runs.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>

#include <rapidjson/reader.h>

#include "slicer/import/kineto/trace_file.h"

namespace prism::slicer {

class TextStream {
 public:
  using Ch = char;

  // `first` and what `more` gives until it gives nothing. It must outlive this.
  TextStream(std::string_view first, const TextPieces& more) : more_(&more) { Begin(first); }

  [[nodiscard, gnu::always_inline]] Ch Peek() {
    return place_ != end_ || Refill() ? *place_ : '\0';
  }
  [[gnu::always_inline]] Ch Take() { return place_ != end_ || Refill() ? *place_++ : '\0'; }
  [[nodiscard]] size_t Tell() const { return before_ + static_cast<size_t>(place_ - begin_); }

  // Whether all of the text is not longer than that.
  bool IsWithin(size_t length) {
    do {
      place_ = end_;
      if (Tell() > length) {
        return false;
      }
    } while (Refill());
    return true;
  }

  [[gnu::always_inline]] void SkipBlanks() {
    SkipInPiece();
    while (place_ == end_ && Refill()) {
      SkipInPiece();
    }
  }

  // What stands for itself in a text: no end, escape or control character. Of a long run only the
  // first part, so that its copy grows as other texts' do.
  std::string_view TakePlain() {
    const char* const begin = place_;
    const char* const limit = end_ - place_ > kMostPlain ? place_ + kMostPlain : end_;
#ifdef __SSE2__
    for (; limit - place_ >= kBlock; place_ += kBlock) {
      const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(place_));
      const __m128i lowest = _mm_set1_epi8(0x1F);
      const __m128i control = _mm_cmpeq_epi8(_mm_max_epu8(block, lowest), lowest);
      const __m128i special = _mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8('"')),
                                           _mm_cmpeq_epi8(block, _mm_set1_epi8('\\')));
      const auto ends = static_cast<uint32_t>(_mm_movemask_epi8(_mm_or_si128(control, special)));
      if (ends != 0) {
        place_ += std::countr_zero(ends);
        return {begin, static_cast<size_t>(place_ - begin)};
      }
    }
#endif
    while (place_ != limit && *place_ != '"' && *place_ != '\\' &&
           static_cast<unsigned char>(*place_) >= 0x20) {
      ++place_;
    }
    return {begin, static_cast<size_t>(place_ - begin)};
  }

  // Of streams that are written to, which this is not.
  static Ch* PutBegin() { return nullptr; }
  static void Put(Ch /*byte*/) {}
  static size_t PutEnd(Ch* /*begin*/) { return 0; }

 private:
  static constexpr ptrdiff_t kBlock = 16;  // bytes that are looked at together
  static constexpr ptrdiff_t kMostPlain = 4096;

  void Begin(std::string_view piece) {
    begin_ = piece.data();
    place_ = begin_;
    end_ = begin_ + piece.size();
  }

  [[gnu::always_inline]] void SkipInPiece() {
    constexpr auto is_blank = [](char c) {
      return c == ' ' || c == '\n' || c == '\r' || c == '\t';
    };
    while (place_ != end_ && is_blank(*place_)) {
      ++place_;
    }
  }

  // Goes on with the next piece, at the end of one; false where there is none. Seldom called, and
  // kept out of the parser's loops.
  [[gnu::noinline]] bool Refill() {
    const size_t before = Tell();
    const std::string_view piece = more_ == nullptr ? std::string_view() : (*more_)();
    if (piece.empty()) {
      more_ = nullptr;
      return false;
    }
    before_ = before;
    Begin(piece);
    return true;
  }

  const TextPieces* more_;
  size_t before_ = 0;  // bytes of earlier pieces
  const char* place_ = nullptr;
  const char* begin_ = nullptr;
  const char* end_ = nullptr;
};

// The library's own does not look whether it got memory.
class ThrowingAllocator {
 public:
  static constexpr bool kNeedFree = true;

  static void* Malloc(size_t size) { return size == 0 ? nullptr : ::operator new(size); }

  static void* Realloc(void* old, size_t old_size, size_t size) {
    void* const grown = Malloc(size);
    std::copy_n(static_cast<const char*>(old), std::min(old_size, size), static_cast<char*>(grown));
    Free(old);
    return grown;
  }

  static void Free(void* memory) { ::operator delete(memory); }

  bool operator==(const ThrowingAllocator&) const { return true; }
  bool operator!=(const ThrowingAllocator&) const { return false; }
};

using TextReader =
    rapidjson::GenericReader<rapidjson::UTF8<>, rapidjson::UTF8<>, ThrowingAllocator>;

}  // namespace prism::slicer

// The parser's places for faster streams.
namespace rapidjson {

template <>
struct StreamTraits<prism::slicer::TextStream> {
  enum { copyOptimization = 1 };
};

template <>
inline void SkipWhitespace(prism::slicer::TextStream& stream) {
  stream.SkipBlanks();
}

template <>
template <>
inline void prism::slicer::TextReader::ScanCopyUnescapedString(
    prism::slicer::TextStream& text, prism::slicer::TextReader::StackStream<char>& copy) {
  const std::string_view plain = text.TakePlain();
  if (!plain.empty()) {
    std::memcpy(copy.Push(static_cast<SizeType>(plain.size())), plain.data(), plain.size());
  }
}

}  // namespace rapidjson
