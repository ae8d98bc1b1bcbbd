// y[i * incy] += a * x[i * incx] for i in 0 .. n-1, as BLAS does it: a negative stride begins at the far end.
#pragma once

#include <cstdint>

namespace blas {

void axpy(std::int64_t n, float a, const float* x, std::int64_t incx, float* y, std::int64_t incy);
void axpy(std::int64_t n, double a, const double* x, std::int64_t incx, double* y, std::int64_t incy);

}  // namespace blas
