// What a decision costs: by hand, by the generated header with nothing recording, and recorded by 1, 2 and 4 threads.
// All figures are of one run; compare them with each other, not with those of another machine.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "axpy_dispatch.hpp"

namespace {

namespace dispatch = blas::axpy_dispatch;
using dispatch::Facts;
using dispatch::Kernel;

constexpr int rounds = 9, calls = 400'000;
std::vector<Facts> inputs;

Kernel by_hand(const Facts& f) {
    if (f.n == 0) return Kernel::AxpyNothing;
    if (f.incx == 1 && f.incy == 1 && f.n % 4 == 0) return Kernel::AxpyUnrolled;
    if (f.incx == 1 && f.incy == 1) return Kernel::AxpyTail;
    return Kernel::AxpyStrided;
}

Kernel decided(const Facts& f) { return dispatch::decide(f).kernel; }

Kernel launched(const Facts& f) {
    const auto decision = dispatch::decide(f);
    const auto launch = decision.launch();
    return decision.kernel;
}

// Nanoseconds a call, the median of some rounds.
template <class Call>
double cost(Call call, int threads = 1) {
    std::vector<double> found;
    const auto work = [call] {
        unsigned sum = 0;
        for (int i = 0; i < calls; ++i) sum += static_cast<unsigned>(call(inputs[static_cast<std::size_t>(i) % inputs.size()]));
        volatile unsigned kept = sum;
        (void)kept;
    };
    for (int round = 0; round < rounds; ++round) {
        std::vector<std::thread> others;
        const auto begun = std::chrono::steady_clock::now();
        for (int i = 1; i < threads; ++i) others.emplace_back(work);
        work();
        for (std::thread& other : others) other.join();
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begun;
        found.push_back(took.count() / calls);
    }
    std::sort(found.begin(), found.end());
    return found[rounds / 2];
}

void show(const char* what, double nanoseconds, double than) {
    std::printf("%-46s %7.1f ns   %+7.1f ns\n", what, nanoseconds, nanoseconds - than);
}

}  // namespace

int main() {
    for (int i = 0; i < 1024; ++i) {
        const auto dtype = i % 2 != 0 ? dispatch::dtype_t::float_ : dispatch::dtype_t::double_;
        inputs.push_back({i * 7 % 1001, i % 5 == 0 ? 2 : 1, i % 7 == 0 ? -1 : 1, dtype});
    }
    const double hand = cost(by_hand);
    show("a chain of ifs", hand, hand);
    std::fflush(stdout);
    if (const pid_t child = fork(); child != 0) {
        int status = 1;
        waitpid(child, &status, 0);
        unsetenv("DISPATCHCOV_RUN");
        show("decide, nothing recording", cost(decided), hand);
        show("decide and launch, nothing recording", cost(launched), hand);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    char folder[] = "/tmp/dispatchcov-bench-XXXXXX";
    if (mkdtemp(folder) == nullptr) return 1;
    setenv("DISPATCHCOV_RUN", "bench", 1);
    setenv("DISPATCHCOV_DATA", (std::string(folder) + "/records").c_str(), 1);
    show("decide, recorded", cost(decided), hand);
    show("decide and launch, recorded", cost(launched), hand);
    show("decide, recorded, 2 threads", cost(decided, 2), hand);
    show("decide, recorded, 4 threads", cost(decided, 4), hand);
    std::fflush(stdout);
    return std::system(("rm -r " + std::string(folder)).c_str()) == 0 ? 0 : 1;
}
