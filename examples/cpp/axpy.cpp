#include "axpy.hpp"

#include <type_traits>

#include "axpy_dispatch.hpp"

namespace blas {

namespace {

namespace dispatch = blas::axpy_dispatch;

template <class T>
void unrolled(std::int64_t n, T a, const T* x, T* y) {
    for (std::int64_t i = 0; i < n; i += 4)
        for (std::int64_t k = 0; k < 4; ++k) y[i + k] += a * x[i + k];
}

template <class T>
void tail(std::int64_t n, T a, const T* x, T* y) {
    const std::int64_t whole = n - n % 4;
    unrolled(whole, a, x, y);
    for (std::int64_t i = whole; i < n; ++i) y[i] += a * x[i];
}

template <class T>
void strided(std::int64_t n, T a, const T* x, std::int64_t incx, T* y, std::int64_t incy) {
    if (incx < 0) x -= (n - 1) * incx;
    if (incy < 0) y -= (n - 1) * incy;
    for (std::int64_t i = 0; i < n; ++i) y[i * incy] += a * x[i * incx];
}

template <class T>
void choose(std::int64_t n, T a, const T* x, std::int64_t incx, T* y, std::int64_t incy) {
    constexpr auto dtype = std::is_same_v<T, float> ? dispatch::dtype_t::float_ : dispatch::dtype_t::double_;
    const auto decision = dispatch::decide({n, incx, incy, dtype});
    const auto launch = decision.launch();
    switch (decision.kernel) {
        case dispatch::Kernel::AxpyUnrolled: return unrolled(n, a, x, y);
        case dispatch::Kernel::AxpyTail: return tail(n, a, x, y);
        case dispatch::Kernel::AxpyStrided: return strided(n, a, x, incx, y, incy);
        case dispatch::Kernel::AxpyNothing:
        case dispatch::Kernel::none_: return;
    }
}

}  // namespace

void axpy(std::int64_t n, float a, const float* x, std::int64_t incx, float* y, std::int64_t incy) {
    choose(n, a, x, incx, y, incy);
}

void axpy(std::int64_t n, double a, const double* x, std::int64_t incx, double* y, std::int64_t incy) {
    choose(n, a, x, incx, y, incy);
}

}  // namespace blas
