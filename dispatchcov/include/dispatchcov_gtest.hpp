// GoogleTest cases as the tests that decisions count under: include this in one file of the test program, that is all.
//
// A case is named `program::Suite.Case`. Its outcome is recorded (passed, failed, skipped), and a case that runs again
// (--gtest_repeat) counts by its last try. Where cases are left out, by --gtest_filter, by sharding or because the
// program stopped, and where all are repeated, the run is partial: nothing is judged missed. Say
// `dispatchcov::checked()` where a case has compared a result with a reference: EXPECT_EQ tells nobody that it passed.
#ifndef DISPATCHCOV_GTEST_HPP
#define DISPATCHCOV_GTEST_HPP

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "dispatchcov.hpp"

#if !defined(GTEST_FLAG_GET)  // before GoogleTest 1.12
#define GTEST_FLAG_GET(name) ::testing::GTEST_FLAG(name)
#endif

namespace dispatchcov::gtest {

namespace detail {

inline std::string program() {
#if defined(__linux__)
    return program_invocation_short_name;
#else
    return getprogname();
#endif
}

inline std::string id(const testing::TestInfo& test) {
    return program() + "::" + test.test_suite_name() + "." + test.name();
}

inline constexpr const char* earlier_try = "GTEST_DISPATCHCOV_EARLIER_TRY";  // set while cases will run again

// Is a case of this name one that GoogleTest leaves out unless --gtest_also_run_disabled_tests is given?
inline bool disabled(const testing::TestInfo& test) {
    const std::string suite = std::string("/") + test.test_suite_name(), name = std::string("/") + test.name();
    return suite.find("/DISABLED_") != suite.npos || name.find("/DISABLED_") != name.npos;
}

// A test of pytest that starts this program is what the run is about; what is left out here is no matter of it.
inline bool started_by_test() { return std::getenv("PYTEST_CURRENT_TEST") != nullptr; }

// The child of a death test of the style "threadsafe" is this program again, with one case and no events.
inline bool death_test_child() {
    for (const std::string& argument : testing::internal::GetArgvs())
        if (argument.find("gtest_internal_run_death_test") != argument.npos) return true;
    return false;
}

}  // namespace detail

class Listener : public testing::EmptyTestEventListener {
  public:
    void OnTestProgramStart(const testing::UnitTest& tests) override {
        if (!recording()) return;
        dispatchcov::detail::recorder->inside(true);
        partial_unless_started("the run did not end");  // taken back where the shard ends in order
        bool filtered = false, sharded = false;
        for (int i = 0; i < tests.total_test_suite_count(); ++i) {
            const testing::TestSuite& suite = *tests.GetTestSuite(i);
            for (int k = 0; k < suite.total_test_count(); ++k) {
                const testing::TestInfo& test = *suite.GetTestInfo(k);
                sharded = sharded || test.is_in_another_shard();
                filtered = filtered || !(test.should_run() || test.is_in_another_shard() || detail::disabled(test));
            }
        }
        if (filtered) partial_unless_started("--gtest_filter left tests out");
        if (sharded) partial_unless_started("sharded: other processes run other tests");
        if (GTEST_FLAG_GET(repeat) != 1) partial_unless_started("--gtest_repeat");
    }

    void OnTestIterationStart(const testing::UnitTest&, int iteration) override {
        repeated_ = iteration > 0;
        if (!recording() || GTEST_FLAG_GET(repeat) == 1) return;
        const bool last = iteration + 1 == GTEST_FLAG_GET(repeat);
        dispatchcov::detail::recorder->again(!last);  // for children of fork; for programs that cases start:
        last ? unsetenv(detail::earlier_try) : setenv(detail::earlier_try, "1", 1);
    }

    void OnTestSuiteStart(const testing::TestSuite& suite) override {
        enter(detail::program() + "::" + suite.name(), "setup");
    }

    void OnTestStart(const testing::TestInfo& test) override {
        if (repeated_) retry(detail::id(test));
        enter(detail::id(test), "call");
    }

    void OnTestEnd(const testing::TestInfo& test) override {
        const testing::TestResult& result = *test.result();
        outcome(detail::id(test), result.Failed() ? "failed" : result.Skipped() ? "skipped" : "passed");
        enter(detail::program() + "::" + test.test_suite_name(), "teardown");
    }

    void OnTestSuiteEnd(const testing::TestSuite&) override { enter("", "session"); }

    void OnTestProgramEnd(const testing::UnitTest& tests) override {
        if (!recording()) return;
        if (GTEST_FLAG_GET(fail_fast) && tests.Failed()) partial_unless_started("stopped before the end");
        dispatchcov::detail::recorder->inside(false);
    }

  private:
    static void partial_unless_started(const std::string& reason) {
        if (!detail::started_by_test()) partial(reason);
    }

    bool repeated_ = false;
};

// Fails the test program where records could not be written, and gives the child of a death test its case.
class Environment : public testing::Environment {
  public:
    void SetUp() override {
        if (!detail::death_test_child()) return;
        const char* phase = std::getenv(detail::earlier_try) != nullptr ? "earlier try" : "call";
        enter(detail::program() + "::" + GTEST_FLAG_GET(filter), phase);
    }
    void TearDown() override {
        const std::string why = lost();
        if (!why.empty()) ADD_FAILURE() << "dispatchcov: records could not be written: " << why;
    }
};

namespace detail {

inline bool install() {
    testing::UnitTest::GetInstance()->listeners().Append(new Listener);
    testing::AddGlobalTestEnvironment(new Environment);
    return true;
}

inline const bool installed = install();

}  // namespace detail

}  // namespace dispatchcov::gtest

#endif  // DISPATCHCOV_GTEST_HPP
