// Views with a shape and strides as leaves: std::mdspan, or Kokkos::View with -DKOKKOS, beside a
// std::vector with the same numbers.
#ifdef KOKKOS
#include <Kokkos_Core.hpp>
#else
#include <mdspan>
#endif
#include <headroom/adapters/mdspan.hpp>
#include <headroom/headroom.hpp>

#include <array>
#include <cstdio>
#include <numeric>
#include <vector>

namespace {

int failures = 0;
void expect(bool holds, const char* what) {
  failures += holds ? 0 : 1;
  if (!holds) std::printf("FAILED: %s\n", what);
}
/// `columns` has the numbers 0 to 11 in three rows, `rows` is of the same shape, `row` is one of
/// `columns`.
template <class Columns, class Rows, class Row>
void compare(const Columns& columns, Rows rows, Row row) {
  std::vector<float> all(12);
  std::iota(all.begin(), all.end(), 0.0F);
  const auto report = headroom::unscale_into(columns, rows, 2.0F);
  expect(report.max_abs == 5.5, "the report");
  const auto* const results = headroom::tensor_traits<Rows>::data(rows);
  for (std::size_t i = 0; i < all.size(); ++i)
    expect(results[i] == all[i] / 2, "an element has another place");
  expect(headroom::measure(std::vector<Columns>{columns}).norm == headroom::measure(all).norm,
         "the norm");
  expect(headroom::measure(row).max_abs == 7, "a row");
  (void)headroom::unscale_in_place(row, 4.0F);
  expect(headroom::measure(row).max_abs == 1.75 && headroom::measure(columns).max_abs == 11,
         "a row in place");
}

}  // namespace

int main(int argc, char** argv) {
#ifdef KOKKOS
  const Kokkos::ScopeGuard guard(argc, argv);
  const Kokkos::View<float**, Kokkos::LayoutLeft, Kokkos::HostSpace> columns("columns", 3, 4);
  const Kokkos::View<float**, Kokkos::LayoutRight, Kokkos::HostSpace> rows("rows", 3, 4);
  for (int i = 0; i < 12; ++i) columns(i / 4, i % 4) = static_cast<float>(i);
  compare(columns, rows, Kokkos::subview(columns, 1, Kokkos::ALL));
#else
  (void)argc, (void)argv;
  std::vector<float> a(12), b(12);
  for (std::size_t i = 0; i < 12; ++i) a[i % 4 * 3 + i / 4] = static_cast<float>(i);
  const std::mdspan<float, std::dextents<int, 2>, std::layout_left> columns(a.data(), 3, 4);
  const std::mdspan<float, std::extents<std::size_t, 3, 4>> rows(b.data());
  const std::layout_stride::mapping every_third(std::extents<int, 4>(), std::array<int, 1>{3});
  compare(columns, rows,
          std::mdspan<float, std::extents<int, 4>, std::layout_stride>(a.data() + 1, every_third));
#endif
  return failures;
}
