#include "graph/job/flat_buckets.h"

#include <gtest/gtest.h>

namespace prism::graph {
namespace {

TrainingStyle StyleOfBuckets(int64_t elements, int64_t elements_per_rank) {
  TrainingStyle style;
  style.bucket_elements = elements;
  style.bucket_elements_per_rank = elements_per_rank;
  return style;
}

// Megatron-LM's default: max(40,000,000, 1,000,000 x dp).
TEST(FlatBuckets, are_full_at_forty_million_or_a_million_a_rank) {
  EXPECT_EQ(FullBucketElements(TrainingStyle{}, 1), 40'000'000);
  EXPECT_EQ(FullBucketElements(TrainingStyle{}, 40), 40'000'000);
  EXPECT_EQ(FullBucketElements(TrainingStyle{}, 64), 64'000'000);
}

// On two ranks shards of 128 elements make buckets multiples of 256. 600 + 500 fill the first of
// 1,000 and take 1,280; 2,000 fills the second by itself; 10 are left.
TEST(FlatBuckets, end_with_the_parameter_that_fills_them) {
  FlatBuckets flat(StyleOfBuckets(1000, 0), 2);
  EXPECT_EQ(flat.Append(600).bucket, 0U);
  const FlatBuckets::Place second = flat.Append(500);
  EXPECT_EQ(second.begin, 600);
  EXPECT_EQ(second.bucket, 0U);
  const FlatBuckets::Place third = flat.Append(2000);
  EXPECT_EQ(third.begin, 1280);
  EXPECT_EQ(third.bucket, 1U);
  EXPECT_EQ(flat.Append(10).bucket, 2U);
  EXPECT_EQ(flat.buckets().size(), 2U);
  flat.Finish();
  ASSERT_EQ(flat.buckets().size(), 3U);
  EXPECT_EQ(flat.buckets()[0].end, 1280);
  EXPECT_EQ(flat.buckets()[1].begin, 1280);
  EXPECT_EQ(flat.buckets()[1].elements(), 2048);
  EXPECT_EQ(flat.buckets()[2].elements(), 256);
  EXPECT_EQ(flat.elements(), 1280 + 2048 + 256);
}

TEST(FlatBuckets, of_parameters_without_elements_are_there) {
  FlatBuckets flat(StyleOfBuckets(1000, 0), 2);
  const FlatBuckets::Place place = flat.Append(0);
  flat.Finish();
  ASSERT_EQ(flat.buckets().size(), 1U);
  EXPECT_EQ(place.bucket, 0U);
  EXPECT_EQ(flat.buckets()[0].elements(), 0);
}

TEST(FlatBuckets, that_are_full_at_the_end_are_not_followed_by_an_empty_one) {
  FlatBuckets flat(StyleOfBuckets(256, 0), 2);
  flat.Append(256);
  flat.Finish();
  EXPECT_EQ(flat.buckets().size(), 1U);
}

// Of ranks that keep shards of gradients only: 40 million for any number of them.
TEST(FlatBuckets, of_sharded_gradients_do_not_grow_with_the_ranks) {
  EXPECT_EQ(FullBucketElements(BucketStyle(TrainingStyle{}, true), 64), 40'000'000);
  EXPECT_EQ(FullBucketElements(BucketStyle(TrainingStyle{}, false), 64), 64'000'000);
}

// 600 + 500 elements over two ranks: 1,280, padded to shards of 128 elements.
TEST(FlatBuckets, shards_of_parameters_are_equal_and_padded) {
  const std::vector<int64_t> sizes = {600, 500};
  EXPECT_EQ(PaddedShard(sizes, 2), 640);
  EXPECT_EQ(PaddedShard({}, 2), 0);
}

}  // namespace
}  // namespace prism::graph
