#include "axpy.hpp"

#include <dispatchcov_gtest.hpp>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace {

// Compares axpy with its definition, element by element.
template <class T>
void compare(std::int64_t n, std::int64_t incx, std::int64_t incy) {
    const auto size = [n](std::int64_t step) { return static_cast<std::size_t>(n * std::abs(step) + 1); };
    std::vector<T> x(size(incx)), y(size(incy), T(0.5));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = T(i % 7) - T(3);
    const auto place = [n](std::int64_t i, std::int64_t step) {
        return static_cast<std::size_t>(step < 0 ? (i - n + 1) * step : i * step);
    };
    std::vector<T> expected = y;
    for (std::int64_t i = 0; i < n; ++i) expected[place(i, incy)] += T(2) * x[place(i, incx)];
    blas::axpy(n, T(2), x.data(), incx, y.data(), incy);
    ASSERT_EQ(y, expected);
    dispatchcov::checked();
}

TEST(Axpy, WholeSteps) { compare<float>(64, 1, 1); }
TEST(Axpy, WithATail) { compare<float>(67, 1, 1); }
TEST(Axpy, InDouble) { compare<double>(66, 1, 1); }
TEST(Axpy, Strided) { compare<float>(10, 2, 3); }
TEST(Axpy, OnlyATail) { compare<double>(3, 1, 1); }
TEST(Axpy, Backwards) { compare<double>(9, -2, 1); }
TEST(Axpy, Nothing) { compare<float>(0, 1, 1); }

}  // namespace
