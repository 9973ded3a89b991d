#include "launch/analyse/flight/flight_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "replayer/memory/pickle.h"

namespace prism::launch {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 16;

// "[0, 1]": lists of ranks are text in dumps.
std::string RanksText(const Json& list) {
  std::vector<int64_t> ranks;
  for (const Json& rank : list) {
    ranks.push_back(rank.is_number_integer() ? rank.get<int64_t>() : -1);
  }
  return fmt::format("[{}]", fmt::join(ranks, ", "));
}

// False: too deep.
bool Write(const Json& value, int depth, replayer::PickleWriter* out) {
  bool fits = depth <= kMaxDepth;
  if (!fits) {
    out->Int(0);
  } else if (value.is_object()) {
    out->BeginDict();
    for (const auto& [key, held] : value.items()) {
      if (held.is_null()) {
        continue;
      }
      out->Key(key);
      if (key == "ranks" && held.is_array()) {
        out->String(RanksText(held));
      } else {
        fits = Write(held, depth + 1, out) && fits;
      }
    }
    out->EndDict();
  } else if (value.is_array()) {
    out->BeginList();
    for (const Json& held : value) {
      fits = Write(held, depth + 1, out) && fits;
    }
    out->EndList();
  } else if (value.is_string()) {
    out->String(value.get<std::string>());
  } else if (value.is_boolean()) {
    out->Bool(value.get<bool>());
  } else if (value.is_number_integer()) {
    out->Int(value.get<int64_t>());
  } else {
    out->Int(0);  // fractions and nulls, which no field that is read has
  }
  return fits;
}

}  // namespace

Result<std::string> PickleOfJson(std::string_view bytes, const std::string& name) {
  const Json document = Json::parse(bytes, nullptr, false);
  replayer::PickleWriter out;
  if (!document.is_object() || !Write(document, 0, &out)) {
    return BadFile(fmt::format("{}: is not the JSON of a flight recorder dump", name));
  }
  return out.Finish();
}

}  // namespace prism::launch
