// GoogleTest cases of every kind, for test_gtest.py.
#include <dispatchcov_gtest.hpp>
#include <gtest/gtest.h>

#include <cstdlib>

#include "demo.hpp"

namespace {

void decide(std::int64_t n) {
    const auto decision = demo::decide({n, true, demo::dtype_t::float16, 90});
    const auto launch = decision.launch();
}

class Kinds : public testing::Test {
  protected:
    static void SetUpTestSuite() { decide(100); }
    static void TearDownTestSuite() { decide(104); }
};

bool asked(const char* what) {
    const char* given = std::getenv("ASKED");
    return given != nullptr && std::string(given) == what;
}

TEST_F(Kinds, Passes) {
    decide(1);
    dispatchcov::checked();
}
TEST_F(Kinds, Skips) {
    decide(2);
    GTEST_SKIP() << "no such machine";
}
TEST_F(Kinds, DISABLED_Never) { decide(3); }
TEST_F(Kinds, Fails) {
    decide(4);
    if (asked("fail")) FAIL();
}
TEST_F(Kinds, Dies) {
    testing::FLAGS_gtest_death_test_style = asked("threadsafe") ? "threadsafe" : "fast";
    EXPECT_EXIT((decide(5), std::_Exit(3)), testing::ExitedWithCode(3), "");
}
TEST_F(Kinds, Leaves) {
    decide(6);
    if (asked("exit")) std::exit(0);
    if (asked("crash")) std::abort();
}

class Sized : public testing::TestWithParam<int> {};
TEST_P(Sized, Decides) { decide(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Small, Sized, testing::Values(8, 12));

}  // namespace
