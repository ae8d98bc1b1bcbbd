// A library that plugins.cpp opens: it decides by the table of the header that it is compiled with.
#include HEADER

extern "C" __attribute__((visibility("default"))) void decide(std::int64_t sm) {
    const auto decision = demo::decide({8, true, demo::dtype_t::float16, sm});
    const auto launch = decision.launch();
}
