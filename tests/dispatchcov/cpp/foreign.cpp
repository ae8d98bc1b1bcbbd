// Code that decides by itself, by the table of test_foreign.py, and says so: what it ran for "M a kernel" of each line.
#include <iostream>
#include <string>

#include "foreign.hpp"

int main() {
    std::string kernel;
    for (foreign::Facts facts{}; std::cin >> facts.M >> facts.a && std::getline(std::cin >> std::ws, kernel);) {
        try {
            foreign::record(facts, kernel == "-" ? "" : kernel);
        } catch (const dispatchcov::FactsError& error) {
            std::cout << error.what() << '\n';
        }
    }
}
