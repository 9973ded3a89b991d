// JSON as a stream: keys in the order written, doubles in their shortest form that reads back the
// same, no tree in memory. Misuse (a value without a key inside an object, an unclosed scope) is a
// broken invariant of ours and is checked.
//
//   return JsonText([&](JsonWriter& json) {
//     json.Field("ranks", 8192);
//     json.Key("names").BeginArray().Value("tp").Value("dp").EndArray();
//   });
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

namespace prism {

class JsonWriter {
 public:
  enum class Style : uint8_t { kPretty, kOneLine };  // kPretty: two spaces per level

  // Appends to `out`, which must outlive the writer.
  explicit JsonWriter(std::string* out, Style style = Style::kPretty);

  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view key);

  JsonWriter& Value(std::string_view text);
  JsonWriter& Value(const char* text) { return Value(std::string_view(text)); }
  JsonWriter& Value(bool value);
  JsonWriter& Value(double value);  // null when not finite: JSON cannot express it
  JsonWriter& Null();
  JsonWriter& Written(std::string_view json);  // a value that is already JSON, verbatim

  template <std::signed_integral Int>
  JsonWriter& Value(Int value) {
    return Signed(value);
  }

  template <std::unsigned_integral Int>
  JsonWriter& Value(Int value) {
    return Unsigned(value);
  }

  template <typename T>
  JsonWriter& Field(std::string_view key, const T& value) {
    return Key(key).Value(value);
  }

  JsonWriter& NullField(std::string_view key) { return Key(key).Null(); }

  // null for what is not known.
  template <typename T>
  JsonWriter& OptionalField(std::string_view key, const std::optional<T>& value) {
    return value.has_value() ? Field(key, *value) : NullField(key);
  }

  // What `of` makes of each.
  template <std::ranges::input_range Values, typename Of = std::identity>
  JsonWriter& ArrayField(std::string_view key, const Values& values, Of of = {}) {
    Key(key).BeginArray();
    for (const auto& value : values) {
      Value(std::invoke(of, value));
    }
    return EndArray();
  }

  // An object of each, with the fields that `write` writes of it.
  template <std::ranges::input_range Items, typename Write>
  JsonWriter& ObjectsField(std::string_view key, const Items& items, Write write) {
    Key(key).BeginArray();
    for (const auto& item : items) {
      BeginObject();
      write(item);
      EndObject();
    }
    return EndArray();
  }

  // True when every scope is closed and one value was written.
  [[nodiscard]] bool complete() const { return scopes_.empty() && has_root_; }

 private:
  struct Scope {
    bool is_object;
    bool empty = true;
  };

  JsonWriter& Signed(int64_t value);
  JsonWriter& Unsigned(uint64_t value);
  void BeforeValue();
  void NextLine();
  JsonWriter& End(bool is_object, char bracket);
  void AppendQuoted(std::string_view text);

  std::string* out_;
  Style style_;
  std::vector<Scope> scopes_;
  bool after_key_ = false;
  bool has_root_ = false;
};

// A document of one object, with the fields that `write` writes, and a line end.
std::string JsonText(const std::function<void(JsonWriter&)>& write);

}  // namespace prism
