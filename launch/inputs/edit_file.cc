#include "launch/inputs/edit_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/base/parse_number.h"
#include "graph/validate/valid_graph.h"
#include "launch/inputs/perturbation.h"
#include "launch/inputs/placement_policy.h"
#include "launch/inputs/presets.h"
#include "launch/inputs/program_edit_file.h"
#include "launch/inputs/toml_reader.h"
#include "replayer/cost/nccl_tuner.h"
#include "replayer/cost/parameters.h"
#include "replayer/edit/edit_builder.h"

namespace prism::launch {
namespace {

using replayer::KernelChange;
using replayer::NcclAlgorithm;

constexpr double kMaxMicroseconds = 1e12;

// The tables of one file, read in a fixed order regardless of theirs; the first fault counts.
class EditReader {
 public:
  EditReader(const graph::Graph& graph, const replayer::ReplayOptions& options)
      : graph_(graph), options_(options), builder_(graph, options) {}

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
    EditFile file;
    file.assumptions = builder_.assumptions();
    Result<replayer::Edit> edit = std::move(builder_).Take();
    if (!edit.ok()) {
      return edit.status().WithContext(path);
    }
    if (edit->cluster) {
      if (const std::vector<std::string> faults =
              replayer::CheckParameters(edit->cluster->parameters);
          !faults.empty()) {
        return BadFile(fmt::format("{}: {}", path, faults.front()));
      }
    }
    file.edit = *std::move(edit);
    return file;
  }

 private:
  void Note(const Status& status) {
    if (fault_.ok()) {
      fault_ = status;
    }
  }

  void Fail(const std::string& what) { Note(BadFile(what)); }

  std::optional<replayer::Perturbation> Parse(const std::string& text) {
    Result<replayer::Perturbation> parsed =
        ParsePerturbation({text, ""}, graph_.job, graph_.cluster, options_);
    if (!parsed.ok()) {
      Fail(parsed.status().message());
      return std::nullopt;
    }
    return *std::move(parsed);
  }

  void ReadPerturbations(TomlReader* root) {
    for (const std::string& text : root->TextsOr("perturb")) {
      if (std::optional<replayer::Perturbation> parsed = Parse(text)) {
        builder_.Perturb(*std::move(parsed));
      }
    }
  }

  KernelChange ReadKernelLine(const std::string& pattern, TomlReader line) {
    KernelChange change;
    change.pattern = pattern;
    if (line.Has("ranks")) {
      Result<std::vector<Rank>> ranks = ParseRankRanges(line.Text("ranks"), graph_.job);
      Note(ranks.ok() ? OkStatus()
                      : BadFile(fmt::format("[kernels]: {}", ranks.status().message())));
      change.ranks = ranks.ok() ? *std::move(ranks) : std::vector<Rank>();
    }
    if (line.Has("shape")) {
      change.shape = line.Text("shape");
    }
    if (line.Has("fuse")) {
      change.kind = line.BoolOr("fuse", false) ? KernelChange::Kind::kFuse : change.kind;
    } else {
      const bool timed = line.Has("microseconds");
      const double number = line.Number(timed ? "microseconds" : "factor");
      if (!(number >= 0 && number <= kMaxMicroseconds)) {
        Fail("a factor or duration of kernels must be from 0 to 10^12");
      } else if (timed) {
        change.kind = KernelChange::Kind::kDuration;
        change.duration_ns = std::llround(number * 1e3);
      } else {
        change.factor = number;
      }
    }
    line.RefuseOthers();
    return change;
  }

  void ReadKernels(TomlReader* table) {
    for (const std::string& pattern : table->Keys()) {
      const KernelChange change = ReadKernelLine(pattern, table->Table(pattern));
      if (fault_.ok()) {
        Note(builder_.ChangeKernels(change));
      }
    }
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
        Fail(fmt::format("'{}' is not a RANK:OP of the job", key));
      } else if (!(microseconds >= 0 && microseconds <= kMaxMicroseconds)) {
        Fail(fmt::format("op {} has {} microseconds; it must be from 0 to 10^12", key,
                         microseconds));
      } else {
        builder_.SetOp(Rank(rank), op, std::llround(microseconds * 1e3));
      }
    }
  }

  void ReadGpu(TomlReader* table) {
    const Result<graph::ClusterSpec> other = LoadCluster(table->Text("of"));
    if (other.ok()) {
      builder_.TakeGpuOf(*other);
    } else {
      Fail(other.status().message());
    }
  }

  void ReadPrecision(TomlReader* table) {
    const std::string name = table->Text("products");
    const DataType type = DataTypeNamed(name).value_or(DataType::kUnknown);
    if (type != DataType::kFloat8 && type != DataType::kBfloat16 && type != DataType::kFloat16 &&
        type != DataType::kFloat32) {
      Fail(fmt::format("products is '{}'; it must be float8, bfloat16, float16 or float32", name));
    } else {
      Note(builder_.ChangePrecision(type));
    }
  }

  void ReadCluster(TomlReader* table) {
    for (const std::string& key : table->Keys()) {
      Note(builder_.SetParameter(key, table->Number(key)));
    }
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
      Note(builder_.ForceAlgorithm(communicator, kAlgorithms[table->Choice(communicator, names)]));
    }
  }

  void ReadPlacement(TomlReader* table) {
    const auto ranks = static_cast<int64_t>(graph_.ranks.size());
    if (table->Has("policy")) {
      const PlacementPolicy policy = table->Choice("policy", kPlacementNames);
      const auto seed = static_cast<uint64_t>(
          table->IntegerOr("seed", 0, std::numeric_limits<int64_t>::max(), 0));
      builder_.Place(GpusOnNodes(graph_, NodesOfJobs(policy, {NodesOf(graph_)}, seed).front()));
    }
    for (const std::string& key : table->Keys()) {
      uint32_t rank = 0;
      if (key == "policy" || key == "seed") {
        continue;
      }
      if (!ParseNumber(key, &rank) || rank >= ranks) {
        Fail(fmt::format("'{}' is not a rank of the job, nor policy or seed", key));
        continue;
      }
      const auto other = static_cast<uint32_t>(table->Integer(key, 0, ranks - 1));
      if (table->Has(fmt::format("{}", other)) && other != rank) {
        Fail(fmt::format("[placement] names rank {} twice; one line already swaps both ranks",
                         other));
        continue;
      }
      builder_.SwapPlaces(Rank(rank), Rank(other));
    }
  }

  const graph::Graph& graph_;
  const replayer::ReplayOptions& options_;
  replayer::EditBuilder builder_;
  Status fault_;
};

Result<EditFile> Read(const std::string& path,
                      const graph::Graph& graph,
                      const replayer::ReplayOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  PRISM_ASSIGN_OR_RETURN(TomlDocument document, TomlDocument::Parse(text, path));
  TomlReader root = document.root();
  if (root.Keys().empty()) {
    return BadFile(
        fmt::format("{}: contains no edit; see prism replay --help for what it may hold", path));
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
  if (const Status valid = graph::RefuseInvalid(&edited->graph); !valid.ok()) {
    return InvalidArgument(
        fmt::format("{}: the program edited by [[program]] cannot run: {}", path, valid.message()));
  }
  PRISM_ASSIGN_OR_RETURN(EditFile file,
                         EditReader(edited->graph, options).Read(path, document, std::move(root)));
  file.assumptions.insert(file.assumptions.begin(), edited->assumptions.begin(),
                          edited->assumptions.end());
  file.memory = std::move(edited->memory);
  file.program = std::move(edited->graph);
  return file;
}

}  // namespace

Status FaultOfEdit(const Status& status, const std::string& path) {
  if (status.code() != StatusCode::kInvalidArgument) {
    return status;
  }
  const std::string& message = status.message();
  return BadFile(message.starts_with(path) ? message : fmt::format("{}: {}", path, message));
}

Result<EditFile> ReadEditFile(const std::string& path,
                              const graph::Graph& graph,
                              const replayer::ReplayOptions& options) {
  Result<EditFile> file = Read(path, graph, options);
  return file.ok() ? std::move(file) : FaultOfEdit(file.status(), path);
}

}  // namespace prism::launch
