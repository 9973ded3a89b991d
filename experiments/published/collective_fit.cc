#include "experiments/published/collective_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace prism::launch {
namespace {

// One number of the search. Steps are factors on (value + offset), so that a value of zero can
// change.
struct Knob {
  std::string profile;
  std::string key;
  double value = 0;
  double first = 0;
};

constexpr double kMaxBytesPerSecond = 1e14;  // of a pass that costs nothing

double OffsetOf(const std::string& key) {
  if (key.ends_with("_ns")) {
    return 1000;
  }
  return key == "nccl.ramp" || key == "net.bandwidth_loss_per_doubling" ? 0.02 : 0;
}

// A network with fewer rows keeps its values: five numbers would overfit single rows.
constexpr size_t kLeastRows = 6;

// Rows of one platform, and its cluster according to the profiles.
struct PlatformRows {
  graph::ClusterSpec cluster;
  std::string network;
  std::string links;
  std::vector<const CollectiveRow*> rows;
  double loss = 0;  // sum over the rows
};

class Search {
 public:
  Status Prepare(const std::vector<const CollectiveRow*>& rows) {
    std::map<CollectivePlatform, std::vector<const CollectiveRow*>> by_platform;
    std::map<std::string, size_t> rows_of;
    for (const CollectiveRow* row : rows) {
      if (row->reason_skipped.empty() && !row->saturated) {
        ++rows_of[row->platform.network];
        by_platform[row->platform].push_back(row);
      }
    }
    for (auto& [platform, members] : by_platform) {
      PRISM_ASSIGN_OR_RETURN(graph::ClusterSpec cluster, ClusterOf(platform, {}));
      const std::string links = LinksOf(cluster);
      if (rows_of[platform.network] >= kLeastRows) {
        AddKnobs(platform.network, FittedCollectiveParameters().network, cluster);
      }
      if (!links.empty()) {
        AddKnobs(links, FittedCollectiveParameters().links, cluster);
      }
      platforms_.push_back({std::move(cluster), platform.network, links, std::move(members), 0});
    }
    return OkStatus();
  }

  void Run() {
    constexpr double kLastStep = 0.004;
    for (PlatformRows& platform : platforms_) {
      platform.loss = LossOf(platform);
    }
    for (double step = 0.4; step > kLastStep; step /= 2) {
      bool improved = true;
      for (int round = 0; improved && round < 20; ++round) {
        improved = false;
        for (Knob& knob : knobs_) {
          improved |= TryStep(&knob, 1 + step) || TryStep(&knob, 1 / (1 + step));
        }
      }
    }
  }

  [[nodiscard]] ProfileOverrides Values() const {
    ProfileOverrides values;
    for (const Knob& knob : knobs_) {
      if (knob.value != knob.first) {
        values[knob.profile][knob.key] = knob.value;
      }
    }
    return values;
  }

 private:
  void AddKnobs(const std::string& profile,
                const std::vector<std::string>& keys,
                const graph::ClusterSpec& cluster) {
    for (const std::string& key : keys) {
      const bool there = std::ranges::any_of(
          knobs_, [&](const Knob& knob) { return knob.profile == profile && knob.key == key; });
      if (!there) {
        const double value = cluster.parameters.Value(key);
        knobs_.push_back({profile, key, value, value});
      }
    }
  }

  [[nodiscard]] double LossOf(const PlatformRows& platform) const {
    graph::ClusterSpec cluster = platform.cluster;
    for (const Knob& knob : knobs_) {
      if (Turns(knob, platform)) {
        cluster.parameters.SetValue(knob.key, knob.value);
      }
    }
    const replayer::CollectiveCost cost(cluster);
    double sum = 0;
    for (const CollectiveRow* row : platform.rows) {
      sum += std::abs(std::log(Predict(*row, cost).seconds / row->measured_s));
    }
    return sum;
  }

  static bool Turns(const Knob& knob, const PlatformRows& platform) {
    return knob.profile == platform.network || knob.profile == platform.links;
  }

  // Keeps the step if it improves the platforms that it affects, taken together.
  bool TryStep(Knob* knob, double factor) {
    const double before = knob->value;
    const double offset = OffsetOf(knob->key);
    knob->value = std::max(0.0, (before + offset) * factor - offset);
    if (knob->key.ends_with("efficiency")) {
      knob->value = std::min(1.0, knob->value);
    } else if (knob->key.ends_with("bytes_per_s")) {
      knob->value = std::min(kMaxBytesPerSecond, knob->value);
    }
    double gain = 0;
    std::vector<double> losses;
    for (const PlatformRows& platform : platforms_) {
      losses.push_back(Turns(*knob, platform) ? LossOf(platform) : platform.loss);
      gain += platform.loss - losses.back();
    }
    if (gain <= 1e-9) {
      knob->value = before;
      return false;
    }
    for (size_t i = 0; i < platforms_.size(); ++i) {
      platforms_[i].loss = losses[i];
    }
    return true;
  }

  std::vector<PlatformRows> platforms_;
  std::vector<Knob> knobs_;
};

}  // namespace

const CollectiveParameters& FittedCollectiveParameters() {
  static const CollectiveParameters parameters = {
      {"nccl.launch_ns", "nccl.ramp", "net.hop_ns", "net.nic_efficiency",
       "net.bandwidth_loss_per_doubling"},
      {"nccl.ring_efficiency", "nccl.ring_local_bytes_per_s", "nccl.nvls_efficiency",
       "net.nvlink_efficiency"}};
  return parameters;
}

Result<ProfileOverrides> FitCollectives(const std::vector<const CollectiveRow*>& rows) {
  Search search;
  PRISM_RETURN_IF_ERROR(search.Prepare(rows));
  search.Run();
  return search.Values();
}

}  // namespace prism::launch
