#include "launch/analyse/nccl/nccl_log.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/compress.h"
#include "graph/base/file.h"
#include "graph/base/units.h"
#include "slicer/import/source_files.h"

namespace prism::launch {
namespace {

constexpr std::string_view kInfo = "NCCL INFO ";
constexpr std::string_view kWarn = "NCCL WARN ";
constexpr size_t kLongestLine = 4096;  // what is looked at of one
constexpr size_t kNcclLook = size_t{1} << 16U;

// By ncclDataType_t.
constexpr int64_t kNcclTypeBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
// By NCCL_ALGO_* and NCCL_PROTO_*, which releases before 2.25 print as numbers.
constexpr std::string_view kAlgorithms[] = {
    "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
constexpr std::string_view kProtocols[] = {"LL", "LL128", "SIMPLE"};

template <size_t N>
std::string NameOr(std::string_view word, const std::string_view (&names)[N]) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  std::string name(error == std::errc() && number < N ? names[number] : word);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

// Without what colours a terminal, and the carriage return that ends lines elsewhere.
std::string Plain(std::string_view line) {
  constexpr std::string_view kColor = "\x1b[";
  std::string plain;
  for (size_t at = line.find(kColor); at != std::string_view::npos; at = line.find(kColor)) {
    plain += line.substr(0, at);
    const size_t end = line.find_first_not_of("0123456789;", at + kColor.size());
    line = end == std::string_view::npos ? std::string_view() : line.substr(end + 1);
  }
  plain += line;
  plain.resize(plain.find_last_not_of('\r') + 1);
  return plain;
}

// Words of a message; of "key value" pairs, the value behind a key.
class Message {
 public:
  explicit Message(std::string_view text) : text_(text) {
    while (!text.empty()) {
      const size_t end = text.find(' ');
      if (end != 0) {
        words_.push_back(text.substr(0, end));
      }
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    }
  }

  [[nodiscard]] bool Has(std::string_view part) const {
    return text_.find(part) != std::string_view::npos;
  }

  [[nodiscard]] std::string After(std::string_view key) const {
    const auto at = std::ranges::find(words_, key);
    return at == words_.end() || std::next(at) == words_.end() ? "" : std::string(*std::next(at));
  }

  [[nodiscard]] int64_t Number(std::string_view key) const { return NumberIn(After(key)); }

  // The word before `word`.
  [[nodiscard]] std::string_view Before(std::string_view word) const {
    const auto at = std::ranges::find(words_, word);
    return at == words_.end() || at == words_.begin() ? "" : *std::prev(at);
  }

  [[nodiscard]] std::string_view text() const { return text_; }
  [[nodiscard]] std::string_view first() const { return words_.empty() ? "" : words_.front(); }

  static int64_t NumberIn(std::string_view word) {
    int64_t number = -1;
    std::from_chars(word.data(), word.data() + word.size(), number);
    return number;
  }

 private:
  std::string_view text_;
  std::vector<std::string_view> words_;
};

struct NcclGroup {
  int64_t size = 0;
  int64_t nodes = -1;
  int64_t channels = -1;
  std::set<int64_t> begun;
  std::set<int64_t> complete;
  std::set<std::string> hosts;
  std::string ring;
};

// Of one algorithm line.
using ChoiceKey = std::tuple<std::string, int64_t, std::string, std::string>;
struct ChoiceCount {
  int64_t count = 0;
  std::string channels;
  double time_us = -1;
};

// Calls of a kind and size in a group of that size.
using CallKey = std::tuple<std::string, int64_t, int64_t>;

class NcclLog {
 public:
  void Read(std::istream* in) {
    std::array<char, kLongestLine + 1> line = {};
    while (in->getline(line.data(), line.size()) || in->gcount() > 0) {
      const bool is_longer = in->fail();
      const auto read = static_cast<size_t>(in->gcount());  // the end of the line counts
      ReadLine(Plain({line.data(), is_longer || in->eof() ? read : read - 1}));
      if (is_longer) {
        in->clear();
        in->ignore(std::numeric_limits<std::streamsize>::max(), '\n');
      }
    }
  }

  [[nodiscard]] bool is_empty() const { return lines_ == 0; }
  [[nodiscard]] TableReport Report(const std::string& title) const;

 private:
  void ReadLine(std::string_view line) {
    if (const size_t at = line.find("NCCL version "); at != std::string_view::npos) {
      versions_.emplace(line.substr(at + std::string_view("NCCL version ").size()));
    }
    if (const size_t at = line.find(kWarn); at != std::string_view::npos) {
      ++lines_;
      ++warnings_[std::string(line.substr(at + kWarn.size()))];
    }
    const size_t at = line.find(kInfo);
    if (at == std::string_view::npos) {
      return;
    }
    ++lines_;
    // "node-0:309:311 [0] NCCL INFO": host, process, thread and device.
    std::string_view origin = line.substr(0, at);
    origin = origin.substr(0, origin.rfind('['));
    origin = origin.substr(0, origin.find_last_not_of(' ') + 1);
    origin = origin.substr(origin.find_last_of(" ]") + 1);
    thread_ = origin;
    process_ = origin.substr(0, origin.rfind(':'));
    ReadMessage(Message(line.substr(at + kInfo.size())));
  }

  void ReadMessage(const Message& message) {
    if (message.Has(" Bytes -> Algo ")) {
      ReadChoice(message);
    } else if (message.Has(": opCount ")) {
      ReadCall(message);
    } else if (message.Has(" via ")) {
      ReadConnection(message);
    } else if (message.Has("nranks ") && message.Has("Init ")) {
      ReadInit(message);
    } else if (message.Has("nRanks ") && message.Has("nNodes ")) {
      NcclGroup& group = GroupOf(message.After("comm"), message.Number("nRanks"));
      group.nodes = message.Number("nNodes");
      of_thread_[thread_] = &group;
    } else if (NcclGroup* const group = OfThread(); group != nullptr) {
      if (message.Has(" coll channels")) {
        group->channels = Message::NumberIn(message.first());
      } else if (message.first() == "Channel" && message.Has(" : ") && group->ring.empty()) {
        group->ring = message.text().substr(message.text().find(" : ") + 3);
      }
    }
  }

  NcclGroup* OfThread() {
    const auto found = of_thread_.find(thread_);
    return found == of_thread_.end() ? nullptr : found->second;
  }

  // The group of a process's communicator, which later lines name by its address.
  NcclGroup& GroupOf(const std::string& comm, int64_t size) {
    const auto [known, is_new] = name_of_.try_emplace({process_, comm});
    if (is_new) {
      known->second = fmt::format("of {} ranks, without a commId", size);
    }
    NcclGroup& group = groups_[known->second];
    group.size = std::max(group.size, size);
    return group;
  }

  void ReadInit(const Message& message) {
    const int64_t size = message.Number("nranks");
    std::string name = message.After("commId");
    if (name.empty() && message.Has(" color ")) {
      name = fmt::format("split by color {}", message.After("color"));
    }
    const std::pair<std::string, std::string> key = {process_, message.After("comm")};
    if (!name.empty()) {
      const auto known = name_of_.find(key);
      if (known != name_of_.end() && known->second != name) {
        groups_[name].nodes = groups_[known->second].nodes;
        groups_[name].channels = groups_[known->second].channels;
        groups_[name].ring = groups_[known->second].ring;
      }
      name_of_[key] = name;
    }
    NcclGroup& group = GroupOf(key.second, size);
    group.hosts.insert(process_.substr(0, process_.find(':')));
    (message.Has("COMPLETE") ? group.complete : group.begun).insert(message.Number("rank"));
    of_thread_[thread_] = &group;
  }

  void ReadChoice(const Message& message) {
    std::string kind(message.first());
    kind = kind.ends_with(':') ? kind.substr(0, kind.size() - 1) : "";
    ChoiceCount& choice = choices_[{kind, Message::NumberIn(message.Before("Bytes")),
                                    NameOr(message.After("Algo"), kAlgorithms),
                                    NameOr(message.After("proto"), kProtocols)}];
    ++choice.count;
    if (const size_t at = message.text().find("}={"); at != std::string_view::npos) {
      const std::string_view rest = message.text().substr(at + 3);
      choice.channels = rest.substr(0, rest.find('}'));
    }
    if (message.Has(" time ")) {
      choice.time_us = std::strtod(message.After("time").c_str(), nullptr);
    }
  }

  void ReadCall(const Message& message) {
    const std::string kind(message.first().substr(0, message.first().find(':')));
    const int64_t type = message.Number("datatype");
    const int64_t count = message.Number("count");
    const bool known =
        type >= 0 && type < std::ssize(kNcclTypeBytes) && count >= 0 && count < (int64_t{1} << 50U);
    const size_t at = message.text().find("[nranks=");
    const int64_t ranks =
        at == std::string_view::npos
            ? -1
            : Message::NumberIn(message.text().substr(at + std::string_view("[nranks=").size()));
    ++calls_[{kind, known ? count * kNcclTypeBytes[type] : -1, ranks}];
  }

  // "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/2/GDRDMA": without the adapter's number.
  void ReadConnection(const Message& message) {
    std::string way = message.After("via");
    way.erase(std::ranges::remove_if(way, [](unsigned char c) { return std::isdigit(c); }).begin(),
              way.end());
    way = way.starts_with("P") ? message.After("via") : way;
    for (size_t twice = way.find("//"); twice != std::string::npos; twice = way.find("//")) {
      way.erase(twice, 1);
    }
    ++connections_[way];
  }

  int64_t lines_ = 0;
  std::string thread_;   // of the line
  std::string process_;  // likewise
  std::set<std::string> versions_;
  std::map<std::pair<std::string, std::string>, std::string> name_of_;  // by process and address
  std::map<std::string, NcclGroup> groups_;
  std::map<std::string, NcclGroup*> of_thread_;  // that it spoke of last
  std::map<ChoiceKey, ChoiceCount> choices_;
  std::map<CallKey, int64_t> calls_;
  std::map<std::string, int64_t> connections_;
  std::map<std::string, int64_t> warnings_;
};

// "0-3, 5" of numbers; nothing of none.
std::string Spans(const std::set<int64_t>& numbers) {
  std::vector<std::string> spans;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const int64_t first = *at;
    int64_t last = first;
    for (++at; at != numbers.end() && *at == last + 1; ++at) {
      last = *at;
    }
    spans.push_back(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
  }
  return fmt::format("{}", fmt::join(spans, ", "));
}

ReportCell Stated(int64_t number) {
  return number < 0 ? ReportCell() : ReportCell(number);
}

ReportTable GroupsTable(const std::map<std::string, NcclGroup>& groups) {
  ReportTable table = {"groups",
                       "Groups: which of their ranks the logs show, and who began but did not end "
                       "their initialisation",
                       {{"group", "group", ColumnKind::kText},
                        {"size", "size", ColumnKind::kCount},
                        {"ranks", "ranks seen", ColumnKind::kText},
                        {"unfinished_ranks", "not initialised", ColumnKind::kText},
                        {"hosts", "hosts", ColumnKind::kCount},
                        {"nodes", "nodes", ColumnKind::kCount},
                        {"channels", "channels", ColumnKind::kCount},
                        {"ring", "first ring", ColumnKind::kText}},
                       {}};
  for (const auto& [name, group] : groups) {
    if (group.begun.empty() && group.complete.empty()) {
      continue;  // named before its initialisation ended
    }
    std::set<int64_t> unfinished;
    std::ranges::set_difference(group.begun, group.complete,
                                std::inserter(unfinished, unfinished.end()));
    table.rows.push_back({name, group.size, Spans(group.complete), Spans(unfinished),
                          std::ssize(group.hosts), Stated(group.nodes), Stated(group.channels),
                          group.ring});
  }
  return table;
}

ReportTable CountsTable(const char* key,
                        const std::string& title,
                        const std::map<std::string, int64_t>& counts) {
  ReportTable table = {
      key,
      title,
      {{"name", "name", ColumnKind::kText}, {"count", "count", ColumnKind::kCount}},
      {}};
  for (const auto& [name, count] : counts) {
    table.rows.push_back({name, count});
  }
  return table;
}

TableReport NcclLog::Report(const std::string& title) const {
  TableReport report;
  report.title = title;
  for (const std::string& version : versions_) {
    report.notes.push_back("NCCL " + version);
  }
  if (choices_.empty()) {
    report.notes.emplace_back(
        "no algorithms: NCCL prints them with NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING");
  }
  report.tables.push_back(GroupsTable(groups_));
  ReportTable choices = {"algorithms",
                         "Algorithms that NCCL chose; times are its own estimates",
                         {{"collective", "collective", ColumnKind::kText},
                          {"bytes", "bytes", ColumnKind::kBytes},
                          {"algorithm", "algorithm", ColumnKind::kText},
                          {"protocol", "protocol", ColumnKind::kText},
                          {"channels", "channels", ColumnKind::kText},
                          {"time_us", "us", ColumnKind::kNumber},
                          {"count", "count", ColumnKind::kCount}},
                         {}};
  for (const auto& [key, choice] : choices_) {
    const auto& [kind, bytes, algorithm, protocol] = key;
    choices.rows.push_back({kind, Stated(bytes), algorithm, protocol, choice.channels,
                            choice.time_us < 0 ? ReportCell() : ReportCell(choice.time_us),
                            choice.count});
  }
  report.tables.push_back(std::move(choices));
  ReportTable calls = {"calls",
                       "Calls, over all ranks: what each gives",
                       {{"collective", "collective", ColumnKind::kText},
                        {"bytes", "bytes", ColumnKind::kBytes},
                        {"group_size", "ranks", ColumnKind::kCount},
                        {"count", "count", ColumnKind::kCount}},
                       {}};
  for (const auto& [key, count] : calls_) {
    const auto& [kind, bytes, ranks] = key;
    calls.rows.push_back({kind, Stated(bytes), Stated(ranks), count});
  }
  report.tables.push_back(std::move(calls));
  report.tables.push_back(CountsTable("connections", "Connections by transport", connections_));
  report.tables.push_back(CountsTable("warnings", "Warnings", warnings_));
  return report;
}

}  // namespace

bool IsNcclLog(const std::string& file) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(file, ignored) &&
         slicer::BeginningOf(file, kNcclLook).find("NCCL INFO") != std::string::npos;
}

Result<TableReport> ReportOfNcclLogs(const std::vector<std::string>& files) {
  NcclLog log;
  for (const std::string& file : files) {
    if (IsPacked(ReadBeginning(file, kNcclLook))) {
      PRISM_ASSIGN_OR_RETURN(std::string text, slicer::ReadSource(file));
      std::istringstream in(std::move(text));
      log.Read(&in);
      continue;
    }
    std::ifstream in(file);
    if (!in) {
      return BadFile(fmt::format("{}: cannot be read", file));
    }
    log.Read(&in);
  }
  if (log.is_empty()) {
    return BadFile(
        fmt::format("{}: has no line of NCCL's; run the job with NCCL_DEBUG=INFO", files.front()));
  }
  return log.Report(files.size() == 1 ? "NCCL in " + files.front()
                                      : "NCCL in " + FormatCounted(std::ssize(files), "log"));
}

}  // namespace prism::launch
