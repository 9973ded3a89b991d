#include "launch/verbs/edit_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/base/parse_number.h"
#include "launch/options/perturbation.h"
#include "launch/options/toml_reader.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/cost/nccl_tuner.h"

namespace prism::launch {
namespace {

using graph::OpKind;
using replayer::NcclAlgorithm;

constexpr double kMaxMicroseconds = 1e12;

// * stands for any text, ? for one character.
bool Fits(std::string_view text, std::string_view pattern) {
  size_t t = 0;
  size_t p = 0;
  size_t star = std::string_view::npos;
  size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++t;
      ++p;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

class EditReader {
 public:
  EditReader(const graph::Graph& graph, const replayer::ReplayOptions& options)
      : graph_(graph), options_(options), compute_(graph.cluster) {}

  Result<replayer::Edit> Read(const std::string& path) && {
    PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    PRISM_ASSIGN_OR_RETURN(TomlDocument document, TomlDocument::Parse(text, path));
    TomlReader root = document.root();
    ReadPerturbations(&root);
    for (auto [key, read] : {std::pair{"kernels", &EditReader::ReadKernels},
                             {"ops", &EditReader::ReadOps},
                             {"cluster", &EditReader::ReadCluster},
                             {"algorithms", &EditReader::ReadAlgorithms},
                             {"placement", &EditReader::ReadPlacement}}) {
      if (root.Has(key)) {
        TomlReader table = root.Table(key);
        (this->*read)(&table);
      }
    }
    root.RefuseOthers();
    PRISM_RETURN_IF_ERROR(document.status());
    if (!fault_.ok()) {
      return fault_.WithContext(path);
    }
    PRISM_RETURN_IF_ERROR(CheckProgramEdits(graph_, edit_).WithContext(path));
    return std::move(edit_);
  }

 private:
  void Fail(const std::string& what) {
    if (fault_.ok()) {
      fault_ = InvalidArgument(what);
    }
  }

  replayer::ReplayOptions* OtherOptions() {
    if (!edit_.options) {
      edit_.options = options_;
    }
    return &*edit_.options;
  }

  std::optional<replayer::Perturbation> Parse(const std::string& text) {
    Result<replayer::Perturbation> parsed = ParsePerturbation(text, graph_.job);
    if (!parsed.ok()) {
      Fail(parsed.status().message());
      return std::nullopt;
    }
    return *std::move(parsed);
  }

  void ReadPerturbations(TomlReader* root) {
    for (const std::string& text : root->TextsOr("perturb")) {
      if (std::optional<replayer::Perturbation> parsed = Parse(text)) {
        OtherOptions()->perturbations.push_back(*std::move(parsed));
      }
    }
  }

  // Ranks as --perturb names them.
  std::vector<Rank> ParseRanks(const std::string& text) {
    const std::optional<replayer::Perturbation> parsed = Parse("straggler:" + text + ":1");
    std::vector<Rank> ranks = parsed ? parsed->ranks : std::vector<Rank>();
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
  }

  [[nodiscard]] DurationNs DurationOf(const graph::Program& program, uint32_t op) const {
    if ((program.flags[op] & graph::kDurationFixed) != 0) {
      return program.value[op];
    }
    return compute_.Kernel(graph_, graph_.signatures[program.signature[op]]).duration_ns;
  }

  // A line of [kernels]: a duration, or a factor of what each kernel takes.
  struct KernelLine {
    std::vector<Rank> ranks;  // none: all
    double factor = -1;
    double microseconds = -1;
  };

  KernelLine ReadKernelLine(TomlReader line) {
    KernelLine read;
    if (line.Has("ranks")) {
      read.ranks = ParseRanks(line.Text("ranks"));
    }
    (line.Has("microseconds") ? read.microseconds : read.factor) =
        line.Number(line.Has("microseconds") ? "microseconds" : "factor");
    if (std::max(read.factor, read.microseconds) < 0 ||
        std::max(read.factor, read.microseconds) > kMaxMicroseconds) {
      Fail("a factor or duration of kernels must not be negative or beyond 10^12");
    }
    line.RefuseOthers();
    return read;
  }

  void ReadKernels(TomlReader* table) {
    for (const std::string& pattern : table->Keys()) {
      const KernelLine line = ReadKernelLine(table->Table(pattern));
      std::set<uint32_t> signatures;
      for (uint32_t s = 0; s < graph_.signatures.size(); ++s) {
        if (Fits(graph_.string(graph_.signatures[s].name), pattern)) {
          signatures.insert(s);
        }
      }
      bool any = false;
      for (uint32_t role = 0; role < graph_.roles.size() && fault_.ok(); ++role) {
        any = AddKernels(role, signatures, line) || any;
      }
      if (!any) {
        Fail(fmt::format("no kernel of these ranks fits '{}'", pattern));
      }
    }
  }

  // True when the role has any such kernel.
  bool AddKernels(uint32_t role, const std::set<uint32_t>& signatures, const KernelLine& line) {
    replayer::ProgramEdit edit;
    edit.role = role;
    for (Rank rank : line.ranks) {
      if (graph_.ranks.role[rank.value()] == role) {
        edit.ranks.push_back(rank);
      }
    }
    if (edit.ranks.empty() != line.ranks.empty()) {
      return false;
    }
    const graph::Program& program = graph_.roles[role].program;
    for (uint32_t op = 0; op < program.size(); ++op) {
      if (program.kind[op] != OpKind::kKernel || !signatures.contains(program.signature[op])) {
        continue;
      }
      const double duration = line.microseconds >= 0
                                  ? line.microseconds * 1e3
                                  : line.factor * static_cast<double>(DurationOf(program, op));
      edit.durations.push_back({op, std::llround(duration)});
    }
    if (edit.durations.empty()) {
      return false;
    }
    AddEdit(std::move(edit));
    return true;
  }

  void AddEdit(replayer::ProgramEdit edit) {
    for (const replayer::OpDuration& op : edit.durations) {
      if (!named_[edit.role].insert(op.op).second) {
        Fail(fmt::format("op {} of role '{}' is named twice", op.op, graph_.roles[edit.role].name));
      }
    }
    edit_.programs.push_back(std::move(edit));
  }

  void ReadOps(TomlReader* table) {
    for (const std::string& key : table->Keys()) {
      const double microseconds = table->Number(key);
      const size_t colon = key.find(':');
      uint32_t rank = 0;
      uint32_t op = 0;
      if (colon == std::string::npos ||
          !ParseNumber(std::string_view(key).substr(0, colon), &rank) ||
          !ParseNumber(std::string_view(key).substr(colon + 1), &op) ||
          rank >= graph_.ranks.size()) {
        Fail(fmt::format("'{}' is no RANK:OP of the job", key));
        continue;
      }
      if (microseconds < 0 || microseconds > kMaxMicroseconds) {
        Fail(fmt::format("op {} takes {} microseconds", key, microseconds));
        continue;
      }
      replayer::ProgramEdit edit;
      edit.role = graph_.ranks.role[rank];
      edit.ranks = {Rank(rank)};
      edit.durations = {{op, std::llround(microseconds * 1e3)}};
      edit_.programs.push_back(std::move(edit));
    }
  }

  void ReadCluster(TomlReader* table) {
    edit_.cluster = graph_.cluster;
    std::vector<graph::Parameter> parameters = graph_.cluster.parameters.all();
    for (const std::string& key : table->Keys()) {
      const auto found = std::find_if(parameters.begin(), parameters.end(),
                                      [&](const graph::Parameter& p) { return p.key == key; });
      if (found == parameters.end()) {
        Fail(fmt::format("the cluster has no parameter '{}'", key));
        continue;
      }
      found->value = table->Number(key);
      found->source = "edited";
      found->mark = graph::Mark::kAssumed;
    }
    edit_.cluster->parameters = graph::ParameterTable(std::move(parameters));
  }

  void ReadAlgorithms(TomlReader* table) {
    constexpr std::array kAlgorithms = {NcclAlgorithm::kTree, NcclAlgorithm::kRing,
                                        NcclAlgorithm::kNvls, NcclAlgorithm::kNvlsTree,
                                        NcclAlgorithm::kCollNet};
    std::vector<std::string> names;
    for (NcclAlgorithm algorithm : kAlgorithms) {
      names.emplace_back(NcclAlgorithmName(algorithm));
    }
    for (const std::string& communicator : table->Keys()) {
      const bool known =
          std::any_of(graph_.communicators.name.begin(), graph_.communicators.name.end(),
                      [&](uint32_t name) { return graph_.string(StringId(name)) == communicator; });
      if (communicator != "*" && !known) {
        Fail(fmt::format("no communicator is called '{}'", communicator));
      }
      const size_t choice = table->Choice(communicator, names);
      OtherOptions()->algorithms.push_back(
          {communicator == "*" ? "" : communicator, kAlgorithms[choice]});
    }
  }

  void ReadPlacement(TomlReader* table) {
    std::vector<uint32_t>& placement = OtherOptions()->placement;
    if (placement.empty()) {
      placement.resize(graph_.ranks.size());
      std::iota(placement.begin(), placement.end(), 0U);
    }
    for (const std::string& key : table->Keys()) {
      uint32_t rank = 0;
      if (!ParseNumber(key, &rank) || rank >= placement.size()) {
        Fail(fmt::format("'{}' is no rank of the job", key));
        continue;
      }
      const auto other =
          static_cast<size_t>(table->Integer(key, 0, static_cast<int64_t>(placement.size()) - 1));
      std::swap(placement[rank], placement[other]);
    }
  }

  const graph::Graph& graph_;
  const replayer::ReplayOptions& options_;
  replayer::ComputeCost compute_;
  replayer::Edit edit_;
  std::map<uint32_t, std::set<uint32_t>> named_;  // by role: ops of [kernels]
  Status fault_;
};

}  // namespace

Result<replayer::Edit> ReadEditFile(const std::string& path,
                                    const graph::Graph& graph,
                                    const replayer::ReplayOptions& options) {
  return EditReader(graph, options).Read(path);
}

}  // namespace prism::launch
