#include "graph/base/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "graph/base/check.h"

namespace prism {
namespace {

// Bytes of the UTF-8 sequence that starts at `at`, 0 when it is damaged there.
size_t SequenceLength(std::string_view text, size_t at) {
  const auto byte = [&](size_t offset) -> unsigned {
    return at + offset < text.size() ? static_cast<unsigned char>(text[at + offset]) : 0U;
  };
  const unsigned lead = byte(0);
  const size_t length = lead < 0x80   ? 1
                        : lead < 0xC2 ? 0
                        : lead < 0xE0 ? 2
                        : lead < 0xF0 ? 3
                        : lead < 0xF5 ? 4
                                      : 0;
  for (size_t offset = 1; offset < length; ++offset) {
    if ((byte(offset) & 0xC0U) != 0x80U) {
      return 0;
    }
  }
  // Overlong forms, surrogates and code points past U+10FFFF show only in the second byte.
  const unsigned second = byte(1);
  const bool bad = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0) ||
                   (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90);
  return bad ? 0 : length;
}

}  // namespace

JsonWriter::JsonWriter(std::string* out, Style style) : out_(out), style_(style) {
}

JsonWriter& JsonWriter::BeginObject() {
  BeforeValue();
  out_->push_back('{');
  scopes_.push_back({.is_object = true});
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  return End(true, '}');
}

JsonWriter& JsonWriter::BeginArray() {
  BeforeValue();
  out_->push_back('[');
  scopes_.push_back({.is_object = false});
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  return End(false, ']');
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  PRISM_CHECK(!scopes_.empty() && scopes_.back().is_object && !after_key_);
  if (!scopes_.back().empty) {
    out_->push_back(',');
  }
  scopes_.back().empty = false;
  NextLine();
  AppendQuoted(key);
  out_->append(": ");
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::Value(std::string_view text) {
  BeforeValue();
  AppendQuoted(text);
  return *this;
}

JsonWriter& JsonWriter::Value(bool value) {
  BeforeValue();
  out_->append(value ? "true" : "false");
  return *this;
}

JsonWriter& JsonWriter::Value(double value) {
  if (!std::isfinite(value)) {
    return Null();
  }
  BeforeValue();
  std::array<char, 32> digits{};
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out_->append(digits.data(), result.ptr);
  return *this;
}

JsonWriter& JsonWriter::Null() {
  BeforeValue();
  out_->append("null");
  return *this;
}

JsonWriter& JsonWriter::Written(std::string_view json) {
  BeforeValue();
  out_->append(json);
  return *this;
}

JsonWriter& JsonWriter::Signed(int64_t value) {
  BeforeValue();
  fmt::format_to(std::back_inserter(*out_), "{}", value);
  return *this;
}

JsonWriter& JsonWriter::Unsigned(uint64_t value) {
  BeforeValue();
  fmt::format_to(std::back_inserter(*out_), "{}", value);
  return *this;
}

void JsonWriter::BeforeValue() {
  if (scopes_.empty()) {
    PRISM_CHECK(!has_root_);
    has_root_ = true;
    return;
  }
  if (scopes_.back().is_object) {
    PRISM_CHECK(after_key_);
    after_key_ = false;
    return;
  }
  if (!scopes_.back().empty) {
    out_->push_back(',');
  }
  scopes_.back().empty = false;
  NextLine();
}

void JsonWriter::NextLine() {
  if (style_ == Style::kPretty) {
    out_->push_back('\n');
    out_->append(2 * scopes_.size(), ' ');
  } else if (out_->back() == ',') {
    out_->push_back(' ');
  }
}

JsonWriter& JsonWriter::End(bool is_object, char bracket) {
  PRISM_CHECK(!scopes_.empty() && scopes_.back().is_object == is_object && !after_key_);
  const bool empty = scopes_.back().empty;
  scopes_.pop_back();
  if (!empty) {
    NextLine();
  }
  out_->push_back(bracket);
  return *this;
}

void JsonWriter::AppendQuoted(std::string_view text) {
  out_->push_back('"');
  for (size_t at = 0; at < text.size();) {
    const size_t length = SequenceLength(text, at);
    const char byte = text[at];
    if (length == 0) {
      out_->append("\\ufffd");  // not UTF-8: a kernel or file name can hold anything
    } else if (byte == '"' || byte == '\\') {
      out_->push_back('\\');
      out_->push_back(byte);
    } else if (byte == '\n') {
      out_->append("\\n");
    } else if (length == 1 && static_cast<unsigned char>(byte) < 0x20) {
      fmt::format_to(std::back_inserter(*out_), "\\u{:04x}", static_cast<unsigned>(byte));
    } else {
      out_->append(text.substr(at, length));
    }
    at += length == 0 ? 1 : length;
  }
  out_->push_back('"');
}

std::string JsonText(const std::function<void(JsonWriter&)>& write) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  write(json);
  json.EndObject();
  return text + '\n';
}

}  // namespace prism
