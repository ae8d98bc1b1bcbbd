// What test_recorder.py makes record: the commands that it reads, line by line, or one of the scenes below.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "demo.hpp"

namespace {

using demo::Decision;
using demo::Facts;

Facts facts(std::int64_t n, bool aligned = true, const std::string& dtype = "float16", std::int64_t sm = 90) {
    return {n, aligned, demo::dtype_t_of(dtype), sm};
}

Facts facts(std::istream& in) {
    std::int64_t n = 0, sm = 0;
    bool aligned = false;
    std::string dtype;
    in >> n >> aligned >> dtype >> sm;
    return facts(n, aligned, dtype, sm);
}

[[noreturn]] void end(const std::string& how) {
    if (how == "_exit") _exit(0);
    if (how == "kill") std::raise(SIGKILL);
    if (how == "abort") std::abort();
    if (how == "segv") std::raise(SIGSEGV);
    std::exit(0);
}

void obey(std::istream& lines) {
    std::optional<Decision> last;
    std::unique_ptr<dispatchcov::WarmUp> warm_up;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream in(line);
        std::string word, test, more;
        in >> word;
        const auto rest = [&in] {
            std::string text;
            std::getline(in >> std::ws, text);
            return text;
        };
        if (word == "enter") {
            in >> more;
            dispatchcov::enter(rest(), more);
        } else if (word == "decide") {
            const Facts given = facts(in);
            last.emplace(demo::decide(given, rest()));
        } else if (word == "launch" && last) {
            const auto launch = last->launch();
        } else if (word == "raise" && last) {
            try {
                const auto launch = last->launch();
                throw std::runtime_error("no memory");
            } catch (const std::runtime_error&) {
            }
        } else if (word == "record") {
            in >> more;
            demo::record(facts(in), more);
        } else if (word == "checked") {
            dispatchcov::checked();
        } else if (word == "outcome") {
            in >> more;
            dispatchcov::outcome(rest(), more);
        } else if (word == "retry") {
            dispatchcov::retry(rest());
        } else if (word == "partial") {
            dispatchcov::partial(rest());
        } else if (word == "remark") {
            dispatchcov::remark(rest());
        } else if (word == "warm") {
            warm_up = std::make_unique<dispatchcov::WarmUp>();
        } else if (word == "cold") {
            warm_up.reset();
        } else if (word == "end") {
            end(rest());
        }
    }
}

// Threads decide and launch while this one ends one test after the other.
void threads(int count, int decisions) {
    std::vector<std::thread> all;
    for (int t = 0; t < count; ++t) {
        all.emplace_back([decisions] {
            for (int i = 0; i < decisions; ++i) {
                const auto decision = demo::decide({i % 64, true, demo::dtype_t::float16, i % 2 != 0 ? 80 : 90});
                const auto launch = decision.launch();
            }
        });
    }
    for (int i = 0; i < 40; ++i) {
        dispatchcov::enter("test " + std::to_string(i), "call");
        dispatchcov::checked();
        std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
    for (std::thread& thread : all) thread.join();
}

// Forks while another thread decides; parent and child go on with a decision from before.
void forks(const std::string& how) {
    dispatchcov::enter("forking", "call");
    const auto before = demo::decide(facts(8));
    std::atomic<bool> stop{false};
    std::thread other([&stop] {
        while (!stop) demo::decide(facts(12));
    });
    for (int i = 0; i < 5; ++i) {
        if (const pid_t child = fork(); child == 0) {
            { const auto launch = before.launch(); }
            demo::decide(facts(16));
            demo::decide(facts(16));
            end(how);
        } else {
            int status = 0;
            waitpid(child, &status, 0);
        }
    }
    stop = true;
    other.join();
    { const auto launch = before.launch(); }
}

// More cells than one piece of the array holds, in several contexts: hardware values make cells.
void cells(int contexts, int count) {
    for (int c = 0; c < contexts; ++c) {
        dispatchcov::enter("context " + std::to_string(c), "call");
        for (int i = 0; i < count; ++i)
            for (int k = 0; k <= c; ++k) demo::decide(facts(8, true, "float16", 1000 + i));
    }
}

struct Late {
    ~Late() { demo::decide(facts(4)); }
};

// A launch in flight when the process dies, after `later` others that have returned.
void crash(int later) {
    dispatchcov::enter("crashing", "call");
    const auto first = demo::decide(facts(12));
    { const auto launch = first.launch(); }
    const auto second = demo::decide(facts(7, false, "float32", 80));
    const auto launch = second.launch();
    for (int i = 0; i < later; ++i) const auto other = first.launch();
    std::raise(SIGSEGV);
}

// The disk is full from here on: a file may not grow.
void full() {
    std::signal(SIGXFSZ, SIG_IGN);
    demo::decide(facts(8));
    const rlimit none{1, 1};
    setrlimit(RLIMIT_FSIZE, &none);
    dispatchcov::enter("later", "call");
    for (int i = 0; i < 100; ++i) demo::decide(facts(i));
}

}  // namespace

int main(int argc, char** argv) {
    const std::string scene = argc > 1 ? argv[1] : "obey";
    const auto number = [argc, argv](int place) { return argc > place ? std::atoi(argv[place]) : 0; };
    if (scene == "obey") obey(std::cin);
    if (scene == "threads") threads(number(2), number(3));
    if (scene == "forks") forks(argc > 2 ? argv[2] : "exit");
    if (scene == "cells") cells(number(2), number(3));
    if (scene == "crash") crash(number(2));
    if (scene == "full") full();
    if (scene == "late") {
        static const Late late;
        demo::decide(facts(8));
    }
}
