// The rules of CONTRIBUTING.md that a machine can check: layers, limits, leftovers, documents that
// name what exists. Each failure names file and line.

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/style/function_scan.h"
#include "tests/style/source_tree.h"

namespace prism::style {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kFileLines = 500;
constexpr size_t kFunctionLines = 70;
constexpr size_t kParameters = 5;
constexpr size_t kNesting = 4;

// Signatures that a foreign interface dictates.
const std::set<std::string> kForeignInterfaces = {
    "shim/virtual_device/",  "shim/nccl/",
    "shim/clock/",           "shim/gpu/",
    "tests/support/fake_",   "shim/observer/group_hook.cc",
    "shim/launcher_calls.cc"};

// By layer: paths, or what they begin with.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"graph/base", {"graph/base/"}},
    {"graph/job", {"graph/base/", "graph/job/"}},
    {"graph/program", {"graph/base/", "graph/job/", "graph/program/"}},
    {"graph", {"graph/"}},
    {"slicer", {"graph/", "slicer/", "shim/channel/messages.h"}},
    {"replayer/cost", {"graph/", "replayer/cost/"}},
    {"replayer/memory", {"graph/", "replayer/memory/"}},
    {"replayer/perturb", {"graph/", "replayer/perturb/"}},
    {"replayer/engine", {"graph/", "replayer/cost/", "replayer/perturb/", "replayer/engine/"}},
    {"replayer/network", {"graph/", "replayer/cost/", "replayer/engine/", "replayer/network/"}},
    {"replayer/stages", {"graph/", "replayer/cost/", "replayer/engine/", "replayer/stages/"}},
    {"replayer/blame",
     {"graph/", "replayer/cost/", "replayer/engine/", "replayer/blame/", "replayer/replay.h"}},
    {"replayer/edit", {"graph/", "replayer/cost/", "replayer/engine/", "replayer/edit/"}},
    {"replayer/report",
     {"graph/", "replayer/cost/", "replayer/memory/", "replayer/engine/", "replayer/network/",
      "replayer/blame/", "replayer/what_matters.h", "replayer/report/"}},
    {"replayer",
     {"graph/", "replayer/cost/", "replayer/engine/", "replayer/network/", "replayer/blame/",
      "replayer/replay.h", "replayer/gains.h", "replayer/ineffective_perturbations.h",
      "replayer/what_matters.h"}},
    {"shim",
     {"graph/base/divide.h", "graph/base/fnv.h", "graph/base/ids.h", "graph/base/mix.h",
      "graph/base/time.h", "graph/job/nccl_memory.h", "graph/program/op.h", "shim/"}},
    {"launch",
     {"graph/", "slicer/", "replayer/", "shim/channel/", "shim/nccl/exchange_arena.h",
      "shim/observer/torch_versions.h", "launch/"}},
    {"experiments/published",
     {"graph/", "slicer/", "replayer/", "launch/", "experiments/published/"}},
};

// The rooms of launch/, from the lowest up, and the rooms above which each is built; the few
// headers of launch/ itself (versions, exit codes) belong to all of them. A room names only rooms
// before it, so that none can depend on itself.
const std::vector<std::pair<std::string, std::set<std::string>>> kLaunchRooms = {
    {"launch/process/", {}},
    {"launch/inputs/", {}},
    {"launch/trainer/", {"launch/process/", "launch/inputs/option_table.h"}},
    {"launch/plan/", {"launch/process/", "launch/inputs/"}},
    {"launch/emulate/sandbox/", {"launch/process/"}},
    {"launch/emulate/store/", {"launch/process/"}},
    {"launch/emulate/clock/", {"launch/process/", "launch/emulate/sandbox/"}},
    {"launch/emulate/run/",
     {"launch/process/", "launch/trainer/args.h", "launch/inputs/", "launch/plan/",
      "launch/emulate/sandbox/", "launch/emulate/store/", "launch/emulate/clock/"}},
    {"launch/analyse/", {"launch/process/", "launch/inputs/", "launch/plan/"}},
    {"launch/bench/", {"launch/process/", "launch/inputs/", "launch/plan/", "launch/emulate/run/"}},
    {"launch/cli/",
     {"launch/process/", "launch/inputs/", "launch/plan/", "launch/emulate/run/", "launch/analyse/",
      "launch/bench/"}},
};

// The end of headers that protoc wrote.
constexpr const char* kGenerated = ".pb.h";

// Third-party headers by owner: the only places that may include them.
const std::vector<std::pair<std::string, std::vector<std::string>>> kOwners = {
    {"torch/", {"launch/trainer/", "shim/observer/", "shim/rendezvous/"}},
    {"ATen/", {"launch/trainer/", "shim/observer/", "shim/rendezvous/"}},
    {"c10/", {"launch/trainer/", "shim/observer/", "shim/rendezvous/"}},
    {"google/protobuf", {"graph/proto/", "slicer/import/chakra/trace_file.cc"}},
    {kGenerated,
     {"graph/proto/", "slicer/import/chakra/trace_file.cc", "slicer/import/chakra/trace_json"}},
    {"CLI/", {"launch/inputs/command_line.cc"}},
    {"rapidjson/", {"slicer/import/kineto/trace_file.cc", "slicer/import/kineto/text_stream.h"}},
    {"nlohmann/",
     {"launch/analyse/flight/flight_json.cc", "launch/cli/json_leaves.cc",
      "launch/inputs/json_reader.cc", "slicer/import/chakra/process_groups.cc",
      "slicer/import/chakra/trace_json.cc", "slicer/import/kineto/execution_trace.cc"}},
    {"toml++/",
     {"launch/inputs/config_file.cc", "launch/inputs/toml_library.cc",
      "launch/inputs/toml_reader.cc"}},
    {"sqlite3.h", {"slicer/import/nsys/sqlite_rows.cc"}},
    {"zlib.h", {"graph/base/compress.cc"}},
    {"zstd.h", {"graph/base/compress.cc"}},
    {"fmt/", {"graph/", "slicer/", "replayer/", "launch/", "experiments/published/"}},
};

// Characters of a UTF-8 line: every byte that continues none.
size_t Columns(const std::string& line) {
  return static_cast<size_t>(std::ranges::count_if(
      line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

const std::vector<SourceFile>& Tree() {
  static const std::vector<SourceFile> tree = ReadSourceTree(PRISM_SOURCE_DIR);
  return tree;
}

bool StartsWithAny(const std::string& text, const auto& prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](const auto& prefix) { return text.starts_with(prefix); });
}

// Calls visit(included path, line) for what the file includes of this tree.
void ForEachInclude(const SourceFile& file, const auto& visit) {
  static const std::regex include(R"rx(^#include "([^"]+/[^"]+)")rx");
  for (size_t i = 0; i < file.lines.size(); ++i) {
    std::smatch match;
    if (std::regex_search(file.lines[i], match, include)) {
      visit(match[1].str(), i + 1);
    }
  }
}

TEST(Style, folders_include_only_what_their_layer_may) {
  for (const SourceFile& file : Tree()) {
    const std::string layer = LayerOf(file.path);
    EXPECT_TRUE(kMayInclude.contains(layer) || !layer.starts_with("replayer/"))
        << file.path << " is in a room without a place in the order";
    if (!IsCode(file) || !kMayInclude.contains(layer)) {
      continue;
    }
    ForEachInclude(file, [&](const std::string& included, size_t line) {
      EXPECT_TRUE(StartsWithAny(included, kMayInclude.at(layer)))
          << file.path << ":" << line << " includes " << included;
    });
  }
}

std::string LaunchRoomOf(const std::string& path) {
  for (const auto& [room, below] : kLaunchRooms) {
    if (path.starts_with(room)) {
      return room;
    }
  }
  return "";
}

TEST(Style, rooms_of_launch_include_only_rooms_below) {
  std::map<std::string, std::set<std::string>> may_include;
  for (const auto& [room, below] : kLaunchRooms) {
    for (const std::string& lower : below) {
      EXPECT_TRUE(may_include.contains(LaunchRoomOf(lower))) << room << " is before " << lower;
    }
    may_include[room] = below;
    may_include[room].insert(room);
  }
  for (const SourceFile& file : Tree()) {
    const bool has_room = file.path.rfind('/') > std::string("launch/").size();
    if (!IsCode(file) || !file.path.starts_with("launch/") || !has_room) {
      continue;
    }
    const std::string room = LaunchRoomOf(file.path);
    ASSERT_NE(room, "") << file.path << " is in no room of launch/ that has a place in the order";
    ForEachInclude(file, [&](const std::string& included, size_t line) {
      EXPECT_TRUE(LaunchRoomOf(included).empty() || StartsWithAny(included, may_include[room]))
          << file.path << ":" << line << " includes " << included << ", which is not below it";
    });
  }
}

TEST(Style, third_party_headers_stay_with_their_owner) {
  static const std::regex include(R"(^#include [<"]([^>"]+)[>"])");
  for (const SourceFile& file : Tree()) {
    if (!IsCode(file) || file.path.starts_with("tests/")) {
      continue;
    }
    for (size_t i = 0; i < file.lines.size(); ++i) {
      std::smatch match;
      if (!std::regex_search(file.lines[i], match, include)) {
        continue;
      }
      const std::string included = match[1];
      for (const auto& [header, owners] : kOwners) {
        const bool is_it =
            header == kGenerated ? included.ends_with(header) : included.starts_with(header);
        EXPECT_FALSE(is_it && !StartsWithAny(file.path, owners))
            << file.path << ":" << i + 1 << " includes " << included;
      }
    }
  }
}

TEST(Style, files_and_lines_are_short) {
  for (const SourceFile& file : Tree()) {
    if (!IsCode(file)) {
      continue;
    }
    EXPECT_LE(file.lines.size(), kFileLines) << file.path;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_LE(Columns(file.lines[i]), kColumns) << file.path << ":" << i + 1;
    }
  }
}

TEST(Style, functions_are_short_and_flat) {
  for (const SourceFile& file : Tree()) {
    if (!IsCode(file) || file.path.starts_with("tests/style/")) {
      continue;
    }
    const bool foreign = StartsWithAny(file.path, kForeignInterfaces);
    for (const FunctionShape& function : ScanFunctions(file)) {
      const std::string where = file.path + ":" + std::to_string(function.line);
      EXPECT_LE(function.length, kFunctionLines) << where << " " << function.head;
      EXPECT_LE(function.nesting, kNesting) << where << " " << function.head;
      if (!foreign) {
        EXPECT_LE(function.parameters, kParameters) << where << " " << function.head;
      }
    }
  }
}

// Not described yet; no file may be added.
const std::set<std::string> kWithoutParagraph = {
    "slicer/synthesize/bucketed_data_parallel.cc",
    "slicer/synthesize/sharded_data_parallel.cc",
};

// Without a header of the same name a reader does not know what a file implements.
TEST(Style, sources_without_a_header_say_what_they_implement) {
  std::set<std::string> headers;
  for (const SourceFile& file : Tree()) {
    if (file.path.ends_with(".h")) {
      headers.insert(file.path.substr(0, file.path.size() - 2));
    }
  }
  for (const SourceFile& file : Tree()) {
    if (!file.path.ends_with(".cc") || file.path.starts_with("tests/") ||
        headers.contains(file.path.substr(0, file.path.size() - 3))) {
      continue;
    }
    EXPECT_NE(file.lines.at(0).starts_with("//"), kWithoutParagraph.contains(file.path))
        << file.path << " lacks its opening paragraph, or is listed though it has one";
  }
}

// By the header that it includes first, or in words.
TEST(Style, tests_of_a_folder_say_what_they_test) {
  static const std::regex test("tests/(graph|slicer|replayer|shim|launch)/.*_test\\.cc");
  for (const SourceFile& file : Tree()) {
    std::smatch folder;
    if (!std::regex_match(file.path, folder, test)) {
      continue;
    }
    const std::string header = "#include \"" + folder[1].str() + "/";
    const auto first = std::ranges::find_if(
        file.lines, [](const std::string& line) { return line.starts_with("#include"); });
    const bool names_it = first != file.lines.end() && first->starts_with(header);
    EXPECT_TRUE(names_it || file.lines.at(0).starts_with("//"))
        << file.path << " begins neither with a header nor with what it tests";
  }
}

TEST(Style, headers_begin_with_what_they_are_for) {
  for (const SourceFile& file : Tree()) {
    if (!file.path.ends_with(".h")) {
      continue;
    }
    ASSERT_FALSE(file.lines.empty()) << file.path;
    EXPECT_TRUE(file.lines[0].starts_with("//")) << file.path << " lacks its opening paragraph";
    EXPECT_TRUE(std::ranges::count(file.lines, "#pragma once") == 1) << file.path;
  }
}

// Fixtures that were named before the rule; none may be added. GoogleTest runs suites that end in
// DeathTest first.
const std::set<std::string> kNamedTest = {"ChannelTest", "ExchangeTest",      "HeldRanksTest",
                                          "HoldTest",    "MeasuredHoldsTest", "NcclTest",
                                          "StitchTest"};

// A suite is named by what it tests: every one is a test.
TEST(Style, suites_are_named_by_what_they_test) {
  static const std::regex suite(R"(^(?:TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP)\((\w+),)");
  for (const SourceFile& file : Tree()) {
    for (const std::string& line : file.lines) {
      std::smatch match;
      if (std::regex_search(line, match, suite)) {
        const std::string name = match[1];
        EXPECT_TRUE(!name.ends_with("Test") || name.ends_with("DeathTest") ||
                    kNamedTest.contains(name))
            << file.path << " " << name;
      }
    }
  }
}

// At least three words, since "scaled_sums" does not say what is tested.
TEST(Style, names_of_tests_are_sentences) {
  static const std::regex test(R"(^(?:TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP)\(\w+, *(\w+))");
  static const std::regex sentence("[a-z0-9]+(?:_[a-z0-9]+){2,}");
  const std::set<std::string> short_names = {"scaled_sums"};
  for (const SourceFile& file : Tree()) {
    for (const std::string& line : file.lines) {
      std::smatch name;
      if (std::regex_search(line, name, test)) {
        EXPECT_TRUE(std::regex_match(name[1].str(), sentence) || short_names.contains(name[1]))
            << file.path << " " << name[1] << " is not of the form a_ring_of_one_costs_nothing";
      }
    }
  }
}

TEST(Style, sources_have_no_leftovers) {
  static const std::regex leftover(R"(\b(TODO|FIXME|XXX|HACK)\b|using namespace )");
  for (const SourceFile& file : Tree()) {
    if (file.path == "tests/style/style_test.cc" || file.path.ends_with(".md")) {
      continue;
    }
    for (size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_FALSE(std::regex_search(file.lines[i], leftover))
          << file.path << ":" << i + 1 << " " << file.lines[i];
      EXPECT_FALSE(file.lines[i].ends_with(" ") || file.lines[i].find('\t') < file.lines[i].size())
          << file.path << ":" << i + 1 << " has trailing blanks or tabs";
    }
  }
}

TEST(Style, documents_name_files_that_exist) {
  static const std::regex named(
      R"(`((?:graph|slicer|replayer|shim|launch|experiments|tests)/[A-Za-z0-9_./-]*)`)");
  for (const SourceFile& file : Tree()) {
    if (!file.path.ends_with(".md")) {
      continue;
    }
    for (size_t i = 0; i < file.lines.size(); ++i) {
      for (std::sregex_iterator it(file.lines[i].begin(), file.lines[i].end(), named), end;
           it != end; ++it) {
        const auto path = std::filesystem::path(PRISM_SOURCE_DIR) / (*it)[1].str();
        EXPECT_TRUE(std::filesystem::exists(path))
            << file.path << ":" << i + 1 << " names " << (*it)[1];
      }
    }
  }
}

// "NOTES.md" of no folder: nobody could look it up.
TEST(Style, documents_that_are_cited_exist) {
  static const std::regex cited(R"(\b([A-Z][A-Z_]{2,}\.md)\b)");
  std::set<std::string> documents;
  for (const SourceFile& file : Tree()) {
    documents.insert(std::filesystem::path(file.path).filename());
  }
  for (const SourceFile& file : Tree()) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      for (std::sregex_iterator it(file.lines[i].begin(), file.lines[i].end(), cited), end;
           it != end; ++it) {
        EXPECT_TRUE(documents.contains((*it)[1]) || file.path == "tests/style/style_test.cc")
            << file.path << ":" << i + 1 << " cites " << (*it)[1];
      }
    }
  }
}

// A paragraph that can be read in one go. Rows of tables may be longer; experiments report in their
// own form.
TEST(Style, paragraphs_of_documents_are_short) {
  constexpr size_t kParagraph = 500;
  for (const SourceFile& file : Tree()) {
    if (!file.path.ends_with(".md") || file.path.starts_with("experiments/")) {
      continue;
    }
    for (size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_TRUE(Columns(file.lines[i]) <= kParagraph || file.lines[i].starts_with("|"))
          << file.path << ":" << i + 1 << " has " << Columns(file.lines[i]) << " characters";
    }
  }
}

TEST(Style, every_folder_says_its_one_job) {
  for (const char* folder :
       {"graph", "slicer", "replayer", "shim", "launch", "experiments", "tests"}) {
    const std::string readme = std::string(folder) + "/README.md";
    const auto file = std::ranges::find(Tree(), readme, &SourceFile::path);
    EXPECT_NE(file, Tree().end()) << readme << " is missing";
  }
  for (const SourceFile& file : Tree()) {
    if (!file.path.ends_with("/README.md") || file.path.starts_with("experiments/")) {
      continue;
    }
    const std::string folder = std::filesystem::path(file.path).parent_path();
    EXPECT_LE(file.lines.size(), 60U) << file.path;
    EXPECT_TRUE(!file.lines.empty() && file.lines[0].starts_with("# " + folder + ": "))
        << file.path << " begins with another title than '# " << folder << ": its one job'";
  }
}

}  // namespace
}  // namespace prism::style
