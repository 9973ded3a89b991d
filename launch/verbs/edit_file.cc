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
#include "graph/base/glob.h"
#include "graph/base/parse_number.h"
#include "graph/limits.h"
#include "graph/valid_graph.h"
#include "launch/options/perturbation.h"
#include "launch/options/presets.h"
#include "launch/options/toml_reader.h"
#include "launch/verbs/program_edit_file.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/cost/measured_kernels.h"
#include "replayer/cost/nccl_tuner.h"

namespace prism::launch {
namespace {

using graph::OpKind;
using replayer::NcclAlgorithm;

constexpr double kMaxMicroseconds = 1e12;

class EditReader {
 public:
  EditReader(const graph::Graph& graph, const replayer::ReplayOptions& options)
      : graph_(graph), options_(options), compute_(graph.cluster) {}

  // All but [[program]].
  Result<EditFile> Read(const std::string& path, const TomlDocument& document, TomlReader root) && {
    ReadPerturbations(&root);
    for (auto [key, read] : {std::pair{"gpu", &EditReader::ReadGpu},
                             {"cluster", &EditReader::ReadCluster},
                             {"kernels", &EditReader::ReadKernels},
                             {"precision", &EditReader::ReadPrecision},
                             {"ops", &EditReader::ReadOps},
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
    PRISM_RETURN_IF_ERROR(CheckDurations().WithContext(path));
    EditFile file;
    file.edit = std::move(edit_);
    file.assumptions = std::move(assumptions_);
    return file;
  }

 private:
  // As graph/validate.h asks of a graph.
  [[nodiscard]] Status CheckDurations() const {
    for (const replayer::ProgramEdit& program : edit_.programs) {
      const double sum = std::accumulate(program.durations.begin(), program.durations.end(), 0.0,
                                         [](double ns, const replayer::OpDuration& op) {
                                           return ns + static_cast<double>(op.duration_ns);
                                         });
      if (sum > static_cast<double>(graph::kMaxProgramNs)) {
        return BadFile("kernels of a program take more than 11 days");
      }
    }
    return OkStatus();
  }

  void Fail(const std::string& what) {
    if (fault_.ok()) {
      fault_ = BadFile(what);
    }
  }

  replayer::ReplayOptions* OtherOptions() {
    if (!edit_.options) {
      edit_.options = options_;
    }
    return &*edit_.options;
  }

  std::optional<replayer::Perturbation> Parse(const std::string& text) {
    Result<replayer::Perturbation> parsed = ParsePerturbation({text, ""}, graph_.job, options_);
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

  // A line of [kernels]: a duration, a factor of what each kernel takes, or runs of them as one.
  struct KernelLine {
    std::vector<Rank> ranks;  // none: all
    std::string shape;        // "" any
    bool fuse = false;
    double factor = 1;
    double microseconds = -1;
  };

  KernelLine ReadKernelLine(TomlReader line) {
    KernelLine read;
    if (line.Has("ranks")) {
      read.ranks = ParseRanks(line.Text("ranks"));
    }
    if (line.Has("shape")) {
      read.shape = line.Text("shape");
    }
    if (line.Has("fuse")) {
      read.fuse = line.BoolOr("fuse", false);
    } else {
      (line.Has("microseconds") ? read.microseconds : read.factor) =
          line.Number(line.Has("microseconds") ? "microseconds" : "factor");
    }
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
        const graph::KernelSignature& signature = graph_.signatures[s];
        const graph::MatmulShape& product = signature.matmul;
        const bool shaped =
            line.shape.empty() ||
            FitsPattern(fmt::format("{}x{}x{}", product.m, product.n, product.k), line.shape);
        if (shaped && FitsPattern(graph_.string(signature.name), pattern)) {
          signatures.insert(s);
        }
      }
      bool any = false;
      for (uint32_t role = 0; role < graph_.roles.size() && fault_.ok(); ++role) {
        any = AddKernels(role, signatures, line) || any;
      }
      if (!any) {
        Fail(fmt::format("no {} of these ranks fits '{}'", line.fuse ? "run of kernels" : "kernel",
                         pattern));
      }
      if (line.fuse) {
        assumptions_.push_back(
            fmt::format("fused runs of '{}' take as long as their longest kernel; the host issues "
                        "what it issued",
                        pattern));
      }
    }
  }

  static bool IsKernelOf(const graph::Program& program,
                         uint32_t op,
                         const std::set<uint32_t>& signatures) {
    return program.kind[op] == OpKind::kKernel && signatures.contains(program.signature[op]);
  }

  // Kernels that follow each other on a stream with nothing else issued between them: the first
  // takes what the longest did, the others nothing.
  [[nodiscard]] std::vector<replayer::OpDuration> FusedRuns(
      const graph::Program& program, const std::set<uint32_t>& signatures) const {
    std::vector<replayer::OpDuration> durations;
    for (uint32_t begin = 0; begin < program.size();) {
      uint32_t end = begin;
      DurationNs longest = 0;
      while (end < program.size() && IsKernelOf(program, end, signatures) &&
             program.stream[end] == program.stream[begin]) {
        longest = std::max(longest, DurationOf(program, end++));
      }
      for (uint32_t op = begin; end > begin + 1 && op < end; ++op) {
        durations.push_back({op, op == begin ? longest : 0});
      }
      begin = std::max(end, begin + 1);
    }
    return durations;
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
    if (line.fuse) {
      edit.durations = FusedRuns(program, signatures);
    }
    for (uint32_t op = 0; op < program.size() && !line.fuse; ++op) {
      if (!IsKernelOf(program, op, signatures)) {
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

  [[nodiscard]] int64_t MeasuredKernels() const {
    int64_t count = 0;
    for (const graph::Role& role : graph_.roles) {
      for (uint32_t op = 0; op < role.program.size(); ++op) {
        const bool fixed = (role.program.flags[op] & graph::kDurationFixed) != 0;
        count += fixed && role.program.kind[op] == OpKind::kKernel ? 1 : 0;
      }
    }
    return count;
  }

  void UseCluster(graph::ClusterSpec cluster) {
    compute_ = replayer::ComputeCost(cluster);
    edit_.cluster = std::move(cluster);
  }

  // Everything that a GPU's profile states; nodes, links and hosts stay.
  void ReadGpu(TomlReader* table) {
    Result<graph::ClusterSpec> other = LoadCluster(table->Text("of"));
    if (!other.ok()) {
      Fail(other.status().message());
      return;
    }
    graph::ClusterSpec cluster = graph_.cluster;
    cluster.gpu = other->gpu;
    std::vector<graph::Parameter> parameters = cluster.parameters.all();
    std::erase_if(parameters, [](const graph::Parameter& parameter) {
      return replayer::IsMeasuredKernelKey(parameter.key);
    });
    for (const graph::Parameter& parameter : other->parameters.all()) {
      if (replayer::IsMeasuredKernelKey(parameter.key)) {
        parameters.push_back(parameter);
      }
    }
    for (graph::Parameter& parameter : parameters) {
      const graph::Parameter* of_other = other->parameters.Find(parameter.key);
      if (parameter.key.starts_with("gpu.") && of_other != nullptr) {
        parameter = *of_other;
      }
    }
    cluster.parameters = graph::ParameterTable(std::move(parameters));
    assumptions_.push_back(fmt::format(
        "on {} the same kernels run with the same grids; {} of measured duration keep it; nodes, "
        "links and hosts stay",
        cluster.gpu.name, MeasuredKernels()));
    UseCluster(std::move(cluster));
  }

  // What the model makes of each product with factors of that type; measured ones change by as
  // much as the model's do.
  void ReadPrecision(TomlReader* table) {
    constexpr std::array kTypes = {graph::DataType::kFloat8, graph::DataType::kBfloat16,
                                   graph::DataType::kFloat16, graph::DataType::kFloat32};
    const graph::DataType type = kTypes[table->Choice("products", {"fp8", "bf16", "fp16", "fp32"})];
    for (uint32_t role = 0; role < graph_.roles.size(); ++role) {
      const graph::Program& program = graph_.roles[role].program;
      replayer::ProgramEdit edit;
      edit.role = role;
      for (uint32_t op = 0; op < program.size(); ++op) {
        if (program.kind[op] != OpKind::kKernel ||
            graph_.signatures[program.signature[op]].matmul.m == 0) {
          continue;
        }
        graph::KernelSignature signature = graph_.signatures[program.signature[op]];
        const DurationNs before = compute_.Kernel(graph_, signature).duration_ns;
        signature.matmul.input = type;
        const auto after = static_cast<double>(compute_.Kernel(graph_, signature).duration_ns);
        const double share = after / static_cast<double>(std::max<DurationNs>(1, before));
        edit.durations.push_back(
            {op, std::llround(share * static_cast<double>(DurationOf(program, op)))});
      }
      if (!edit.durations.empty()) {
        AddEdit(std::move(edit));
      }
    }
    assumptions_.emplace_back(
        "of another precision are the matrix products alone: no kernel casts, activations and "
        "transfers keep their size");
  }

  void ReadCluster(TomlReader* table) {
    graph::ClusterSpec cluster = edit_.cluster.value_or(graph_.cluster);
    std::vector<graph::Parameter> parameters = cluster.parameters.all();
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
    cluster.parameters = graph::ParameterTable(std::move(parameters));
    UseCluster(std::move(cluster));
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
      if (table->Has(fmt::format("{}", other)) && other != rank) {
        Fail(fmt::format("[placement] names rank {} twice: a line swaps both of its ranks", other));
        continue;
      }
      std::swap(placement[rank], placement[other]);
    }
  }

  const graph::Graph& graph_;
  const replayer::ReplayOptions& options_;
  replayer::ComputeCost compute_;
  replayer::Edit edit_;
  std::map<uint32_t, std::set<uint32_t>> named_;  // by role: ops of [kernels]
  std::vector<std::string> assumptions_;
  Status fault_;
};

}  // namespace

Result<EditFile> ReadEditFile(const std::string& path,
                              const graph::Graph& graph,
                              const replayer::ReplayOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  PRISM_ASSIGN_OR_RETURN(TomlDocument document, TomlDocument::Parse(text, path));
  TomlReader root = document.root();
  if (root.Keys().empty()) {
    return BadFile(fmt::format("{}: holds no edit, so it would change nothing; see --help", path));
  }
  const std::vector<slicer::ProgramEditStep> steps = ReadProgramEdits(graph.job, &root);
  PRISM_RETURN_IF_ERROR(document.status());
  if (steps.empty()) {
    return EditReader(graph, options).Read(path, document, std::move(root));
  }
  Result<slicer::EditedGraph> edited = slicer::ApplyProgramEdits(graph, steps);
  if (!edited.ok()) {
    return edited.status().WithContext(path);
  }
  if (const Status valid = graph::RefuseInvalid(edited->graph); !valid.ok()) {
    return InvalidArgument(
        fmt::format("{}: what [[program]] makes cannot run: {}", path, valid.message()));
  }
  PRISM_ASSIGN_OR_RETURN(EditFile file,
                         EditReader(edited->graph, options).Read(path, document, std::move(root)));
  file.assumptions.insert(file.assumptions.begin(), edited->assumptions.begin(),
                          edited->assumptions.end());
  file.memory = std::move(edited->memory);
  file.program = std::move(edited->graph);
  return file;
}

}  // namespace prism::launch
