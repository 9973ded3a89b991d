#include "launch/inputs/perturbation.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/divide.h"
#include "graph/base/parallel.h"
#include "graph/base/parse_number.h"
#include "graph/base/split.h"
#include "graph/base/time.h"
#include "replayer/network/flow_replay.h"
#include "replayer/network/routing.h"
#include "replayer/perturb/rank_effects.h"

namespace prism::launch {
namespace {

// In the order of replayer::JitterShape.
constexpr std::array<std::string_view, replayer::kJitterShapes> kShapes = {
    "normal", "lognormal", "exponential", "uniform"};

// A kind of perturbation, and what follows it.
struct Form {
  std::string_view kind;
  std::string_view values;
};

constexpr auto kForms = std::to_array<Form>({
    {"straggler", "RANKS:FACTOR"},
    {"link", "NODE-NODE:FACTOR"},
    {"kill", "RANK@ITERATION"},
    {"late", "RANK:SECONDS"},
    {"host", "RANKS:FACTOR"},
    {"periodic", "RANKS:PERIOD:SECONDS"},
    {"jitter", "FRACTION[:normal|lognormal|exponential|uniform]"},
    {"fail", "LINK or fail:SWITCH"},
});

// What is wrong with a text of that kind that has none of the forms.
std::string WrongForm(std::string_view kind) {
  std::vector<std::string> kinds;
  for (const Form& form : kForms) {
    if (form.kind == kind) {
      return fmt::format("must be {}:{}", kind, form.values);
    }
    kinds.emplace_back(form.kind);
  }
  const std::string near = NearestName(kind, kinds);
  return near.empty() ? fmt::format("must be {}", kPerturbationForms)
                      : fmt::format("is of no known kind; did you mean {}?", near);
}

// Reads one option; every Read function returns what is wrong, or "".
class PerturbationParser {
 public:
  explicit PerturbationParser(const graph::JobSpec& job) : job_(job) {}

  std::string Read(std::string_view text) {
    result.text = text;
    const std::vector<std::string_view> parts = SplitAt(text, ':');
    const std::string_view kind = parts[0];
    using enum replayer::PerturbationKind;
    if (kind == "straggler" && parts.size() == 3) {
      result.kind = kStraggler;
      return FirstOf(ReadRanks(parts[1]), ReadFactor(parts[2]));
    }
    if (kind == "link" && parts.size() == 3) {
      result.kind = kLink;
      return FirstOf(ReadNodes(parts[1]), ReadSlowdown(parts[2]));
    }
    if (kind == "kill" && parts.size() == 2) {
      result.kind = kKill;
      return ReadKill(parts[1]);
    }
    if (kind == "late" && parts.size() == 3) {
      result.kind = kLate;
      return FirstOf(ReadRanks(parts[1]), ReadDelay(parts[2]));
    }
    if (kind == "jitter" && (parts.size() == 2 || parts.size() == 3)) {
      result.kind = kJitter;
      return FirstOf(ReadJitter(parts[1]), parts.size() == 3 ? ReadShape(parts[2]) : "");
    }
    if (kind == "host" && parts.size() == 3) {
      result.kind = kHost;
      return FirstOf(ReadRanks(parts[1]), ReadFactor(parts[2]));
    }
    if (kind == "periodic" && parts.size() == 4) {
      result.kind = kPeriodic;
      return FirstOf(ReadRanks(parts[1]), ReadPeriodic(parts[2], parts[3]));
    }
    if (kind == "fail" && parts.size() == 2) {
      result.kind = kFail;
      result.part = parts[1];
      return result.part.empty() ? "names no link or switch" : "";
    }
    return WrongForm(kind);
  }

  replayer::Perturbation result;

 private:
  std::string ReadRanks(std::string_view text) {
    Result<std::vector<Rank>> ranks = ParseRankRanges(text, job_);
    if (!ranks.ok()) {
      return ranks.status().message();
    }
    result.ranks = *std::move(ranks);
    return {};
  }

  std::string ReadFactor(std::string_view text) {
    if (!ParseNumber(text, &result.factor) || !(result.factor > 0) || result.factor > 1e6) {
      return fmt::format("has the factor '{}'; it must be a number above 0 and at most 1e6", text);
    }
    return {};
  }

  // For links: the effect of a faster one is a question for a different cluster.
  std::string ReadSlowdown(std::string_view text) {
    const std::string wrong = ReadFactor(text);
    return wrong.empty() && result.factor < 1
               ? fmt::format("has the factor '{}'; a link's factor must be 1 or more", text)
               : wrong;
  }

  // What is wrong first.
  static std::string FirstOf(const std::string& first, const std::string& second) {
    return first.empty() ? second : first;
  }

  std::string ReadNodes(std::string_view text) {
    const std::vector<std::string_view> nodes = SplitAt(text, '-');
    if (nodes.size() != 2 || !ParseNumber(nodes[0], &result.node_a) ||
        !ParseNumber(nodes[1], &result.node_b) || result.node_a < 0 || result.node_b < 0) {
      return fmt::format("names the link '{}'; it must be two node numbers, as in 3-7", text);
    }
    if (result.node_a == result.node_b) {
      return fmt::format("names the link '{}'; a link joins two different nodes", text);
    }
    return {};
  }

  std::string ReadKill(std::string_view text) {
    const std::vector<std::string_view> parts = SplitAt(text, '@');
    if (parts.size() != 2 || !ParseNumber(parts[1], &result.iteration) || result.iteration < 0) {
      return fmt::format("has '{}' where RANK@ITERATION is needed", text);
    }
    return ReadRanks(parts[0]);
  }

  std::string ReadDelay(std::string_view text) {
    return ReadSeconds("delay", text, &result.delay_ns);
  }

  static std::string ReadSeconds(std::string_view what, std::string_view text, DurationNs* target) {
    double seconds = 0;
    if (!ParseNumber(text, &seconds) || !(seconds >= 0) || seconds > 1e6) {
      return fmt::format("has the {} '{}'; it must be from 0 to 1e6 seconds", what, text);
    }
    *target = NsFromSeconds(seconds);
    return {};
  }

  std::string ReadPeriodic(std::string_view period, std::string_view duration) {
    const std::string wrong = ReadSeconds("duration", duration, &result.duration_ns);
    if (!wrong.empty()) {
      return wrong;
    }
    if (period.ends_with('i')) {
      period.remove_suffix(1);
      const bool read = ParseNumber(period, &result.period_iterations);
      return read && result.period_iterations > 0
                 ? ""
                 : fmt::format(
                       "has the period '{}i'; it needs a whole number of iterations, as in 100i",
                       period);
    }
    constexpr DurationNs kShortestNs = 10'000;
    std::string wrong_period = ReadSeconds("period", period, &result.period_ns);
    if (wrong_period.empty() &&
        (result.period_ns < kShortestNs || result.duration_ns >= result.period_ns)) {
      return fmt::format(
          "takes {} s of every {} s; the period must be longer, and at least 0.00001 s", duration,
          period);
    }
    return wrong_period;
  }

  std::string ReadShape(std::string_view text) {
    const auto found = std::find(kShapes.begin(), kShapes.end(), text);
    if (found == kShapes.end()) {
      return fmt::format("has the unknown distribution '{}'; choose one of {}", text,
                         fmt::join(kShapes, ", "));
    }
    result.shape = static_cast<replayer::JitterShape>(found - kShapes.begin());
    return {};
  }

  std::string ReadJitter(std::string_view text) {
    if (!ParseNumber(text, &result.factor) || !(result.factor >= 0) || result.factor >= 1) {
      return fmt::format("has the fraction '{}'; it must be at least 0 and below 1", text);
    }
    return {};
  }

  const graph::JobSpec& job_;
};

// What is wrong with a perturbation on that many nodes in such a replay; empty if nothing.
std::string WrongBeside(const replayer::Perturbation& perturbation,
                        int64_t nodes,
                        const replayer::ReplayOptions& replay) {
  if (perturbation.kind == replayer::PerturbationKind::kLink &&
      std::max(perturbation.node_a, perturbation.node_b) >= nodes) {
    return fmt::format("names node {}; the job has nodes 0 to {}",
                       std::max(perturbation.node_a, perturbation.node_b), nodes - 1);
  }
  if (perturbation.kind == replayer::PerturbationKind::kFail &&
      replay.network != replayer::NetworkModel::kFlow) {
    return "needs --network flow";
  }
  if (perturbation.kind == replayer::PerturbationKind::kKill &&
      perturbation.iteration >= replay.iterations) {
    return fmt::format("comes after the last iteration, {}; raise --iterations",
                       replay.iterations - 1);
  }
  if (perturbation.period_iterations > replay.iterations) {
    return fmt::format(
        "first acts after {} iterations, but only {} are replayed; raise --iterations",
        perturbation.period_iterations, replay.iterations);
  }
  return {};
}

// Precedes the name of what is out of service.
constexpr std::string_view kFailPrefix = "fail:";

}  // namespace

Result<std::vector<Rank>> ParseRankRanges(std::string_view text, const graph::JobSpec& job) {
  const int64_t world = job.parallel.world_size();
  std::vector<Rank> ranks;
  for (const std::string_view part : SplitAt(text, '+')) {
    const size_t dash = part.find('-');
    int64_t low = -1;
    int64_t high = -1;
    const bool numbers = ParseNumber(part.substr(0, dash), &low) &&
                         ParseNumber(dash == part.npos ? part : part.substr(dash + 1), &high);
    if (!numbers || low < 0 || low > high || high >= world) {
      return InvalidArgument(
          fmt::format("names ranks '{}'; use numbers and ranges from 0 to {}, as in 3 or 0-7+12",
                      part, world - 1));
    }
    for (int64_t rank = low; rank <= high; ++rank) {
      ranks.emplace_back(static_cast<uint32_t>(rank));
    }
    // A rank named twice counts once; done part by part so that the list stays bounded.
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  }
  return ranks;
}

Result<replayer::Perturbation> ParsePerturbation(const PerturbationText& given,
                                                 const graph::JobSpec& job,
                                                 const graph::ClusterSpec& cluster,
                                                 const replayer::ReplayOptions& replay) {
  PerturbationParser parser(job);
  std::string wrong = parser.Read(given.text);
  const int64_t nodes = DivideUp(job.parallel.world_size(), int64_t{cluster.gpus_per_node});
  wrong = wrong.empty() ? WrongBeside(parser.result, nodes, replay) : wrong;
  if (wrong.empty()) {
    return parser.result;
  }
  return given.file.empty() ? InvalidArgument(fmt::format("--perturb {} {}", given.text, wrong))
                            : BadFile(fmt::format("{}: {} {}", given.file, given.text, wrong));
}

Status CheckNetwork(const Options& options,
                    const graph::JobSpec& job,
                    const graph::ClusterSpec& cluster) {
  if (options.network != replayer::NetworkModel::kFlow) {
    return OkStatus();
  }
  const auto gpus = static_cast<uint32_t>(job.parallel.world_size());
  PRISM_ASSIGN_OR_RETURN(const replayer::Topology network, replayer::NetworkOfJob(cluster, gpus));
  for (const PerturbationText& given : options.perturb) {
    if (given.text.starts_with(kFailPrefix)) {
      const std::string part = given.text.substr(kFailPrefix.size());
      const Status found = replayer::LinksNamed(network, part).status();
      if (!found.ok()) {
        return given.file.empty() ? InvalidArgument("--perturb " + found.message())
                                  : BadFile(found.message()).WithContext(given.file);
      }
    }
  }
  return OkStatus();
}

Result<replayer::ReplayOptions> MakeReplayOptions(const Options& options,
                                                  const graph::JobSpec& job,
                                                  const graph::ClusterSpec& cluster) {
  replayer::ReplayOptions replay;
  replay.iterations = options.iterations;
  replay.seed = options.seed;
  replay.threads = AvailableThreads();
  replay.network = options.network;
  for (const PerturbationText& given : options.perturb) {
    PRISM_ASSIGN_OR_RETURN(replayer::Perturbation perturbation,
                           ParsePerturbation(given, job, cluster, replay));
    replay.perturbations.push_back(std::move(perturbation));
  }
  const auto ranks = static_cast<uint32_t>(job.parallel.world_size());
  const uint32_t nodes = DivideUp(ranks, static_cast<uint32_t>(cluster.gpus_per_node));
  PRISM_RETURN_IF_ERROR(replayer::CheckPerturbations(ranks, nodes, replay.perturbations));
  return replay;
}

}  // namespace prism::launch
