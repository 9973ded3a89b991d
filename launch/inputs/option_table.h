// A table of options, in which each is stated once: its name, what it takes, what it does and the
// member that it sets. prism-emulate, every verb of prism and the built-in program have one.
// Reading a command line, the environment and a config file, --help, printed configs, "did you
// mean" and shell completion are loops over its rows, and the default that --help shows is the
// initialiser of the member.
//
//   struct Cut { int32_t depth = 3; bool loud = false; };
//   const std::vector<Option<Cut>> table = {
//       {"depth", &Cut::depth, WholeNumber(1, 9), "how deep"},
//       {"loud", &Cut::loud, Switch(), "with sound"}};
//
// The names follow from the flag: `--micro-batch-size` is PRISM_MICRO_BATCH_SIZE in the environment
// and `micro_batch_size` in a config file; on the command line underscores count as dashes.
//
// What a text means is in a Kind<V>, which knows nothing of the table; where the value goes is in
// the row, which strips V and the member to each other: a member may be optional (not given stays
// distinguishable), of a narrower number, or a list, which makes the option repeatable.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/enum_names.h"
#include "graph/base/parse_number.h"
#include "graph/base/status.h"

namespace prism::launch {

// What an option takes.
template <typename V>
struct Kind {
  std::string value_name;  // as --help shows it; "" for a switch
  std::function<std::string(std::string_view text, V* value)> read;  // what is wrong, or ""
  std::function<std::string(const V& value)> write;
  bool is_bare = false;                 // written without quotes in TOML
  std::vector<std::string> words = {};  // all that it takes; with a FILE in its name, the presets
};

Kind<int64_t> WholeNumber(int64_t lowest, int64_t highest, std::string value_name = "N");
Kind<double> NumberAbove0(std::string value_name,
                          double highest = std::numeric_limits<double>::infinity());
Kind<std::string> Text(std::string value_name, std::vector<std::string> suggestions = {});
Kind<std::string> OneOf(std::vector<std::string> words);
Kind<bool> OnOff();
Kind<bool> Switch();

// "'x' is unknown; choose one of a, b".
std::string UnknownWord(std::string_view text, const std::vector<std::string>& words);

template <typename E, size_t N>
Kind<E> OneOf(const std::array<EnumName<E>, N>& names) {
  return {JoinedNames(names),
          [names](std::string_view text, E* value) {
            const auto named = ValueNamed(names, text);
            *value = named.value_or(*value);
            return named ? std::string() : UnknownWord(text, AllNames(names));
          },
          [names](const E& value) { return std::string(NameOf(names, value)); },
          std::is_arithmetic_v<E>, AllNames(names)};
}

// What was said for an option.
struct Given {
  std::vector<std::string> texts;  // at least one; several only of a repeatable option
  std::string origin;              // "--tp", "PRISM_TP", "job.toml:3: tp"
  std::string file;                // the config file; "" for other origins

  bool operator==(const Given&) const = default;
};

using GivenOptions = std::map<std::string, Given, std::less<>>;  // by key

// An option without the member that it sets.
struct OptionRow {
  std::string flag = {};  // without dashes: "micro-batch-size"
  std::string value_name = {};
  std::string default_text = {};
  std::string help = {};
  bool is_repeatable = false;
  bool is_bare = false;
  std::vector<std::string> words = {};
  std::string group = {};  // the heading in --help and, in small letters, the section of a config
  std::string alias = {};  // another flag for the same

  [[nodiscard]] bool is_switch() const { return value_name.empty(); }
  [[nodiscard]] bool names_file() const;     // judged by the name of its value
  [[nodiscard]] std::string dashed() const;  // "--micro-batch-size", "-o"
  [[nodiscard]] std::string key() const;     // "micro_batch_size"
  [[nodiscard]] std::string variable() const;
};

template <typename M>
struct OptionMember {
  using Value = M;
  static constexpr bool kIsOptional = false;
  static constexpr bool kIsList = false;
};
template <typename M>
struct OptionMember<std::optional<M>> : OptionMember<M> {
  static constexpr bool kIsOptional = true;
};
template <typename M>
struct OptionMember<std::vector<M>> : OptionMember<M> {
  static constexpr bool kIsList = true;
};

template <typename T>
struct Option : OptionRow {
  // What is wrong with what was said, or "".
  std::function<std::string(const Given&, T*)> read;
  // The texts that give these values again; none if the member is not set.
  std::function<std::vector<std::string>(const T&)> write;

  // `field` is a pointer to a member, or a function from a T to a reference in it. `default_words`
  // describe a default that is not the member's initial value.
  template <typename Field, typename V>
  Option(const char* name,
         Field field,
         Kind<V> kind,
         std::string what = "",
         std::optional<std::string> default_words = {}) {
    using M = std::remove_cvref_t<std::invoke_result_t<Field, T&>>;
    constexpr bool kAppends = OptionMember<M>::kIsList && !std::is_same_v<M, V>;
    read = [field, reads = kind.read](const Given& given, T* target) -> std::string {
      M& member = std::invoke(field, *target);
      if constexpr (kAppends) {
        member.clear();
        for (const std::string& text : given.texts) {
          V value = {};
          if (std::string wrong = reads(text, &value); !wrong.empty()) {
            return wrong;
          }
          member.push_back(std::move(value));
        }
        return "";
      } else {
        V value = {};
        std::string wrong = reads(given.texts.back(), &value);
        if (wrong.empty()) {
          if constexpr (std::is_same_v<M, V>) {
            member = std::move(value);
          } else {
            member = static_cast<typename OptionMember<M>::Value>(std::move(value));
          }
        }
        return wrong;
      }
    };
    write = [field, writes = kind.write](const T& target) -> std::vector<std::string> {
      const M& member = std::invoke(field, target);
      std::vector<std::string> texts;
      if constexpr (kAppends) {
        for (const auto& value : member) {
          texts.push_back(writes(static_cast<V>(value)));
        }
      } else if constexpr (OptionMember<M>::kIsOptional && !std::is_same_v<M, V>) {
        if (member) {
          texts = {writes(static_cast<V>(*member))};
        }
      } else {
        texts = {writes(static_cast<V>(member))};
      }
      std::erase(texts, "");
      return texts;
    };
    static_cast<OptionRow&>(*this) = {
        name,         std::move(kind.value_name), "", std::move(what), kAppends,
        kind.is_bare, std::move(kind.words)};
    if (default_words || !is_switch()) {
      default_text = default_words ? *default_words : fmt::format("{}", fmt::join(write(T()), " "));
    }
  }

  // For a value that no single member holds.
  Option(OptionRow row,
         std::function<std::string(const Given&, T*)> reads,
         std::function<std::vector<std::string>(const T&)> writes)
      : OptionRow(std::move(row)), read(std::move(reads)), write(std::move(writes)) {}

  // A row of a struct that T is derived from.
  template <typename Base>
    requires(!std::is_same_v<Base, T> && std::is_base_of_v<Base, T>)
  Option(const Option<Base>& row)  // NOLINT(google-explicit-constructor): the same row
      : OptionRow(row), read(row.read), write(row.write) {}
};

// The member of a member: At(&Job::model, &Model::layers).
auto At(auto... members) {
  return [members...](auto& target) -> auto& { return (target.*....*members); };
}

template <typename T>
std::vector<OptionRow> RowsOf(const std::vector<Option<T>>& table) {
  return {table.begin(), table.end()};
}

// Adds rows, of which each is or becomes an R.
template <typename R>
void Append(const auto& rows, std::vector<R>* table) {
  table->insert(table->end(), rows.begin(), rows.end());
}

// "ORIGIN: what is wrong", or "ORIGIN is ..."; kBadFile if the text is in a file.
Status Misread(const Given& given, const std::string& wrong);

// Sets the members whose options are given.
template <typename T>
Status ReadOptions(const std::vector<Option<T>>& table, const GivenOptions& given, T* target) {
  for (const Option<T>& option : table) {
    if (const auto found = given.find(option.key()); found != given.end()) {
      PRISM_RETURN_IF_ERROR(Misread(found->second, option.read(found->second, target)));
    }
  }
  return OkStatus();
}

struct SplitCommandLine {
  GivenOptions given;
  std::vector<std::string> operands;

  // Whether the switch was given, and not to turn it off.
  [[nodiscard]] bool IsOn(std::string_view key) const;
};

// Options may be anywhere, as --name value or --name=value; -h is --help, which every command has.
// kInvalidArgument, with the nearest known name, for an unknown option, for one without its value
// (no value begins with "--"), and for a second value of one that is not repeatable. `help` is the
// command that messages point to: "prism replay --help". A command that takes no operands gets
// unknown options behind the first one as operands, too, for its message.
Result<SplitCommandLine> SplitArguments(const std::vector<OptionRow>& rows,
                                        const std::vector<std::string>& arguments,
                                        const std::string& help,
                                        bool takes_operands = true);

// The lines of --help: "  --name VALUE", then what it does, with its default in brackets, wrapped
// at 100 columns.
std::string OptionHelp(const OptionRow& row);

// The known name nearest to `name`, or "" when none is near: for "did you mean".
std::string NearestName(std::string_view name, const std::vector<std::string>& known);

// Letters to add, to leave out or to change to get from one to the other (Levenshtein).
size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace prism::launch
