// Draws by Zipf's law against the expected values of drawing without replacement.
#include "shim/observer/zipf_draws.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace prism::shim {
namespace {

struct Draw {
  double exponent;
  int64_t rows;
  int64_t choices;
  int64_t selected;
};

// How often each choice is expected, summed over all orders in which a row can draw.
void Expect(const Draw& draw, double share, std::vector<bool>* taken, std::vector<double>* counts) {
  if (std::ranges::count(*taken, true) == draw.selected) {
    return;
  }
  const auto weight = [&](size_t choice) {
    return (*taken)[choice] ? 0 : std::pow(static_cast<double>(choice + 1), -draw.exponent);
  };
  double sum = 0;
  for (size_t choice = 0; choice < taken->size(); ++choice) {
    sum += weight(choice);
  }
  for (size_t choice = 0; choice < taken->size(); ++choice) {
    if (!(*taken)[choice]) {
      const double of_choice = share * weight(choice) / sum;
      (*counts)[choice] += of_choice * static_cast<double>(draw.rows);
      (*taken)[choice] = true;
      Expect(draw, of_choice, taken, counts);
      (*taken)[choice] = false;
    }
  }
}

TEST(ZipfDraws, come_as_often_as_drawing_without_replacement_expects) {
  for (const Draw& draw : {Draw{1, 2048, 8, 2}, Draw{1, 2048, 8, 1}, Draw{1.2, 2048, 8, 3},
                           Draw{0.5, 1024, 16, 4}, Draw{2, 4096, 6, 2}}) {
    const auto choices = static_cast<size_t>(draw.choices);
    std::vector<bool> taken(choices);
    std::vector<double> expected(choices);
    Expect(draw, 1, &taken, &expected);
    const std::vector<int64_t> drawn =
        DrawByZipf(draw.exponent, draw.rows, draw.choices, draw.selected);
    ASSERT_EQ(static_cast<int64_t>(drawn.size()), draw.rows * draw.selected);
    for (size_t choice = 0; choice < choices; ++choice) {
      const auto count = std::ranges::count(drawn, static_cast<int64_t>(choice));
      EXPECT_NEAR(static_cast<double>(count), expected[choice], 0.04 * expected[choice] + 4)
          << choice << " of " << choices << ", " << draw.selected << " at a time";
    }
  }
}

TEST(ZipfDraws, have_no_choice_twice_in_a_row) {
  const std::vector<int64_t> drawn = DrawByZipf(1.5, 100, 5, 5);
  for (size_t row = 0; row < 100; ++row) {
    std::vector<int64_t> choices(drawn.begin() + static_cast<int64_t>(row) * 5,
                                 drawn.begin() + static_cast<int64_t>(row + 1) * 5);
    std::ranges::sort(choices);
    EXPECT_EQ(choices, (std::vector<int64_t>{0, 1, 2, 3, 4}));
  }
}

}  // namespace
}  // namespace prism::shim
