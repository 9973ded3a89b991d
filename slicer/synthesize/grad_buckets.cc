#include "slicer/synthesize/grad_buckets.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "graph/job/flat_buckets.h"
#include "graph/program/job_groups.h"

namespace prism::slicer {
namespace {

struct Member {
  size_t unit = 0;
  size_t parameter = 0;
};

// Kinds of parameter that share a buffer, in the order in which buffers are created and reduced.
using BucketKind = std::tuple<bool, bool, bool, bool, bool>;

BucketKind KindOf(const RankShape& rank, const graph::UnitParameter& parameter) {
  if (!rank.built_in) {
    return {parameter.expert, false, false, false, parameter.tied};
  }
  return {parameter.expert, parameter.tied, parameter.split, parameter.sequence_parallel,
          parameter.decay};
}

}  // namespace

ChunkGradients LayOutGradients(const RankShape& rank, const ModelChunk& chunk) {
  const graph::JobGroups groups(rank.job.parallel, rank.style.shard_size);
  ChunkGradients result;
  std::map<BucketKind, std::vector<Member>> kinds;
  auto latest = kinds.end();  // most parameters are of the kind of the one before
  for (size_t unit = 0; unit < chunk.units.size(); ++unit) {
    const graph::UnitParameters& parameters = chunk.units[unit].content->blocks.parameters;
    result.places.emplace_back(parameters.size());
    for (size_t p = 0; p < parameters.size(); ++p) {
      const BucketKind kind = KindOf(rank, parameters[p]);
      if (latest == kinds.end() || latest->first != kind) {
        latest = kinds.try_emplace(kind).first;
      }
      latest->second.push_back({unit, p});
    }
  }
  for (auto& [kind, members] : kinds) {
    std::ranges::reverse(members);
    const auto of = [&chunk](const Member& member) -> const graph::UnitParameter& {
      return chunk.units[member.unit].content->blocks.parameters[member.parameter];
    };
    const graph::UnitParameter& example = of(members.front());
    GradBuffer buffer;
    buffer.axis = example.expert             ? graph::GroupAxis::kExpertData
                  : rank.job.parallel.cp > 1 ? graph::GroupAxis::kDataContext
                                             : graph::GroupAxis::kData;
    buffer.group_size = groups.Size(buffer.axis);
    buffer.tied = example.tied;
    buffer.sequence_parallel = rank.built_in && example.sequence_parallel;
    buffer.decay = !rank.built_in || example.decay;
    buffer.expert = example.expert;
    graph::FlatBuckets flat(
        graph::BucketStyle(rank.style, rank.built_in && rank.job.zero_stage >= 2),
        buffer.group_size);
    std::vector<int32_t> expected;
    for (const Member& member : members) {
      const graph::UnitParameter& parameter = of(member);
      const size_t bucket = flat.Append(parameter.ElementCount()).bucket;
      result.places[member.unit][member.parameter] = {result.buffers.size(), bucket};
      expected.resize(bucket + 1);
      expected[bucket] += parameter.uses;
    }
    flat.Finish();
    buffer.elements = flat.elements();
    for (size_t i = 0; i < expected.size(); ++i) {
      buffer.buckets.push_back({.elements = flat.buckets()[i].elements(), .expected = expected[i]});
    }
    result.buffers.push_back(std::move(buffer));
  }
  return result;
}

}  // namespace prism::slicer
