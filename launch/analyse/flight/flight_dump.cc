#include "launch/analyse/flight/flight_dump.h"

#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launch/analyse/flight/flight_json.h"
#include "launch/analyse/flight/pickle_fields.h"

namespace prism::launch {
namespace {

using replayer::PickleTree;
using replayer::PickleValue;
using replayer::PickleWriter;
using Kind = PickleValue::Kind;

// "[0, 1, 2]", as str() of a list.
std::vector<Rank> ParseRankList(const std::string& text, PickleFields* fields) {
  std::vector<Rank> ranks;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    uint32_t rank = 0;
    const auto [next, error] = std::from_chars(at, end, rank);
    if (error == std::errc::result_out_of_range) {
      fields->Fail();
      break;
    }
    if (error == std::errc()) {
      ranks.push_back(Rank(rank));
      at = next;
    } else {
      ++at;
    }
  }
  return ranks;
}

void ReadGroups(const PickleValue* config, PickleFields* fields, FlightDump* dump) {
  if (config == nullptr) {
    return;
  }
  if (config->kind != Kind::kDict) {
    fields->Fail();
    return;
  }
  const PickleTree& tree = fields->tree();
  const std::vector<uint32_t> elements = tree.Elements(*config);
  for (size_t i = 0; i + 1 < elements.size(); i += 2) {
    const PickleValue& key = tree.at(elements[i]);
    const PickleValue& group = tree.at(elements[i + 1]);
    FlightGroup read;
    read.description = fields->Text(group, "desc");
    read.ranks = ParseRankList(fields->Text(group, "ranks"), fields);
    dump->groups.emplace(tree.Text(key), std::move(read));
  }
}

FlightTensors ReadTensors(const PickleValue& entry, const std::string& side, PickleFields* fields) {
  const PickleTree& tree = fields->tree();
  FlightTensors tensors;
  for (const PickleValue* shape : fields->Elements(tree.Find(entry, side + "_sizes"))) {
    std::vector<int64_t> sizes;
    for (const PickleValue* extent : fields->Elements(shape)) {
      sizes.push_back(extent->number);
    }
    tensors.sizes.push_back(std::move(sizes));
  }
  const PickleValue* const types = tree.Find(entry, side + "_dtypes");
  if (types == nullptr) {
    tensors.types.assign(tensors.sizes.size(), "of unknown type");
    return tensors;
  }
  for (const PickleValue* type : fields->Elements(types)) {
    tensors.types.emplace_back(tree.Text(*type));
  }
  if (tensors.types.size() != tensors.sizes.size()) {
    fields->Fail();
  }
  return tensors;
}

FlightEntry ReadEntry(const PickleValue& dict, PickleFields* fields) {
  const PickleTree& tree = fields->tree();
  FlightEntry entry;
  entry.record_id = fields->Int(dict, "record_id");
  const int64_t only_number = fields->Int(dict, "seq_id", 0);  // of version 1
  entry.collective_seq_id = fields->Int(dict, "collective_seq_id", only_number);
  entry.p2p_seq_id = fields->Int(dict, "p2p_seq_id", 0);
  entry.op_id = fields->Int(dict, "op_id", 0);
  const PickleValue* const named = tree.Find(dict, "process_group");
  const auto group = named == nullptr ? std::vector<const PickleValue*>() : fields->Elements(named);
  entry.group = group.empty() ? fmt::format("{}", fields->Int(dict, "pg_id", 0))
                              : std::string(tree.Text(*group.front()));
  entry.name = fields->Text(dict, "profiling_name");
  entry.input = ReadTensors(dict, "input", fields);
  entry.output = ReadTensors(dict, "output", fields);
  entry.state = fields->Text(dict, "state");
  entry.of_messages = fields->Flag(dict, "is_p2p") && !IsPeerEntry(entry);
  entry.created_ns = fields->Int(dict, "time_created_ns", 0);
  if (const PickleValue* const frames = tree.Find(dict, "frames"); frames != nullptr) {
    for (const PickleValue* const frame : fields->Dicts(frames)) {
      entry.frames.push_back({fields->Text(*frame, "name"), fields->Text(*frame, "filename"),
                              fields->Int(*frame, "line", 0)});
    }
  }
  return entry;
}

void WriteField(const char* key, int64_t value, PickleWriter* out) {
  out->Key(key);
  out->Int(value);
}

void WriteField(const char* key, const std::string& value, PickleWriter* out) {
  out->Key(key);
  out->String(value);
}

void WriteTensors(const std::string& side, const FlightTensors& tensors, PickleWriter* out) {
  out->Key(side + "_sizes");
  out->BeginList();
  for (const std::vector<int64_t>& shape : tensors.sizes) {
    out->BeginList();
    for (const int64_t extent : shape) {
      out->Int(extent);
    }
    out->EndList();
  }
  out->EndList();
  out->Key(side + "_dtypes");
  out->BeginList();
  for (const std::string& type : tensors.types) {
    out->String(type);
  }
  out->EndList();
}

void WriteEntry(const FlightEntry& entry, const FlightGroup& group, PickleWriter* out) {
  out->BeginDict();
  WriteField("record_id", entry.record_id, out);
  WriteField("pg_id", 0, out);
  out->Key("process_group");
  out->BeginList();
  out->String(entry.group);
  out->String(group.description);
  out->EndList();
  WriteField("collective_seq_id", entry.collective_seq_id, out);
  WriteField("p2p_seq_id", entry.p2p_seq_id, out);
  WriteField("op_id", entry.op_id, out);
  WriteField("profiling_name", entry.name, out);
  WriteField("time_created_ns", entry.created_ns, out);
  WriteTensors("input", entry.input, out);
  WriteTensors("output", entry.output, out);
  WriteField("state", entry.state, out);
  out->Key("retired");
  out->Bool(entry.state == "completed");
  out->Key("is_p2p");
  out->Bool(IsPeerEntry(entry) || entry.of_messages);
  out->Key("frames");
  out->BeginList();
  for (const FlightFrame& frame : entry.frames) {
    out->BeginDict();
    WriteField("name", frame.function, out);
    WriteField("filename", frame.file, out);
    WriteField("line", frame.line, out);
    out->EndDict();
  }
  out->EndList();
  out->EndDict();
}

}  // namespace

bool IsSendEntry(const FlightEntry& entry) {
  return entry.name.starts_with("nccl:send ");
}

bool IsPeerEntry(const FlightEntry& entry) {
  return IsSendEntry(entry) || entry.name.starts_with("nccl:recv ");
}

bool IsFlightDump(std::string_view bytes) {
  constexpr char kProtocol = '\x80';
  const size_t begin = bytes.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && (bytes[begin] == '{' || bytes.front() == kProtocol);
}

Result<FlightDump> DecodeFlightDump(std::string_view bytes, const std::string& name) {
  std::string pickled;
  if (IsFlightDump(bytes) && bytes.find('{') == bytes.find_first_not_of(" \t\r\n")) {
    PRISM_ASSIGN_OR_RETURN(pickled, PickleOfJson(bytes, name));
    bytes = pickled;
  }
  PRISM_ASSIGN_OR_RETURN(const PickleTree tree, replayer::ReadPickle(bytes, name));
  PickleFields fields(tree, bytes.size());
  FlightDump dump;
  dump.version = fields.Text(tree.root(), "version");
  if (fields.failed() || !(dump.version.starts_with("1.") || dump.version.starts_with("2."))) {
    return BadFile(fmt::format(
        "{} is not a flight recorder dump of version 1 or 2; set TORCH_FR_BUFFER_SIZE and "
        "let torch write one",
        name));
  }
  ReadGroups(tree.Find(tree.root(), "pg_config"), &fields, &dump);
  const PickleValue* const entries = tree.Find(tree.root(), "entries");
  if (entries == nullptr || entries->kind != Kind::kSequence) {
    return BadFile(
        fmt::format("{}: this flight recorder dump has no entries; dump it with "
                    "includeCollectives",
                    name));
  }
  for (const PickleValue* const entry : fields.Dicts(entries)) {
    dump.entries.push_back(ReadEntry(*entry, &fields));
    dump.groups.try_emplace(dump.entries.back().group);  // whose ranks are not known
  }
  if (fields.failed()) {
    return BadFile(fmt::format("{}: this flight recorder dump has unexpected fields", name));
  }
  return dump;
}

std::string EncodeFlightDump(const FlightDump& dump) {
  PickleWriter out;
  out.BeginDict();
  WriteField("version", dump.version, &out);
  out.Key("pg_config");
  out.BeginDict();
  for (const auto& [name, group] : dump.groups) {
    std::vector<uint32_t> ranks;
    for (const Rank rank : group.ranks) {
      ranks.push_back(rank.value());
    }
    out.Key(name);
    out.BeginDict();
    WriteField("name", name, &out);
    WriteField("desc", group.description, &out);
    WriteField("ranks", fmt::format("[{}]", fmt::join(ranks, ", ")), &out);
    out.EndDict();
  }
  out.EndDict();
  out.Key("entries");
  out.BeginList();
  for (const FlightEntry& entry : dump.entries) {
    WriteEntry(entry, dump.groups.at(entry.group), &out);
  }
  out.EndList();
  out.EndDict();
  return out.Finish();
}

}  // namespace prism::launch
