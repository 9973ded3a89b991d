#include "slicer/probe/prober.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/rng.h"
#include "graph/job/rank_grid.h"
#include "slicer/probe/derive_grid.h"
#include "slicer/probe/exchange_classes.h"
#include "slicer/stitch/recorded_role.h"

namespace prism::slicer {
namespace {

using graph::Fragment;
using graph::RankGrid;

// Up to this size an axis is recorded completely even if its ranks communicate alike.
constexpr int32_t kShortAxis = 4;

// How an axis divides ranks into roles.
struct AxisRoles {
  bool splits = false;
  bool is_approximated = false;         // ranks that share a role along it are only similar
  std::vector<int32_t> roots;           // coordinates with separate roles; all others share one
  std::vector<int32_t> representative;  // by coordinate: the first one that does the same
  std::vector<int32_t> classes;         // by coordinate, of an exchange; empty: all are recorded

  [[nodiscard]] int32_t Count() const {
    if (!classes.empty()) {
      return static_cast<int32_t>(std::set<int32_t>(classes.begin(), classes.end()).size());
    }
    return static_cast<int32_t>(roots.empty() ? representative.size() : roots.size() + 1);
  }
};

// A sample of coordinates that may be alike: the first two, one in the middle and the last.
std::vector<int32_t> SomeOf(const std::vector<int32_t>& coordinates) {
  const std::set<size_t> chosen = {0, 1, coordinates.size() / 2, coordinates.size() - 1};
  std::vector<int32_t> some;
  for (const size_t place : chosen) {
    if (place < coordinates.size()) {
      some.push_back(coordinates[place]);
    }
  }
  return some;
}

std::vector<int32_t> MembersOf(const std::vector<int32_t>& classes, int32_t first) {
  std::vector<int32_t> members;
  for (size_t coordinate = 0; coordinate < classes.size(); ++coordinate) {
    if (classes[coordinate] == first) {
      members.push_back(static_cast<int32_t>(coordinate));
    }
  }
  return members;
}

std::vector<int32_t> AllBut(const std::vector<int32_t>& roots, int32_t size) {
  std::vector<int32_t> others;
  for (int32_t coordinate = 0; coordinate < size; ++coordinate) {
    if (!std::ranges::binary_search(roots, coordinate)) {
      others.push_back(coordinate);
    }
  }
  return others;
}

// One call of NextProbe.
class Probe {
 public:
  Probe(const ProbeOptions& options, const std::vector<Fragment>& fragments) : options_(options) {
    for (const Fragment& fragment : fragments) {
      fragments_.emplace(fragment.rank, &fragment);
    }
  }

  Result<ProbeStep> Run();

 private:
  using Ranks = std::set<Rank>;

  [[nodiscard]] Ranks FirstRanks() const;
  [[nodiscard]] Ranks AlongAxes(const RankGrid& grid) const;
  [[nodiscard]] Ranks Coordinates(const RankGrid& grid, size_t axis) const;
  Result<std::vector<int32_t>> RootsAlong(const RankGrid& grid, size_t axis);
  Result<Ranks> BesideRoots(const RankGrid& grid);
  Result<bool> TakeRoots(const RankGrid& grid, size_t axis, AxisRoles* roles);
  [[nodiscard]] ProbeStep Missing(const Ranks& wanted) const;
  Result<const RecordedRole*> Describe(const RankGrid& grid, Rank rank);
  Result<Likeness> LikenessOf(const RankGrid& grid, Rank a, Rank b);
  Result<AxisRoles> Judge(const RankGrid& grid, size_t axis);
  [[nodiscard]] std::vector<int32_t> ClassesAlong(const RankGrid& grid, size_t axis) const;
  Status TakeClasses(const RankGrid& grid, size_t axis, AxisRoles* roles);
  Status Group(const RankGrid& grid, size_t axis, AxisRoles* roles);
  Result<ProbeStep> Settle(const RankGrid& grid);
  [[nodiscard]] Status CheckCount(const RankGrid& grid) const;
  [[nodiscard]] Rank RepresentativeOf(const RankGrid& grid, Rank rank) const;
  [[nodiscard]] ProbeStep MakePlan(const RankGrid& grid) const;
  [[nodiscard]] std::string NameOf(const RankGrid& grid, Rank representative) const;

  const ProbeOptions& options_;
  std::map<Rank, const Fragment*> fragments_;
  std::map<Rank, RecordedRole> described_;
  std::vector<AxisRoles> axes_;
};

Probe::Ranks Probe::FirstRanks() const {
  const auto world = static_cast<uint32_t>(options_.given.world_size());
  Ranks ranks = {Rank(0), Rank(world - 1)};
  ranks.insert(options_.named.begin(), options_.named.end());
  Rng rng(options_.seed, "spot checks");
  const auto spot_checks = static_cast<size_t>(
      std::max<int64_t>(0, options_.spot_checks - static_cast<int64_t>(options_.named.size())));
  for (size_t i = 0; i < spot_checks && ranks.size() < world; ++i) {
    auto rank = static_cast<uint32_t>(rng.UniformInt(0, world - 1));
    while (!ranks.insert(Rank(rank)).second) {
      rank = (rank + 1) % world;
    }
  }
  return ranks;
}

Probe::Ranks Probe::AlongAxes(const RankGrid& grid) const {
  Ranks ranks;
  for (size_t axis = 0; axis < grid.axes().size(); ++axis) {
    const int32_t size = grid.axes()[axis].size;
    if (size > 1) {
      ranks.insert(grid.Moved(Rank(0), axis, 1));
      ranks.insert(grid.Moved(Rank(0), axis, size - 1));
    }
  }
  return ranks;
}

// The ranks to record if the axis splits roles.
Probe::Ranks Probe::Coordinates(const RankGrid& grid, size_t axis) const {
  Ranks ranks;
  const AxisRoles& roles = axes_[axis];
  const int32_t size = grid.axes()[axis].size;
  for (int32_t coordinate = 0; coordinate < size; ++coordinate) {
    if (roles.classes.empty() &&
        (roles.roots.empty() ||
         roles.representative[static_cast<size_t>(coordinate)] == coordinate)) {
      ranks.insert(grid.Moved(Rank(0), axis, coordinate));
    }
  }
  for (const int32_t first : std::set<int32_t>(roles.classes.begin(), roles.classes.end())) {
    for (const int32_t coordinate : SomeOf(MembersOf(roles.classes, first))) {
      ranks.insert(grid.Moved(Rank(0), axis, coordinate));
    }
  }
  return ranks;
}

// The few classes of coordinates with which the recorded ranks along a long axis exchange equal
// amounts; empty if there are no such classes.
std::vector<int32_t> Probe::ClassesAlong(const RankGrid& grid, size_t axis) const {
  std::vector<const Fragment*> recorded;
  for (int32_t coordinate = 0; coordinate < grid.axes()[axis].size; ++coordinate) {
    const auto found = fragments_.find(grid.Moved(Rank(0), axis, coordinate));
    if (found != fragments_.end()) {
      recorded.push_back(found->second);
    }
  }
  std::vector<int32_t> classes = ExchangeClasses(grid, axis, recorded);
  const std::set<int32_t> firsts(classes.begin(), classes.end());
  if (firsts.size() * kShortAxis >= classes.size()) {
    classes.clear();
  }
  return classes;
}

// The roles along an axis are its classes if a sample of each class does what its first one does;
// else there are no classes and all coordinates are recorded.
Status Probe::TakeClasses(const RankGrid& grid, size_t axis, AxisRoles* roles) {
  Likeness least = Likeness::kSame;
  for (const int32_t first : std::set<int32_t>(roles->classes.begin(), roles->classes.end())) {
    for (const int32_t other : SomeOf(MembersOf(roles->classes, first))) {
      PRISM_ASSIGN_OR_RETURN(
          const Likeness likeness,
          LikenessOf(grid, grid.Moved(Rank(0), axis, first), grid.Moved(Rank(0), axis, other)));
      least = std::min(least, likeness);
    }
  }
  if (least == Likeness::kDifferent) {
    roles->classes.clear();
    return OkStatus();
  }
  roles->is_approximated = least == Likeness::kSameCommunication;
  roles->representative = roles->classes;
  return OkStatus();
}

// The few coordinates that the first, second and last rank along a long axis address by place (as
// roots).
Result<std::vector<int32_t>> Probe::RootsAlong(const RankGrid& grid, size_t axis) {
  const int32_t size = grid.axes()[axis].size;
  std::set<int32_t> roots;
  if (size <= kShortAxis) {
    return std::vector<int32_t>();
  }
  for (const int32_t coordinate : {0, 1, size - 1}) {
    PRISM_ASSIGN_OR_RETURN(const RecordedRole* role,
                           Describe(grid, grid.Moved(Rank(0), axis, coordinate)));
    for (const graph::GridPeer& peer : role->patterns.peers) {
      if (peer.steps[axis].is_place) {
        roots.insert(peer.steps[axis].value);
      }
    }
  }
  const bool few = roots.size() * 4 < static_cast<size_t>(size);
  return few ? std::vector<int32_t>(roots.begin(), roots.end()) : std::vector<int32_t>();
}

// The roots along each axis and some of the ranks that address them.
Result<Probe::Ranks> Probe::BesideRoots(const RankGrid& grid) {
  Ranks ranks;
  for (size_t axis = 0; axis < grid.axes().size(); ++axis) {
    PRISM_ASSIGN_OR_RETURN(const std::vector<int32_t> roots, RootsAlong(grid, axis));
    if (roots.empty()) {
      continue;
    }
    for (const int32_t other : SomeOf(AllBut(roots, grid.axes()[axis].size))) {
      ranks.insert(grid.Moved(Rank(0), axis, other));
    }
    for (const int32_t root : roots) {
      ranks.insert(grid.Moved(Rank(0), axis, root));
    }
  }
  return ranks;
}

// Whether, judged by a sample of the others, only the roots differ among the ranks along the axis.
Result<bool> Probe::TakeRoots(const RankGrid& grid, size_t axis, AxisRoles* roles) {
  PRISM_ASSIGN_OR_RETURN(const std::vector<int32_t> addressed, RootsAlong(grid, axis));
  const std::vector<int32_t> others = AllBut(addressed, grid.axes()[axis].size);
  const auto compare = [&](int32_t coordinate) {
    return LikenessOf(grid, grid.Moved(Rank(0), axis, others.front()),
                      grid.Moved(Rank(0), axis, coordinate));
  };
  std::vector<int32_t> roots;
  for (const int32_t coordinate : addressed) {
    PRISM_ASSIGN_OR_RETURN(const Likeness likeness, compare(coordinate));
    if (likeness == Likeness::kDifferent) {
      roots.push_back(coordinate);
    }
  }
  Likeness least = roots.empty() ? Likeness::kDifferent : Likeness::kSame;
  for (const int32_t other : roots.empty() ? roots : SomeOf(others)) {
    PRISM_ASSIGN_OR_RETURN(const Likeness likeness, compare(other));
    least = std::min(least, likeness);
  }
  if (least == Likeness::kDifferent) {
    return false;
  }
  roles->splits = true;
  roles->is_approximated = least == Likeness::kSameCommunication;
  roles->roots = roots;
  roles->representative.assign(roles->representative.size(), others.front());
  for (const int32_t root : roots) {
    roles->representative[static_cast<size_t>(root)] = root;
  }
  return true;
}

ProbeStep Probe::Missing(const Ranks& wanted) const {
  ProbeStep step;
  std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(step.record),
               [&](Rank rank) { return !fragments_.contains(rank); });
  return step;
}

// Once per rank: hashing everything that it recorded takes longer than all else here.
Result<const RecordedRole*> Probe::Describe(const RankGrid& grid, Rank rank) {
  auto found = described_.find(rank);
  if (found == described_.end()) {
    PRISM_ASSIGN_OR_RETURN(RecordedRole role, DescribeRecorded(grid, *fragments_.at(rank)));
    found = described_.emplace(rank, std::move(role)).first;
  }
  return &found->second;
}

Result<Likeness> Probe::LikenessOf(const RankGrid& grid, Rank a, Rank b) {
  PRISM_ASSIGN_OR_RETURN(const RecordedRole* left, Describe(grid, a));
  PRISM_ASSIGN_OR_RETURN(const RecordedRole* right, Describe(grid, b));
  return Compare(*left, *right);
}

// From the first, second and last rank along the axis.
Result<AxisRoles> Probe::Judge(const RankGrid& grid, size_t axis) {
  AxisRoles roles;
  const int32_t size = grid.axes()[axis].size;
  roles.representative.assign(static_cast<size_t>(size), 0);
  if (size == 1) {
    return roles;
  }
  PRISM_ASSIGN_OR_RETURN(const Likeness second,
                         LikenessOf(grid, Rank(0), grid.Moved(Rank(0), axis, 1)));
  PRISM_ASSIGN_OR_RETURN(const Likeness last,
                         LikenessOf(grid, Rank(0), grid.Moved(Rank(0), axis, size - 1)));
  const Likeness least = std::min(second, last);
  PRISM_ASSIGN_OR_RETURN(const bool by_roots, TakeRoots(grid, axis, &roles));
  if (by_roots) {
    return roles;
  }
  roles.is_approximated = least == Likeness::kSameCommunication && size > kShortAxis;
  roles.splits = least != Likeness::kSame && !roles.is_approximated;
  if (roles.splits) {
    roles.classes = ClassesAlong(grid, axis);
  }
  return roles;
}

// All coordinates of the axis are recorded: those that do the same share a role.
Status Probe::Group(const RankGrid& grid, size_t axis, AxisRoles* roles) {
  const int32_t size = grid.axes()[axis].size;
  for (int32_t coordinate = 1; coordinate < size; ++coordinate) {
    int32_t earlier = 0;
    for (; earlier < coordinate; ++earlier) {
      PRISM_ASSIGN_OR_RETURN(const Likeness likeness,
                             LikenessOf(grid, grid.Moved(Rank(0), axis, earlier),
                                        grid.Moved(Rank(0), axis, coordinate)));
      if (likeness == Likeness::kSame) {
        break;
      }
    }
    roles->representative[static_cast<size_t>(coordinate)] = earlier;
  }
  return OkStatus();
}

// Which coordinates share a role, along axes of which some or all were recorded: the ranks that
// this shows to be missing.
Result<ProbeStep> Probe::Settle(const RankGrid& grid) {
  Ranks wanted;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    if (!axes_[axis].classes.empty()) {
      PRISM_RETURN_IF_ERROR(TakeClasses(grid, axis, &axes_[axis]));
      wanted.merge(Coordinates(grid, axis));
    }
  }
  PRISM_RETURN_IF_ERROR(CheckCount(grid));
  ProbeStep missing = Missing(wanted);
  for (size_t axis = 0; axis < axes_.size() && missing.record.empty(); ++axis) {
    const AxisRoles& roles = axes_[axis];
    if (roles.splits && roles.roots.empty() && roles.classes.empty()) {
      PRISM_RETURN_IF_ERROR(Group(grid, axis, &axes_[axis]));
    }
  }
  return missing;
}

Status Probe::CheckCount(const RankGrid& grid) const {
  int64_t count = 1;
  std::string axes;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    if (axes_[axis].splits) {
      count *= axes_[axis].Count();
      axes += fmt::format("{}{} ({})", axes.empty() ? "" : ", ", grid.axes()[axis].name,
                          grid.axes()[axis].size);
    }
  }
  if (count <= options_.max_roles) {
    return OkStatus();
  }
  const bool varies =
      std::ranges::any_of(fragments_, [](const auto& entry) { return entry.second->varies; });
  return RunFailed(fmt::format(
      "ranks communicate differently along {}: {} ranks would have to be recorded, but "
      "--max-roles is {}; raise --max-roles{}",
      axes, count, options_.max_roles,
      varies ? ", or let all ranks have batches of the same lengths (one seed for all)" : ""));
}

Rank Probe::RepresentativeOf(const RankGrid& grid, Rank rank) const {
  Rank representative = rank;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    const auto own = static_cast<size_t>(grid.Coordinate(rank, axis));
    representative = grid.Moved(representative, axis, axes_[axis].representative[own]);
  }
  return representative;
}

std::string Probe::NameOf(const RankGrid& grid, Rank representative) const {
  std::string name;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    if (axes_[axis].splits) {
      const std::string& axis_name = grid.axes()[axis].name;
      const int32_t own = grid.Coordinate(representative, axis);
      const std::vector<int32_t>& roots = axes_[axis].roots;
      const bool is_other = !roots.empty() && !std::ranges::binary_search(roots, own);
      name += fmt::format(
          "{}{} {}", name.empty() ? "" : ", ", axis_name == "pp" ? "stage" : axis_name,
          is_other ? fmt::format("not {}", fmt::join(roots, ",")) : fmt::to_string(own));
    }
  }
  return name.empty() ? "all ranks" : name;
}

ProbeStep Probe::MakePlan(const RankGrid& grid) const {
  ProbeStep step;
  step.axes = grid.axes();
  std::map<Rank, uint32_t> role_of;  // by representative
  const auto find_stage = [&](Rank rank) {
    for (size_t axis = 0; axis < step.axes.size(); ++axis) {
      if (step.axes[axis].name == "pp") {
        return grid.Coordinate(rank, axis);
      }
    }
    return 0;
  };
  for (uint32_t number = 0; number < grid.world_size(); ++number) {
    const Rank rank(number);
    const Rank representative = RepresentativeOf(grid, rank);
    const auto [found, is_new] =
        role_of.emplace(representative, static_cast<uint32_t>(step.plan.roles.size()));
    if (is_new) {
      step.plan.roles.push_back(
          {NameOf(grid, representative), find_stage(representative), representative});
    }
    step.plan.role_of.push_back(found->second);
  }
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    if (axes_[axis].is_approximated) {
      step.plan.approximated_axes.push_back(axis);
    }
  }
  for (const auto& [rank, fragment] : fragments_) {
    if (!role_of.contains(rank)) {
      step.plan.spot_checks.push_back(rank);
    }
  }
  return step;
}

Result<ProbeStep> Probe::Run() {
  // Rank 0 comes first: the values that it sends as a root are given to the others.
  ProbeStep missing = Missing({Rank(0)});
  if (missing.record.empty()) {
    missing = Missing(FirstRanks());
  }
  if (!missing.record.empty()) {
    return missing;
  }
  std::vector<const Fragment*> recorded;
  for (const auto& [rank, fragment] : fragments_) {
    recorded.push_back(fragment);
  }
  PRISM_ASSIGN_OR_RETURN(std::vector<graph::GridAxis> axes, DeriveGrid(options_.given, recorded));
  const RankGrid grid(std::move(axes));
  missing = Missing(AlongAxes(grid));
  if (!missing.record.empty()) {
    return missing;
  }
  PRISM_ASSIGN_OR_RETURN(const Ranks beside_roots, BesideRoots(grid));
  missing = Missing(beside_roots);
  if (!missing.record.empty()) {
    return missing;
  }
  Ranks wanted;
  for (size_t axis = 0; axis < grid.axes().size(); ++axis) {
    PRISM_ASSIGN_OR_RETURN(AxisRoles roles, Judge(grid, axis));
    axes_.push_back(std::move(roles));
    if (axes_.back().splits) {
      wanted.merge(Coordinates(grid, axis));
    }
  }
  PRISM_RETURN_IF_ERROR(CheckCount(grid));
  missing = Missing(wanted);
  if (!missing.record.empty()) {
    return missing;
  }
  PRISM_ASSIGN_OR_RETURN(missing, Settle(grid));
  if (!missing.record.empty()) {
    return missing;
  }
  ProbeStep step = MakePlan(grid);
  Ranks representatives;
  for (const PlannedRole& role : step.plan.roles) {
    representatives.insert(role.representative);
  }
  missing = Missing(representatives);
  return missing.record.empty() ? step : missing;
}

}  // namespace

Result<ProbeStep> NextProbe(const ProbeOptions& options, const std::vector<Fragment>& fragments) {
  return Probe(options, fragments).Run();
}

}  // namespace prism::slicer
