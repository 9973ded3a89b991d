// prism flight: compares a flight recorder's dump with what the rank and its peers do in the graph.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/file.h"
#include "graph/base/json_writer.h"
#include "graph/base/parse_number.h"
#include "graph/base/units.h"
#include "graph/describe.h"
#include "graph/validate/limits.h"
#include "graph/validate/valid_graph.h"
#include "launch/analyse/flight/flight_compare.h"
#include "launch/analyse/flight/flight_match.h"
#include "launch/cli/verb.h"
#include "launch/inputs/sandbox_list.h"
#include "slicer/import/source_files.h"

namespace prism::launch {
namespace {

// Up to this number, a dump is written for every peer; beyond it they have to be requested.
constexpr size_t kDefaultPeers = 64;
constexpr size_t kLookBytes = 512;  // for what a dump begins with

struct FlightOptions {
  std::optional<int64_t> rank;
  std::optional<size_t> begin;
  std::string folder;
  std::string ranks;
};

// What is known of a dump.
struct FlightView {
  const graph::Graph& graph;
  Rank rank;
  std::string path;
  FlightDump dump;
  FlightMatch match;
  std::vector<Rank> written = {};  // peers
  size_t left_out = 0;             // peers of the expected call whose dumps were not requested

  [[nodiscard]] bool departs() const { return match.end() < match.did.size(); }
  [[nodiscard]] const FlightEntry& departing() const {
    return dump.entries[match.did[match.end()].first_entry];
  }
};

std::string ShapesText(const FlightTensors& tensors) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < tensors.sizes.size(); ++i) {
    parts.push_back(fmt::format("[{}] {}", fmt::join(tensors.sizes[i], ", "), tensors.types[i]));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

int64_t NumberOf(const FlightEntry& entry) {
  return IsPeerEntry(entry) ? entry.p2p_seq_id : entry.collective_seq_id;
}

std::string EntryText(const FlightView& view, const FlightEntry& entry) {
  const FlightGroup& group = view.dump.groups.at(entry.group);
  return fmt::format("{} of {}, number {} of {} (group {}), {}", entry.name,
                     ShapesText(entry.input), NumberOf(entry), group.description, entry.group,
                     entry.state);
}

std::string ExpectedText(const FlightView& view) {
  return graph::DescribeRankOp(view.graph, view.rank, view.match.expected().op);
}

std::string FlightText(const FlightView& view) {
  const FlightMatch& match = view.match;
  std::string text =
      fmt::format("rank {}: {} in {}, in {}\n", view.rank.value(),
                  FormatCounted(static_cast<int64_t>(match.did.size()), "NCCL call"),
                  FormatCounted(static_cast<int64_t>(view.dump.groups.size()), "group"), view.path);
  for (const auto& [name, count] : match.unknown) {
    text += fmt::format("  left out         {} of {}, which is not a known NCCL call\n",
                        FormatCounted(count, "call"), name);
  }
  text +=
      fmt::format("  as in the graph  calls {} to {}, from call {} of the {} of an iteration on\n",
                  match.begin, match.end() - 1, match.phase, match.iteration.size());
  if (match.places > 1) {
    text += fmt::format(
        "                   one of {} places that match as well: the op is known up to a "
        "repetition\n",
        FormatCount(static_cast<int64_t>(match.places)));
  }
  if (match.count < match.iteration.size()) {
    text += "                   less than one iteration; set where one begins with --begin N\n";
  }
  if (view.departs()) {
    text += fmt::format("  then it did      {}\n", EntryText(view, view.departing()));
    for (const FlightFrame& frame : view.departing().frames) {
      text +=
          fmt::format("                   at {} ({}:{})\n", frame.function, frame.file, frame.line);
    }
    text += fmt::format("  the graph has    {}\n", ExpectedText(view));
  } else {
    text += fmt::format("  next             {}\n", ExpectedText(view));
  }
  std::vector<uint32_t> peers;
  for (const Rank peer : PeersOfExpected(view.graph, view.rank, match)) {
    peers.push_back(peer.value());
  }
  text += fmt::format("  with             rank{} {}\n", peers.size() == 1 ? "" : "s",
                      graph::MembersText(peers));
  return text;
}

std::string FlightJson(const FlightView& view) {
  return JsonText([&](JsonWriter& json) {
    json.Field("rank", view.rank.value()).Field("calls", view.match.did.size());
    json.Field("first_as_in_graph", view.match.begin).Field("as_in_graph", view.match.count);
    json.Field("calls_of_iteration", view.match.iteration.size());
    json.Field("places", view.match.places);
    json.Key("left_out").BeginObject();
    for (const auto& [name, count] : view.match.unknown) {
      json.Field(name, count);
    }
    json.EndObject();
    json.Field("departs", view.departs());
    json.Field("did", view.departs() ? EntryText(view, view.departing()) : std::string());
    json.Field("graph", ExpectedText(view));
    json.ArrayField("peers", PeersOfExpected(view.graph, view.rank, view.match), &Rank::value)
        .Field("dumps_written", view.written.size());
  });
}

// torchfrtrace reads the digits at the end of a file's name as the rank.
std::string PrefixOf(const std::string& path) {
  std::string name = std::filesystem::path(path).filename();
  const size_t last = name.find_last_not_of("0123456789");
  return name.substr(0, last == std::string::npos ? 0 : last + 1);
}

Result<Rank> RankOf(const std::string& path,
                    const FlightOptions& options,
                    const graph::Graph& graph) {
  const std::string name = std::filesystem::path(path).filename();
  int64_t rank = -1;
  ParseNumber(name.substr(PrefixOf(path).size()), &rank);
  const auto world = static_cast<int64_t>(graph.ranks.size());
  if (options.rank) {
    rank = *options.rank;
    PRISM_RETURN_IF_ERROR(CheckRank(rank, graph));
  }
  if (rank < 0 || rank >= world) {
    return InvalidArgument(fmt::format(
        "the name {} does not end in a rank of the job (below {}); give the rank with --rank R",
        path, world));
  }
  return Rank(static_cast<uint32_t>(rank));
}

Status ChooseRanksToWrite(const FlightOptions& options, FlightView* view) {
  if (!options.ranks.empty()) {
    PRISM_ASSIGN_OR_RETURN(view->written, NumberedRanks("--ranks", options.ranks, view->graph.job));
    std::erase(view->written, view->rank);
    return OkStatus();
  }
  view->written = PeersOfExpected(view->graph, view->rank, view->match);
  const size_t kept = std::min(view->written.size(), kDefaultPeers);
  view->left_out = view->written.size() - kept;
  view->written.resize(kept);
  return OkStatus();
}

// An existing file may be the dump that a rank itself wrote.
Status RefuseOverwriting(const std::string& path, const std::string& bytes) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return OkStatus();
  }
  PRISM_ASSIGN_OR_RETURN(const std::string there, ReadFile(path));
  return there == bytes ? OkStatus()
                        : InvalidArgument(fmt::format(
                              "-o: {} exists and would be overwritten; name another folder", path));
}

Status WriteDumps(const std::string& folder, const std::string& own, FlightView* view) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string prefix = folder + "/" + PrefixOf(view->path);
  std::map<uint32_t, std::string> dumps = {{view->rank.value(), own}};
  for (const Rank peer : view->written) {
    dumps[peer.value()] =
        EncodeFlightDump(PeerDump(view->graph, view->rank, view->dump, view->match, peer));
  }
  AtomicFileSet files(prefix);
  for (const auto& [rank, bytes] : dumps) {
    const std::string suffix = fmt::format("{}", rank);
    PRISM_RETURN_IF_ERROR(RefuseOverwriting(prefix + suffix, bytes));
    PRISM_RETURN_IF_ERROR(files.Write(suffix, bytes));
  }
  return files.Commit();
}

std::string PartText(const FlightEntry* entry) {
  return entry == nullptr ? std::string("nothing")
                          : fmt::format("{} of {}, number {}, {}", entry->name,
                                        ShapesText(entry->input), NumberOf(*entry), entry->state);
}

std::string RanksText(const std::vector<uint32_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", graph::MembersText(ranks));
}

std::string GroupText(const FlightGap& gap) {
  std::vector<uint32_t> members;
  for (const Rank rank : gap.group->ranks) {
    members.push_back(rank.value());
  }
  return fmt::format("{} (group {}, {})", gap.group->description, gap.name,
                     members.empty() ? "ranks not listed" : RanksText(members));
}

std::string GapText(const FlightGap& gap) {
  std::string text =
      fmt::format("  {}: {} number {}, {} of {}\n", GroupText(gap),
                  IsPeerEntry(*gap.call) ? "message" : "collective", gap.number, gap.call->name,
                  ShapesText(gap.call->input.sizes.empty() ? gap.call->output : gap.call->input));
  std::vector<uint32_t> there;
  for (const FlightPart& part : gap.parts) {
    const bool is_other = std::ranges::count(gap.other, part.rank) > 0;
    if (part.entry == nullptr) {
      text += fmt::format("    has not called  rank {}; its last: {}\n", part.rank,
                          PartText(part.last));
    } else if (is_other) {
      text += fmt::format("    called another  rank {}: {}\n", part.rank, PartText(part.entry));
    } else {
      there.push_back(part.rank);
    }
  }
  if (!gap.absent.empty()) {
    text += fmt::format("    has no dump     {}\n", RanksText(gap.absent));
  }
  text += fmt::format("    called it       {}, {}\n", RanksText(there), gap.call->state);
  for (const FlightFrame& frame : gap.call->frames) {
    text +=
        fmt::format("                    at {} ({}:{})\n", frame.function, frame.file, frame.line);
  }
  return text;
}

std::string ComparisonText(const FlightComparison& comparison) {
  std::string text = fmt::format(
      "{}: {}; {}\n", FormatCounted(static_cast<int64_t>(comparison.ranks.size()), "dump"),
      RanksText(comparison.ranks), FormatCounted(static_cast<int64_t>(comparison.groups), "group"));
  if (!comparison.absent.empty()) {
    text += fmt::format("  no dump of {}\n", RanksText(comparison.absent));
  }
  if (comparison.unlisted > 0) {
    text += fmt::format("  the dumps do not list the ranks of {}; those count that called on it\n",
                        FormatCounted(static_cast<int64_t>(comparison.unlisted), "group"));
  }
  if (comparison.gaps.empty()) {
    return text + "  the ranks called the same collectives and messages, and all have ended\n";
  }
  for (const FlightGap& gap : comparison.gaps) {
    text += GapText(gap);
  }
  return text;
}

std::string ComparisonJson(const FlightComparison& comparison) {
  return JsonText([&](JsonWriter& json) {
    json.ArrayField("ranks", comparison.ranks);
    json.ArrayField("without_dump", comparison.absent);
    json.Field("groups", comparison.groups)
        .Field("groups_without_ranks", comparison.unlisted)
        .ObjectsField("differences", comparison.gaps, [&](const FlightGap& gap) {
          json.Field("group", gap.name).Field("description", gap.group->description);
          json.Field("number", gap.number).Field("call", gap.call->name);
          json.Field("shapes", ShapesText(gap.call->input)).Field("state", gap.call->state);
          json.ArrayField("not_called", gap.missing);
          json.ArrayField("called_another", gap.other);
          json.ArrayField("without_dump", gap.absent);
        });
  });
}

// Dumps beside each other, without a graph.
Result<VerbOutput> RunDumps(const VerbArguments& arguments) {
  for (const char* flag : {"rank", "begin", "o", "ranks"}) {
    if (arguments.Has(flag)) {
      return InvalidArgument(fmt::format("--{} needs a graph: prism flight GRAPH DUMP", flag));
    }
  }
  std::map<uint32_t, FlightDump> dumps;
  for (const std::string& path : arguments.operands()) {
    PRISM_ASSIGN_OR_RETURN(const std::string bytes, slicer::ReadSource(path));
    PRISM_ASSIGN_OR_RETURN(FlightDump dump, DecodeFlightDump(bytes, path));
    const int64_t rank = RankOfDumpName(path);
    if (rank < 0 || rank >= graph::kMaxRanks) {
      return InvalidArgument(fmt::format("the name {} has no rank; call it dump_RANK", path));
    }
    if (!dumps.emplace(static_cast<uint32_t>(rank), std::move(dump)).second) {
      return InvalidArgument(fmt::format("{}: is a second dump of rank {}", path, rank));
    }
  }
  const FlightComparison comparison = CompareDumps(dumps);
  return VerbOutput{arguments.as_json() ? ComparisonJson(comparison) : ComparisonText(comparison)};
}

Result<VerbOutput> RunFlight(const VerbArguments& arguments, const FlightOptions& options) {
  const std::string& first = arguments.operands().front();
  if (IsFlightDump(slicer::BeginningOf(first, kLookBytes))) {
    return RunDumps(arguments);
  }
  if (arguments.operands().size() != 2) {
    std::error_code ignored;
    if (!std::filesystem::exists(first, ignored)) {
      return ReadFile(first).status();
    }
    const Result<graph::LoadedGraph> loaded = graph::LoadValidGraph(first);
    return loaded.ok() ? InvalidArgument("with a graph, name one dump: prism flight GRAPH DUMP")
                       : BadFile(fmt::format("{} is no flight recorder dump, and as a graph: {}",
                                             first, loaded.status().message()));
  }
  PRISM_ASSIGN_OR_RETURN(const graph::LoadedGraph loaded,
                         graph::LoadValidGraph(arguments.operands()[0]));
  const std::string& path = arguments.operands()[1];
  PRISM_ASSIGN_OR_RETURN(const std::string bytes, slicer::ReadSource(path));
  PRISM_ASSIGN_OR_RETURN(FlightDump dump, DecodeFlightDump(bytes, path));
  for (const FlightEntry& entry : dump.entries) {
    if (dump.groups.at(entry.group).ranks.empty()) {
      return BadFile(fmt::format("{}: does not list the ranks of group {}, which a graph needs",
                                 path, entry.group));
    }
  }
  PRISM_ASSIGN_OR_RETURN(const Rank rank, RankOf(path, options, loaded.graph));
  PRISM_ASSIGN_OR_RETURN(FlightMatch match, MatchDump(loaded.graph, rank, dump, options.begin));
  FlightView view{loaded.graph, rank, path, std::move(dump), std::move(match)};
  std::string written;
  if (const std::string& folder = options.folder; !folder.empty()) {
    PRISM_RETURN_IF_ERROR(ChooseRanksToWrite(options, &view));
    PRISM_RETURN_IF_ERROR(WriteDumps(folder, bytes, &view));
    written = fmt::format("  written          {} in {}: torchfrtrace --allow-incomplete-ranks {}\n",
                          FormatCounted(static_cast<int64_t>(view.written.size()) + 1, "dump"),
                          folder, folder);
    if (view.left_out > 0) {
      written += fmt::format("                   without those of {}: --ranks LIST\n",
                             FormatCounted(static_cast<int64_t>(view.left_out), "more peer"));
    }
  }
  return VerbOutput{arguments.as_json() ? FlightJson(view) : FlightText(view) + written};
}

}  // namespace

Verb FlightVerb() {
  using F = FlightOptions;
  return MakeVerb<F>(
      {"flight",
       "[GRAPH] DUMP...",
       "compare dumps of PyTorch's flight recorder, or one with a graph",
       "Without a graph: who is missing, and the first collective of each group at which the "
       "ranks\n"
       "of the dumps differ; the last digits of a dump's name are its rank.\n"
       "DUMP is torch's dump of one rank, of a sandbox rank or of the real job\n"
       "(TORCH_FR_BUFFER_SIZE=2000, TORCH_NCCL_DEBUG_INFO_TEMP_FILE=PREFIX; at a time-out, or by\n"
       "torch._C._distributed_c10d._dump_nccl_trace). The longest run of calls that repeats the\n"
       "graph's iteration counts as what the rank did right.\n",
       1,
       graph::kMaxRanks,
       {},
       {},
       true},
      {{"rank", &F::rank, AnyRank(), "the rank that wrote the dump",
        "the digits at the end of DUMP's name"},
       {"begin", &F::begin, WholeNumber(0, std::numeric_limits<int32_t>::max()),
        "number of the call in DUMP, from 0, that begins an iteration", "the longest run"},
       {"o", &F::folder, Text("FOLDER"),
        "also write what the dumps of its peers would be, for torchfrtrace", "none"},
       {"ranks", &F::ranks, Text("LIST"), "peers to write: numbers and ranges",
        "up to 64 members of the expected call"}},
      RunFlight);
}

}  // namespace prism::launch
