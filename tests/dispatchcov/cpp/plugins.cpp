// Opens libraries, decides in them and closes them, as its arguments say, for test_plugins.py.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

namespace {

std::map<std::string, void*> libraries;

void decide(const std::string& library, int times, std::int64_t sm = 90) {
    void* found = dlsym(libraries.at(library), "decide");
    for (int i = 0; i < times; ++i) reinterpret_cast<void (*)(std::int64_t)>(found)(sm);
}

bool open(const std::string& library) {
    libraries[library] = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (libraries[library] == nullptr) std::fprintf(stderr, "%s\n", dlerror());
    return libraries[library] != nullptr;
}

}  // namespace

int main(int argc, char** argv) {
    for (int i = 1; i + 2 < argc; i += 3) {
        const std::string what = argv[i], library = argv[i + 1];
        const int number = std::atoi(argv[i + 2]);
        if (what == "open" && !open(library)) return 1;
        if (what == "decide") decide(library, number);
        if (what == "on") decide(library, 1, number);
        if (what == "thread") std::thread(decide, library, number, 90).join();
        if (what == "close") dlclose(libraries.at(library));
        if (what != "fork") continue;
        if (const pid_t child = fork(); child == 0) {
            decide(library, number);
            std::exit(0);
        } else {
            waitpid(child, nullptr, 0);
        }
    }
}
