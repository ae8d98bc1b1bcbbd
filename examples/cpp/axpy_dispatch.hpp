// Made from a dispatch table by `dispatchcov cpp --generate`. Change the table, not this file.
// dispatchcov cpp: {"format": 1, "digest": "db97176ea6ab5ebb168b411685c994436dcb342d7547fd7b72fd5ad572bfb37f", "namespace": "blas::axpy_dispatch", "source": "examples/cpp/axpy.toml"}
// SHA-256 of the other lines: f8e03455a807996101267d29d62f3c055ab852bee8b22178e669551a3ea4015f
#ifndef DISPATCHCOV_BLAS_AXPY_DISPATCH_HPP
#define DISPATCHCOV_BLAS_AXPY_DISPATCH_HPP

#include <dispatchcov.hpp>  // in the folder that `dispatchcov cpp --include` prints

namespace blas::axpy_dispatch {

inline constexpr const char* op = "blas::axpy";
inline constexpr const char* digest = "db97176ea6ab5ebb168b411685c994436dcb342d7547fd7b72fd5ad572bfb37f";

enum class dtype_t : std::int32_t {
    other_ = -1,  // none of the declared values: outside the domain
    float_ = 0,  // in the table: float
    double_ = 1,  // in the table: double
};

struct Facts {
    std::int64_t n;  // an integer >= 0
    std::int64_t incx;  // an integer >= -1024 and <= 1024
    std::int64_t incy;  // an integer >= -1024 and <= 1024
    dtype_t dtype;  // one of float, double
};

enum class Rule : std::int32_t {
    none_ = -1,
    nothing = 0,
    unrolled = 1,
    tail = 2,
    strided = 3,
};

enum class Kernel : std::int32_t {
    none_ = -1,
    AxpyNothing = 0,
    AxpyUnrolled = 1,
    AxpyTail = 2,
    AxpyStrided = 3,
};

// A bit for the outcome of each predicate, and one that says that facts are outside the domains.
using Vector = ::dispatchcov::Bits<10>;

DISPATCHCOV_HD constexpr const char* name(Rule value) {
    switch (value) {
        case Rule::nothing: return "nothing";
        case Rule::unrolled: return "unrolled";
        case Rule::tail: return "tail";
        case Rule::strided: return "strided";
        case Rule::none_:
        default: return "no rule";
    }
}

DISPATCHCOV_HD constexpr const char* name(Kernel value) {
    switch (value) {
        case Kernel::AxpyNothing: return "AxpyNothing";
        case Kernel::AxpyUnrolled: return "AxpyUnrolled";
        case Kernel::AxpyTail: return "AxpyTail";
        case Kernel::AxpyStrided: return "AxpyStrided";
        case Kernel::none_:
        default: return "no kernel";
    }
}

DISPATCHCOV_HD constexpr const char* name(dtype_t value) {
    switch (value) {
        case dtype_t::float_: return "float";
        case dtype_t::double_: return "double";
        case dtype_t::other_:
        default: return "\?";
    }
}

constexpr dtype_t dtype_t_of(std::string_view text) {
    if (text == "float") return dtype_t::float_;
    if (text == "double") return dtype_t::double_;
    return dtype_t::other_;
}

DISPATCHCOV_HD constexpr Kernel kernel_of(Rule rule) {
    switch (rule) {
        case Rule::nothing: return Kernel::AxpyNothing;
        case Rule::unrolled: return Kernel::AxpyUnrolled;
        case Rule::tail: return Kernel::AxpyTail;
        case Rule::strided: return Kernel::AxpyStrided;
        case Rule::none_:
        default: return Kernel::none_;
    }
}

namespace internal {

namespace arithmetic = ::dispatchcov::arithmetic;
using ::dispatchcov::Fault;

DISPATCHCOV_HD constexpr bool p0(const Facts& f) { return f.n == 0; }  // n == 0
DISPATCHCOV_HD constexpr bool p1(const Facts& f) { return f.incx == 1; }  // incx == 1
DISPATCHCOV_HD constexpr bool p2(const Facts& f) { return f.incy == 1; }  // incy == 1
DISPATCHCOV_HD constexpr bool p3(const Facts& f) { return arithmetic::modulo(f.n, 4) == 0; }  // n % 4 == 0
DISPATCHCOV_HD constexpr bool p4(const Facts& f) { return f.n < 4; }  // n < 4
DISPATCHCOV_HD constexpr bool p5(const Facts& f) { return (f.dtype == dtype_t::float_); }  // dtype == 'float'
DISPATCHCOV_HD constexpr bool p6(const Facts& f) { return (f.dtype == dtype_t::double_); }  // dtype == 'double'
DISPATCHCOV_HD constexpr bool p7(const Facts& f) { return f.incx < 0; }  // incx < 0
DISPATCHCOV_HD constexpr bool p8(const Facts& f) { return f.incy < 0; }  // incy < 0

DISPATCHCOV_HD constexpr bool inside([[maybe_unused]] const Facts& f) {
    return f.n >= 0
           && f.incx >= -1024
           && f.incx <= 1024
           && f.incy >= -1024
           && f.incy <= 1024
           && static_cast<unsigned>(f.dtype) < 2u;
}

}  // namespace internal

// The first rule whose guard holds, or `none_`. Throws dispatchcov::UndefinedError where a guard
// divides by zero, dispatchcov::OverflowError where one needs a number beyond 127 bits.
DISPATCHCOV_HD constexpr Rule find([[maybe_unused]] const Facts& f) {
    using namespace internal;
    if (p0(f)) return Rule::nothing;  // n == 0
    if (p1(f) && p2(f) && p3(f)) return Rule::unrolled;  // incx == 1 and incy == 1 and n % 4 == 0
    if (p1(f) && p2(f)) return Rule::tail;  // incx == 1 and incy == 1
    return Rule::strided;
}

// The same, or throws dispatchcov::UntotalError.
DISPATCHCOV_HD constexpr Rule select(const Facts& f) {
    const Rule rule = find(f);
    if (rule == Rule::none_) ::dispatchcov::fail(::dispatchcov::Fault::none, op);
    return rule;
}

// The outcome of every predicate. One that no guard reads and that divides by zero does not hold.
DISPATCHCOV_HD constexpr Vector vector(const Facts& f) {
    using namespace internal;
    Vector v{};
    v.set(0, p0(f));
    v.set(1, p1(f));
    v.set(2, p2(f));
    v.set(3, p3(f));
    v.set(4, p4(f));
    v.set(5, p5(f));
    v.set(6, p6(f));
    v.set(7, p7(f));
    v.set(8, p8(f));
    v.set(9, !inside(f));
    return v;
}

DISPATCHCOV_HD constexpr Vector outcomes(const Facts& f) { return vector(f); }

// --- regions ---

namespace internal {

inline constexpr std::int16_t paths[5][5] = {
    {0},
    {1, 0},
    {2, 0, 3},
    {3, 0, 1, 1},
    {3, 0, 2, 2},
};

constexpr int region_of(int rule, const int (&settled)[4]) {
    for (int i = 0; i < 5; ++i) {
        bool same = paths[i][0] == rule;
        for (int k = 0; same && k < rule && k < 4; ++k) same = paths[i][k + 1] == settled[k];
        if (same) return i;
    }
    return -1;
}

}  // namespace internal

// The index of the region of `f` as `dispatchcov regions` lists them, -1 for one that is not listed.
constexpr int region(const Facts& f) {
    [[maybe_unused]] const Vector v = vector(f);
    int settled[4] = {}, last = -1;
    [[maybe_unused]] const auto read = [&](int predicate) { return last = predicate, v[predicate]; };
    if (read(0)) return internal::region_of(0, settled);
    settled[0] = last, last = -1;
    if (read(1) && read(2) && read(3)) return internal::region_of(1, settled);
    settled[1] = last, last = -1;
    if (read(1) && read(2)) return internal::region_of(2, settled);
    settled[2] = last, last = -1;
    return internal::region_of(3, settled);
}

// --- end of regions ---

namespace internal {

inline constexpr const char* values_dtype[] = {"float", "double"};
inline constexpr ::dispatchcov::Variable variables[] = {
    {"n", ::dispatchcov::Type::integer, false, true, {}, 0, {}},
    {"incx", ::dispatchcov::Type::integer, false, true, {}, 0, {}},
    {"incy", ::dispatchcov::Type::integer, false, true, {}, 0, {}},
    {"dtype", ::dispatchcov::Type::text, false, false, values_dtype, 2, "\?"},
};
inline constexpr ::dispatchcov::Table table = {
    "blas::axpy",
    digest,
    /* source */ "examples/cpp/axpy.toml",
    "# The dispatch table of axpy.cpp, which decides by the header that `dispatchcov cpp --generate` makes of it.\n"
    "\n"
    "[table]\n"
    "op = \"blas::axpy\"\n"
    "\n"
    "[variables]\n"
    "n = { type = \"int\", min = 0 }                       # elements\n"
    "incx = { type = \"int\", min = -1024, max = 1024 }    # strides, in elements; negative ones go backwards\n"
    "incy = { type = \"int\", min = -1024, max = 1024 }\n"
    "dtype = { type = \"enum\", values = [\"float\", \"double\"] }\n"
    "\n"
    "[[kernel]]\n"
    "name = \"AxpyNothing\"\n"
    "\n"
    "[[kernel]]\n"
    "name = \"AxpyUnrolled\"                               # four elements a step\n"
    "requires = \"n % 4 == 0 and incx == 1 and incy == 1\"\n"
    "\n"
    "[[kernel]]\n"
    "name = \"AxpyTail\"                                   # the same, and what is left one by one\n"
    "requires = \"incx == 1 and incy == 1\"\n"
    "\n"
    "[[kernel]]\n"
    "name = \"AxpyStrided\"\n"
    "\n"
    "[[rule]]\n"
    "name = \"nothing\"\n"
    "when = \"n == 0\"\n"
    "kernel = \"AxpyNothing\"\n"
    "\n"
    "[[rule]]\n"
    "name = \"unrolled\"\n"
    "when = \"incx == 1 and incy == 1 and n % 4 == 0\"\n"
    "kernel = \"AxpyUnrolled\"\n"
    "\n"
    "[[rule]]\n"
    "name = \"tail\"\n"
    "when = \"incx == 1 and incy == 1\"\n"
    "kernel = \"AxpyTail\"\n"
    "splits = [\"n < 4\"]                                  # is there anything but a tail\?\n"
    "\n"
    "[[rule]]\n"
    "name = \"strided\"\n"
    "kernel = \"AxpyStrided\"\n"
    "\n"
    "[[partition]]\n"
    "name = \"contiguous\"\n"
    "rule = [\"unrolled\", \"tail\"]\n"
    "cross = [\"dtype\"]\n"
    "\n"
    "[[partition]]\n"
    "name = \"only-a-tail\"\n"
    "rule = \"tail\"\n"
    "where = \"n < 4\"\n"
    "\n"
    "[[partition]]\n"
    "name = \"strided\"\n"
    "rule = \"strided\"\n"
    "\n"
    "[[partition]]\n"
    "name = \"backwards\"\n"
    "rule = \"strided\"\n"
    "where = \"incx < 0 or incy < 0\"\n",
    variables,
    4,
    1,
};

}  // namespace internal

struct Spec {
    using Facts = ::blas::axpy_dispatch::Facts;
    using Rule = ::blas::axpy_dispatch::Rule;
    using Kernel = ::blas::axpy_dispatch::Kernel;
    static constexpr int variables = 4;
    static constexpr Rule none = Rule::none_;
    static const ::dispatchcov::Table& table() { return internal::table; }
    static constexpr Rule find(const Facts& f) { return ::blas::axpy_dispatch::find(f); }
    static constexpr Kernel kernel_of(Rule rule) { return ::blas::axpy_dispatch::kernel_of(rule); }
    static constexpr Vector vector(const Facts& f) { return ::blas::axpy_dispatch::vector(f); }
    static constexpr Vector outcomes(const Facts& f) { return ::blas::axpy_dispatch::outcomes(f); }
    static constexpr void codes(const Facts& f, std::int64_t* codes) {
        codes[0] = f.n;
        codes[1] = f.incx;
        codes[2] = f.incy;
        codes[3] = static_cast<std::int64_t>(f.dtype);
    }
};

using Decision = ::dispatchcov::Decision<Spec>;

// Decides, and records it if something records: `.rule`, `.kernel`, and `.launch()` around the launch of the kernel.
inline Decision decide(const Facts& f, std::string_view machine = {}) {
    return ::dispatchcov::decide<Spec>(f, machine);
}

// Records a decision that other code took and launched; `kernel` is what really ran. Throws dispatchcov::FactsError if
// that is empty, and nothing for facts with which a decision would throw: these are a mismatch.
inline void record(const Facts& f, std::string_view kernel, std::string_view machine = {}) {
    ::dispatchcov::record<Spec>(f, kernel, machine);
}

}  // namespace blas::axpy_dispatch

#endif  // DISPATCHCOV_BLAS_AXPY_DISPATCH_HPP
