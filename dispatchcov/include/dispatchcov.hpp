// Records the dispatch decisions of a C++ program for dispatchcov: C++17, POSIX, GCC or Clang (nvcc with either), no
// other dependency.
//
// A header that `dispatchcov cpp --generate TABLE.toml` writes includes this one and decides; what it decides is
// recorded here while DISPATCHCOV_RUN is in the environment (`dispatchcov run -- PROGRAM` puts it there), beside the
// file that DISPATCHCOV_DATA names, in the format that dispatchcov/files/shard.py describes: lines for what is settled,
// a mapped array for counts in progress, a ring of the last launches. The mapped files keep what they hold whatever ends
// the process: exit, _exit, abort, SIGKILL, a segmentation fault.
//
// Threads may decide at the same time; a forked child counts for itself, in a shard of its own. Do not decide in a
// signal handler: it may have interrupted the recorder, which holds a lock then.
#ifndef DISPATCHCOV_HPP
#define DISPATCHCOV_HPP

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define DISPATCHCOV_HD __host__ __device__
#else
#define DISPATCHCOV_HD
#endif

#if defined(__cpp_exceptions)
#define DISPATCHCOV_THROW(error) throw error
#else
#define DISPATCHCOV_THROW(error) (std::fprintf(stderr, "%s\n", (error).what()), std::abort())
#endif

// Keeps what is done only while something records out of the code that decides.
#define DISPATCHCOV_COLD __attribute__((noinline, cold))

// One copy for the whole process, also where libraries are compiled with hidden symbols.
#define DISPATCHCOV_SHARED __attribute__((visibility("default")))

namespace dispatchcov {
inline namespace layout_2 {  // a library compiled with a version of this file that has another layout records apart

// --- what a generated header computes with ---------------------------------------------------------------------------

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;

// Why a predicate has no value: a division by zero, or a number beyond 127 bits.
enum class Fault : unsigned char { none, zero, overflow };

struct UndefinedError : std::domain_error {  // a predicate that is read divides by zero
    using std::domain_error::domain_error;
};
struct OverflowError : std::overflow_error {  // a number of a predicate is beyond 127 bits
    using std::overflow_error::overflow_error;
};
struct UntotalError : std::domain_error {  // no rule takes the facts
    using std::domain_error::domain_error;
};
struct FactsError : std::invalid_argument {  // what is to be recorded is no decision
    using std::invalid_argument::invalid_argument;
};

// The outcomes of the predicates of a table: bit i is that of predicate i, the one after them says that the facts are
// outside the declared domains.
template <int N>
struct Bits {
    static constexpr int size = N;
    std::uint64_t words[static_cast<std::size_t>((N + 63) / 64)];

    DISPATCHCOV_HD constexpr bool operator[](int bit) const { return (words[bit / 64] >> (bit % 64) & 1) != 0; }
    DISPATCHCOV_HD constexpr void set(int bit, bool value) {
        words[bit / 64] |= static_cast<std::uint64_t>(value) << (bit % 64);
    }
    DISPATCHCOV_HD friend constexpr bool operator==(const Bits& a, const Bits& b) {
        for (int i = 0; i < (N + 63) / 64; ++i)
            if (a.words[i] != b.words[i]) return false;
        return true;
    }
};

namespace arithmetic {

inline constexpr wide wide_max = static_cast<wide>(~static_cast<unsigned_wide>(0) >> 1);

DISPATCHCOV_HD constexpr wide mark(Fault& fault, Fault found) {
    if (fault == Fault::none) fault = found;
    return 0;
}

DISPATCHCOV_HD constexpr wide number(std::int64_t high, std::uint64_t low) {
    return static_cast<wide>(high) * (static_cast<wide>(1) << 64) + static_cast<wide>(low);
}

// Python's // and % and the quotient rounded up, by a divisor that is not 0. Whoever calls the narrow ones knows that
// the quotient fits.
DISPATCHCOV_HD constexpr std::int64_t floordiv(std::int64_t a, std::int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
DISPATCHCOV_HD constexpr std::int64_t modulo(std::int64_t a, std::int64_t b) {
    if (b == -1) return 0;  // the smallest number has no quotient by -1
    const std::int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
DISPATCHCOV_HD constexpr std::int64_t ceildiv(std::int64_t a, std::int64_t b) {
    return a / b + (a % b != 0 && (a < 0) == (b < 0));
}

DISPATCHCOV_HD constexpr bool narrow(wide a, wide b) {  // division in 64 bits is many times faster
    return a == static_cast<std::int64_t>(a) && b == static_cast<std::int64_t>(b) && b != -1;
}
DISPATCHCOV_HD constexpr wide floordiv(wide a, wide b) {
    if (narrow(a, b)) return floordiv(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b));
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
DISPATCHCOV_HD constexpr wide modulo(wide a, wide b) {
    if (narrow(a, b)) return modulo(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b));
    return a - floordiv(a, b) * b;
}
DISPATCHCOV_HD constexpr wide ceildiv(wide a, wide b) { return -floordiv(-a, b); }

// The same by a divisor that may be 0.
template <class T, class U>
DISPATCHCOV_HD constexpr auto floordiv(T a, U b, Fault& fault) {
    return b != 0 ? floordiv(a, b) : static_cast<decltype(floordiv(a, b))>(mark(fault, Fault::zero));
}
template <class T, class U>
DISPATCHCOV_HD constexpr auto modulo(T a, U b, Fault& fault) {
    return b != 0 ? modulo(a, b) : static_cast<decltype(modulo(a, b))>(mark(fault, Fault::zero));
}
template <class T, class U>
DISPATCHCOV_HD constexpr auto ceildiv(T a, U b, Fault& fault) {
    return b != 0 ? ceildiv(a, b) : static_cast<decltype(ceildiv(a, b))>(mark(fault, Fault::zero));
}

DISPATCHCOV_HD constexpr wide checked_add(wide a, wide b, Fault& fault) {
    const bool fits = b > 0 ? a <= wide_max - b : a >= -wide_max - b;
    return fits ? a + b : mark(fault, Fault::overflow);
}
DISPATCHCOV_HD constexpr wide checked_sub(wide a, wide b, Fault& fault) { return checked_add(a, -b, fault); }
DISPATCHCOV_HD constexpr wide checked_mul(wide a, wide b, Fault& fault) {
    const unsigned_wide x = static_cast<unsigned_wide>(a < 0 ? -a : a), y = static_cast<unsigned_wide>(b < 0 ? -b : b);
    const bool fits = y == 0 || x <= static_cast<unsigned_wide>(wide_max) / y;
    return fits ? a * b : mark(fault, Fault::overflow);
}

template <class T>
DISPATCHCOV_HD constexpr T least(T a, T b) {
    return b < a ? b : a;
}
template <class T>
DISPATCHCOV_HD constexpr T greatest(T a, T b) {
    return b > a ? b : a;
}
template <class T, class... Values>
DISPATCHCOV_HD constexpr bool one_of(T item, Values... values) {
    return ((item == values) || ...);
}

}  // namespace arithmetic

// Ends a decision that cannot be made: `what` names operator and predicate. On a device it ends the kernel.
[[noreturn]] DISPATCHCOV_HD inline void fail(Fault fault, const char* what) {
#if defined(__CUDA_ARCH__)
    (void)fault, (void)what;
    __trap();
#elif defined(__HIP_DEVICE_COMPILE__)
    (void)fault, (void)what;
    __builtin_trap();
#else
    const std::string text = what;
    if (fault == Fault::zero) DISPATCHCOV_THROW(UndefinedError(text + " divides by zero"));
    if (fault == Fault::overflow) DISPATCHCOV_THROW(OverflowError(text + " has a number beyond 127 bits"));
    DISPATCHCOV_THROW(UntotalError(text + ": no rule takes the facts; the last rule should have no 'when'"));
#endif
}

// --- tables as the recorder knows them -------------------------------------------------------------------------------

enum class Type : unsigned char { integer, boolean, text };

struct Variable {
    const char* name;
    Type type;
    bool hardware;
    bool ranged;                // an integer that does not list its values
    const char* const* values;  // of a text, those declared; `other` is written for all else
    int count;
    const char* other;
};

struct Table {
    const char* op;
    const char* digest;
    const char* source;
    const char* text;
    const Variable* variables;
    int count;
    int words;  // 64-bit words of a vector
};

// One decision as the recorder takes it: facts as integers in the order of the variables (a boolean as 0 or 1, a text
// as its place among the values), `kernel` only from code that decides itself.
struct Input {
    const Table& table;
    const std::int64_t* facts;
    const std::uint64_t* vector;
    std::string_view machine;
    std::string_view kernel;
};

enum Evidence : int { selected, launched, observed };

namespace detail {

constexpr std::size_t slots = 4096, width = 4, chunk_bytes = slots * width * 8;
constexpr std::size_t entries = 64, entry_words = 32, flight_bytes = entries * entry_words * 8;
constexpr int flight_facts = 28;
enum State : int { begun = 1, returned = 2, raised = 3 };

inline void add(std::int64_t* count) { __atomic_fetch_add(count, 1, __ATOMIC_RELAXED); }
inline std::int64_t load(const std::int64_t* place) { return __atomic_load_n(place, __ATOMIC_RELAXED); }
inline void store(std::int64_t* place, std::int64_t value) { __atomic_store_n(place, value, __ATOMIC_RELAXED); }

// --- lines -----------------------------------------------------------------------------------------------------------

// How many bytes from `text[at]` on are one character of UTF-8, 0 if they are none.
inline std::size_t character(std::string_view text, std::size_t at) {
    const auto byte = [text](std::size_t place) { return static_cast<unsigned char>(text[place]); };
    const unsigned first = byte(at);
    if (first < 0x80) return 1;
    const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || size > text.size() - at) return 0;
    for (std::size_t i = 1; i < size; ++i)
        if ((byte(at + i) & 0xc0) != 0x80) return 0;
    const unsigned second = byte(at + 1);
    const bool none = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
    return none ? 0 : size;
}

// `text` as JSON; a byte that is no UTF-8 becomes a question mark, because a reader would refuse the whole line.
inline std::string json_text(std::string_view text) {
    std::string out = "\"";
    for (std::size_t i = 0, size = 0; i < text.size(); i += std::max<std::size_t>(size, 1)) {
        size = character(text, i);
        char escaped[8];
        if (size == 1 && static_cast<unsigned char>(text[i]) < 0x20) {
            std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(text[i]));
            out += escaped;
            continue;
        }
        if (text[i] == '"' || text[i] == '\\') out += '\\';
        out += size != 0 ? text.substr(i, size) : std::string_view("?");
    }
    return out + '"';
}

// The members of a JSON object, `{"k":kind` first.
class Line {
  public:
    explicit Line(const char* kind) : text_("{\"k\":" + json_text(kind)) {}
    Line& add(const char* key, std::string_view value) { return raw(key, json_text(value)); }
    Line& add(const char* key, std::int64_t value) { return raw(key, std::to_string(value)); }
    Line& raw(const char* key, const std::string& json) {
        text_ += ",\"" + std::string(key) + "\":" + json;
        return *this;
    }
    std::string end() const { return text_ + "}\n"; }

  private:
    std::string text_;
};

inline std::string json_list(const std::vector<std::string>& items) {
    std::string out;
    for (const std::string& item : items) out += (out.empty() ? "" : ",") + item;
    return "[" + out + "]";
}

// --- the file of one process -----------------------------------------------------------------------------------------

// Sets `size` bytes aside: without that a full disk would be SIGBUS at the first store, not an error here.
inline bool reserve(int fd, std::size_t start, std::size_t size) {
#if !defined(__APPLE__)
    const int error = posix_fallocate(fd, static_cast<off_t>(start), static_cast<off_t>(size));
    if (error == 0) return true;
    if (error != EOPNOTSUPP && error != ENOSYS && error != EINVAL) return false;
#endif
    const std::string zeros(size, '\0');
    for (std::size_t done = 0; done < size;) {
        const ssize_t written = pwrite(fd, zeros.data() + done, size - done, static_cast<off_t>(start + done));
        if (written <= 0) return false;
        done += static_cast<std::size_t>(written);
    }
    return true;
}

inline std::int64_t* map(int fd, std::size_t start, std::size_t size) {
    if (fd < 0 || !reserve(fd, start, size)) return nullptr;
    void* found = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(start));
    return found == MAP_FAILED ? nullptr : static_cast<std::int64_t*>(found);
}

// Lines, counts and flight. A failed write keeps its lines and tries again with the next.
class Shard {
  public:
    Shard(std::string data, std::string run) : data_(std::move(data)), run_(std::move(run)) {}

    std::int64_t* flight = nullptr;
    std::string error;  // why lines could not be written, "" if all were

    bool used() const { return fd_ >= 0 || !pending_.empty(); }
    bool settled() const { return pending_.empty(); }

    void append(const std::string& lines) {
        pending_ += lines;
        if (!open()) return;
        std::size_t done = 0;
        while (done < pending_.size()) {
            const ssize_t written = write(fd_, pending_.data() + done, pending_.size() - done);
            if (written < 0 && errno == EINTR) continue;
            if (written <= 0) {
                refused();
                break;
            }
            done += static_cast<std::size_t>(written);
        }
        pending_.erase(0, done);
        if (pending_.empty()) error.clear();
    }

    // The counts of slot `number`; `mapped`: they outlive the process.
    std::int64_t* counts(std::size_t number, bool& mapped) {
        open();
        while (number / slots >= chunks_.size()) {
            std::int64_t* place = map(counts_fd_, chunks_.size() * chunk_bytes, chunk_bytes);
            auto plain = place == nullptr ? std::make_unique<std::int64_t[]>(slots * width) : nullptr;
            chunks_.push_back({place, std::move(plain)});
        }
        const Chunk& chunk = chunks_[number / slots];
        mapped = chunk.mapped != nullptr;
        return (mapped ? chunk.mapped : chunk.plain.get()) + number % slots * width;
    }

    // Ends in order: counts and flight are then no longer needed.
    void close() {
        append(Line("end").end());
        if (settled())
            for (const char* companion : {".counts", ".flight"}) unlink((path_ + companion).c_str());
        release();
    }

    // Lets go of the files without saying that the process ended.
    void release() {
        for (const Chunk& chunk : chunks_)
            if (chunk.mapped != nullptr) munmap(chunk.mapped, chunk_bytes);
        chunks_.clear();
        if (flight != nullptr) munmap(flight, flight_bytes);
        flight = nullptr;
        for (int* fd : {&fd_, &counts_fd_}) {
            if (*fd >= 0) ::close(*fd);
            *fd = -1;
        }
        pending_.clear();
    }

  private:
    struct Chunk {
        std::int64_t* mapped;
        std::unique_ptr<std::int64_t[]> plain;
    };

    void refused() {
        const char* why = std::strerror(errno);
        const char* data = data_.c_str();
        if (error.empty()) std::fprintf(stderr, "dispatchcov: %s: records could not be written: %s\n", data, why);
        error = why;
    }

    static int create(const std::string& path, int flags) {
        return ::open(path.c_str(), flags | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    }

    bool open() {
        if (fd_ >= 0) return true;
        char host[256] = "";
        gethostname(host, sizeof host - 1);
        std::string plain = std::string(host).substr(0, 40);
        for (char& c : plain)
            if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))) c = '-';
        const std::string begin = data_ + "." + (plain.empty() ? "host" : plain) + "." + std::to_string(getpid()) + ".";
        std::random_device random;
        do {
            char number[16];
            std::snprintf(number, sizeof number, "%06x%06x", random() & 0xffffffu, random() & 0xffffffu);
            path_ = begin + number + ".jsonl";
            fd_ = create(path_, O_WRONLY | O_APPEND);
        } while (fd_ < 0 && errno == EEXIST);
        if (fd_ < 0) {
            refused();
            return false;
        }
        counts_fd_ = create(path_ + ".counts", O_RDWR);
        const int fd = create(path_ + ".flight", O_RDWR);
        flight = map(fd, 0, flight_bytes);
        if (fd >= 0) ::close(fd);
        pending_.insert(0, head(host));
        return true;
    }

    std::string head(const char* host) const {
        char started[40];
        const std::time_t now = std::time(nullptr);
        std::tm utc{};
        std::strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%S+00:00", gmtime_r(&now, &utc));
        const std::string name = path_.substr(path_.rfind('/') + 1);
        return Line("shard").add("format", 1).add("name", name).add("run", run_).add("host", host)
            .add("pid", getpid()).add("started", started).add("counts", counts_fd_ >= 0 ? name + ".counts" : "")
            .add("flight", flight != nullptr ? name + ".flight" : "").end();
    }

    std::string data_, run_, path_, pending_;
    std::vector<Chunk> chunks_;
    int fd_ = -1, counts_fd_ = -1;
};

// --- what is counted -------------------------------------------------------------------------------------------------

// A table as the recorder keeps it: the library that holds the table itself may be unloaded, and another table lie in
// its place.
struct Kept {
    struct Fact {
        Type type;
        bool hardware;
        std::vector<std::string> values;
        std::string other;
    };
    std::string op, digest, source, text;
    std::vector<Fact> facts;
    std::size_t words;

    explicit Kept(const Table& table)
        : op(table.op), digest(table.digest), source(table.source), text(table.text),
          words(static_cast<std::size_t>(table.words)) {
        for (int i = 0; i < table.count; ++i) {
            const Variable& variable = table.variables[i];
            std::vector<std::string> values(variable.values, variable.values + variable.count);
            const char* other = variable.other != nullptr ? variable.other : "";
            facts.push_back({variable.type, variable.hardware, std::move(values), other});
        }
    }

    bool is(const Table& table) const { return std::strcmp(digest.c_str(), table.digest) == 0; }

    std::string json(std::size_t place, std::int64_t value) const {
        const Fact& fact = facts[place];
        if (fact.type == Type::integer) return std::to_string(value);
        if (fact.type == Type::boolean) return value != 0 ? "true" : "false";
        const bool declared = value >= 0 && value < static_cast<std::int64_t>(fact.values.size());
        return json_text(declared ? fact.values[static_cast<std::size_t>(value)] : fact.other);
    }
};

// Counts of like decisions in one context.
struct Cell {
    const Kept* table;
    const std::string *machine, *kernel;  // as `table` kept by the recorder
    std::vector<std::uint64_t> vector;
    std::vector<std::int64_t> first, bounds;          // bounds: least and greatest value of each ranged variable
    std::vector<std::vector<std::int64_t>> extremes;  // the facts at which these were seen
    std::size_t slot = 0;
    std::int64_t* counts = nullptr;
    bool mapped = false;
    std::int64_t row = -1, due = 1;  // due: the count at which an unmapped row is to be written again

    Cell(const Input& in, const Kept& by, const std::string& on, const std::string& ran)
        : table(&by), machine(&on), kernel(&ran), vector(in.vector, in.vector + by.words),
          first(in.facts, in.facts + by.facts.size()) {
        for (int i = 0; i < in.table.count; ++i)
            if (in.table.variables[i].ranged) bounds.insert(bounds.end(), 2, in.facts[i]);
        extremes.assign(bounds.size(), first);
    }

    bool is(const Input& in) const {
        if (!table->is(in.table) || *machine != in.machine || *kernel != in.kernel) return false;
        if (!std::equal(vector.begin(), vector.end(), in.vector)) return false;
        for (int i = 0; i < in.table.count; ++i)
            if (in.table.variables[i].hardware && first[static_cast<std::size_t>(i)] != in.facts[i]) return false;
        return true;
    }

    bool holds(const Input& in) const {
        const std::int64_t* bound = bounds.data();
        for (int i = 0; i < in.table.count; ++i) {
            if (!in.table.variables[i].ranged) continue;
            if (in.facts[i] < load(bound) || in.facts[i] > load(bound + 1)) return false;
            bound += 2;
        }
        return true;
    }

    void widen(const Input& in) {
        std::size_t place = 0;
        for (int i = 0; i < in.table.count; ++i) {
            if (!in.table.variables[i].ranged) continue;
            for (const bool low : {true, false}) {
                if (low ? in.facts[i] < bounds[place] : in.facts[i] > bounds[place]) {
                    extremes[place].assign(in.facts, in.facts + in.table.count);
                    store(&bounds[place], in.facts[i]);
                }
                ++place;
            }
        }
    }
};

inline std::uint64_t hash(const Input& in) {
    std::uint64_t h = 0;
    std::memcpy(&h, in.table.digest, sizeof h);  // it has 64 characters
    const auto mix = [&h](std::uint64_t word) { h = (h ^ word) * 0x9e3779b97f4a7c15u, h ^= h >> 32; };
    for (int i = 0; i < in.table.words; ++i) mix(in.vector[i]);
    for (int i = 0; i < in.table.count; ++i)
        if (in.table.variables[i].hardware) mix(static_cast<std::uint64_t>(in.facts[i]));
    return h;
}

// The phase of a test, or `run`: what decisions are counted under.
struct Context {
    std::string test, phase;
    std::int64_t id;
    std::deque<Cell> cells;
    std::unordered_multimap<std::uint64_t, Cell*> by_hash;
};

// Where a decision was counted: right while the context `serial` lasts; `row` names it in the shard.
struct Ticket {
    Cell* cell = nullptr;
    std::uint64_t serial = 0;
    std::int64_t row = -1;
    const std::string* machine = nullptr;
};

// A thread's lock, which only it and whoever ends a context take, and the cells that it counted in last.
struct alignas(64) Seat {
    std::atomic<bool> busy{false};
    std::array<Cell*, 64> cells{};

    void lock() {
        while (busy.exchange(true, std::memory_order_acquire))
            while (busy.load(std::memory_order_relaxed)) sched_yield();
    }
    void unlock() { busy.store(false, std::memory_order_release); }
};

DISPATCHCOV_SHARED inline thread_local Seat* own_seat = nullptr;

// --- the recorder ----------------------------------------------------------------------------------------------------

// Counts decisions. A count is raised under the lock of the thread's seat; all else happens under `mutex_`, and what
// the counting reads is changed while all seats are taken too. Locks are taken in this order: mutex, seats.
class Recorder {
  public:
    Recorder(std::string data, std::string run) : shard_(std::move(data), std::move(run)) {
        utsname about{};
        machine_ = uname(&about) == 0 ? std::string(about.sysname) + " " + about.machine : "unknown";
        context_ = fresh("", "run");
        const char* by = std::getenv("PYTEST_CURRENT_TEST");  // "test (phase)": a test of pytest started this program
        const std::string_view test = by != nullptr ? by : "";
        if (const std::size_t cut = test.rfind(" ("); cut != test.npos && test.back() == ')') {
            context_->test = test.substr(0, cut);
            context_->phase = test.substr(cut + 2, test.size() - cut - 3);
        }
    }

    std::string_view machine() const { return machine_; }

    Ticket count(const Input& in, Evidence evidence) {
        Seat& seat = enrolled();
        {
            const std::lock_guard<Seat> seated(seat);
            Cell* cell = seat.cells[hash(in) % seat.cells.size()];
            if (cell != nullptr && cell->is(in) && cell->holds(in)) return counted(*cell, evidence);
        }
        const std::lock_guard<std::mutex> alone(mutex_);
        Cell& cell = locate(in);
        const Ticket ticket = counted(cell, evidence);
        if (cell.row < 0 || (!cell.mapped && load(cell.counts) >= cell.due)) write_in_progress(cell);
        if (cell.mapped) {
            const std::lock_guard<Seat> seated(seat);
            seat.cells[hash(in) % seat.cells.size()] = &cell;
        }
        return {ticket.cell, ticket.serial, cell.row, ticket.machine};
    }

    // Counts `evidence` for the decision of `ticket`: under the present test, if that in which it was taken is over.
    void attest(const Ticket& ticket, const Input& in, Evidence evidence) {
        Seat& seat = enrolled();
        {
            const std::lock_guard<Seat> seated(seat);
            if (ticket.serial == serial_ && ticket.cell->mapped) return add(ticket.cell->counts + evidence);
        }
        count(in, evidence);
    }

    // A launch begins; its number and shard, for `land`.
    std::pair<std::int64_t, std::uint64_t> launch(const Ticket& ticket, const Input& in) {
        const std::lock_guard<Seat> seated(enrolled());
        if (shard_.flight == nullptr || ticket.serial < shard_serial_) return {0, 0};
        std::int64_t number = 0;
        std::size_t tried = 0;
        do {  // a launch in flight keeps its entry
            if (tried++ == entries) return {0, 0};
            number = launches_.fetch_add(1, std::memory_order_relaxed) + 1;
        } while (load(entry(number) + 2) == begun);
        const int facts = std::min(in.table.count, flight_facts);
        std::int64_t* word = entry(number);
        const std::int64_t head[] = {number, ticket.row, begun, facts};
        for (const std::int64_t value : head) store(word++, value);
        for (int i = 0; i < facts; ++i) {
            const Variable& variable = in.table.variables[i];
            const bool other = variable.type == Type::text && (in.facts[i] < 0 || in.facts[i] >= variable.count);
            store(word++, other ? -1 : in.facts[i]);
        }
        return {number, shard_serial_};
    }

    void land(std::pair<std::int64_t, std::uint64_t> launch, State state) {
        const std::lock_guard<Seat> seated(enrolled());
        if (launch.first == 0 || launch.second != shard_serial_ || shard_.flight == nullptr) return;
        if (load(entry(launch.first)) == launch.first) store(entry(launch.first) + 2, state);
    }

    void checked() {
        const std::lock_guard<std::mutex> alone(mutex_);
        for (const Cell& cell : context_->cells) store(cell.counts + checked_by, load(cell.counts + selected));
    }

    void enter(std::string test, std::string phase) {
        const std::lock_guard<std::mutex> alone(mutex_);
        const std::unique_ptr<Context> before = next(std::move(test), std::move(phase));
        close(*before);
    }

    std::pair<std::string, std::string> where() {
        const std::lock_guard<std::mutex> alone(mutex_);
        return {context_->test, context_->phase};
    }

    void line(const Line& line) {
        const std::lock_guard<std::mutex> alone(mutex_);
        shard_.append(line.end());
    }

    // What was decided so far under `test` is of an earlier try.
    void retry(const std::string& test) {
        const std::lock_guard<std::mutex> alone(mutex_);
        const std::unique_ptr<Context> before = next(context_->test, context_->phase);
        close(*before);
        shard_.append(Line("retry").add("test", test).end());
    }

    // While a test program has not ended, leaving the process is no end in order.
    void inside(bool value) {
        const std::lock_guard<std::mutex> alone(mutex_);
        inside_ = value;
    }

    // Tests run once more after this time: what forked children decide until then is of an earlier try.
    void again(bool value) {
        const std::lock_guard<std::mutex> alone(mutex_);
        again_ = value;
    }

    std::string lost() {
        const std::lock_guard<std::mutex> alone(mutex_);
        return shard_.error;
    }

    // The process ends. What decides after that, in destructors of statics, is counted in a further shard.
    void stop() {
        const std::lock_guard<std::mutex> alone(mutex_);
        take_all();
        close(*context_);
        context_ = fresh(context_->test, context_->phase);
        if (shard_.used() && !inside_) shard_.close();
        afresh();
        leave_all();
    }

    void before_fork() { mutex_.lock(), take_all(); }
    void after_fork_in_parent() { leave_all(), mutex_.unlock(); }

    // In the child: count afresh, into a shard of its own; the parent writes what it counted before.
    void after_fork_in_child() {
        for (Seat* seat : seats_)
            if (seat != own_seat) delete seat;
        seats_.clear();
        if (own_seat != nullptr) seats_.push_back(own_seat);
        const bool counted = context_->phase == "call" || context_->phase == "run";
        context_ = fresh(context_->test, again_ && counted ? "earlier try" : context_->phase);
        inside_ = false;
        afresh();
        leave_all();
        mutex_.unlock();
    }

    void dismiss(Seat* seat) {
        const std::lock_guard<std::mutex> alone(mutex_);
        seats_.erase(std::remove(seats_.begin(), seats_.end(), seat), seats_.end());
        delete seat;
    }

  private:
    static constexpr Evidence checked_by = static_cast<Evidence>(3);

    Seat& enrolled();

    Ticket counted(Cell& cell, Evidence evidence) const {
        if (evidence == selected && !cell.kernel->empty()) add(cell.counts + launched);
        add(cell.counts + evidence);
        return {&cell, serial_, cell.row, cell.machine};
    }

    std::int64_t* entry(std::int64_t number) const {
        return shard_.flight + static_cast<std::size_t>(number) % entries * entry_words;
    }

    void take_all() {
        for (Seat* seat : seats_) seat->lock();
    }

    // Lets go of all seats, whose cells may have gone.
    void leave_all() {
        for (Seat* seat : seats_) {
            seat->cells.fill(nullptr);
            seat->unlock();
        }
    }

    // The context so far; `test` and `phase` are counted under from now on.
    std::unique_ptr<Context> next(std::string test, std::string phase) {
        auto context = fresh(std::move(test), std::move(phase));
        take_all();
        context_.swap(context);
        ++serial_;
        leave_all();
        return context;
    }

    std::unique_ptr<Context> fresh(std::string test, std::string phase) {
        return std::make_unique<Context>(Context{std::move(test), std::move(phase), ++contexts_, {}, {}});
    }

    // Nothing of what was written so far is in the shard that is written from now on.
    void afresh() {
        shard_.release();
        shard_serial_ = ++serial_;
        tables_.clear(), views_.clear(), free_.clear(), retired_.clear();
        rows_ = 0, used_ = 0;
    }

    Cell& locate(const Input& in) {
        const std::uint64_t key = hash(in);
        const auto [from, to] = context_->by_hash.equal_range(key);
        for (auto found = from; found != to; ++found) {
            if (!found->second->is(in)) continue;
            found->second->widen(in);
            return *found->second;
        }
        Cell& cell = context_->cells.emplace_back(in, kept(in.table), intern(in.machine), intern(in.kernel));
        if (free_.empty()) free_.push_back(used_++);
        cell.slot = free_.back();
        free_.pop_back();
        cell.counts = shard_.counts(cell.slot, cell.mapped);
        context_->by_hash.emplace(key, &cell);
        return cell;
    }

    const std::string& intern(std::string_view text) { return *names_.emplace(text).first; }
    const Kept& kept(const Table& table) { return kept_.try_emplace(table.digest, table).first->second; }

    void write_in_progress(Cell& cell) {
        cell.due = cell.mapped ? 0 : 8 * cell.due;
        std::string lines;
        const std::vector<std::string> about = told(cell, lines);
        Line row("row");
        row.add("context", context_->id).add("test", context_->test).add("phase", context_->phase);
        const char* names[] = {"id", "view", "vector", "hardware", "kernel", "inputs"};
        for (std::size_t i = 0; i < about.size(); ++i) row.raw(names[i], about[i]);
        if (cell.mapped)
            row.add("slot", static_cast<std::int64_t>(cell.slot));
        else
            row.raw("counts", json_list(counts(cell)));
        shard_.append(lines + row.end());
    }

    // Writes the final counts of `context`; its slots are used again once that is in the file.
    void close(Context& context) {
        std::string lines;
        std::vector<std::string> rows;
        for (Cell& cell : context.cells) {
            std::vector<std::string> row = told(cell, lines);
            for (std::string& count : counts(cell)) row.push_back(std::move(count));
            rows.push_back(json_list(row));
            retired_.emplace_back(cell.slot, cell.counts);
        }
        if (rows.empty()) return;
        Line line("close");
        line.add("context", context.id).add("test", context.test).add("phase", context.phase);
        line.raw("rows", json_list(rows));
        shard_.append(lines + line.end());
        if (!shard_.settled()) return;
        for (const auto& [slot, place] : retired_) {
            for (std::size_t i = 0; i < width; ++i) store(place + i, 0);
            free_.push_back(slot);
        }
        retired_.clear();
    }

    static std::vector<std::string> counts(const Cell& cell) {
        std::vector<std::string> found;
        for (std::size_t i = 0; i < width; ++i) found.push_back(std::to_string(load(cell.counts + i)));
        return found;
    }

    // What `cell` counts: id, view, vector, hardware, kernel, inputs; a table and view not written yet go to `lines`.
    std::vector<std::string> told(Cell& cell, std::string& lines) {
        const Kept& table = *cell.table;
        if (tables_.insert(table.digest).second)
            lines += Line("table").add("digest", table.digest).add("op", table.op).add("source", table.source)
                         .add("text", table.text).end();
        const int next = static_cast<int>(views_.size()) + 1;
        const auto [view, unknown] = views_.try_emplace({table.digest, *cell.machine}, next);
        if (unknown)
            lines += Line("view").add("id", next).add("digest", table.digest).add("machine", *cell.machine).end();
        if (cell.row < 0) cell.row = ++rows_;
        std::string vector;
        std::vector<std::string> hardware;
        for (auto word = cell.vector.rbegin(); word != cell.vector.rend(); ++word) {
            char digits[24];
            std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(*word));
            vector += digits;
        }
        vector.erase(0, std::min(vector.find_first_not_of('0'), vector.size() - 1));
        for (std::size_t i = 0; i < table.facts.size(); ++i)
            if (table.facts[i].hardware) hardware.push_back(table.json(i, cell.first[i]));
        return {std::to_string(cell.row), std::to_string(view->second), json_text(vector), json_list(hardware),
                json_text(*cell.kernel), json_list(inputs(cell))};
    }

    // The facts seen first, then those at which an integer was smallest or largest, each once.
    static std::vector<std::string> inputs(const Cell& cell) {
        std::vector<std::string> found;
        const auto put = [&](const std::vector<std::int64_t>& facts) {
            std::vector<std::string> values;
            for (std::size_t i = 0; i < facts.size(); ++i) values.push_back(cell.table->json(i, facts[i]));
            if (std::string input = json_list(values); std::find(found.begin(), found.end(), input) == found.end())
                found.push_back(std::move(input));
        };
        put(cell.first);
        for (const auto& facts : cell.extremes) put(facts);
        return found;
    }

    std::mutex mutex_;
    Shard shard_;
    std::string machine_;
    std::unique_ptr<Context> context_;
    std::vector<Seat*> seats_;
    std::uint64_t serial_ = 1;        // of the present context; changed while all seats are taken
    std::uint64_t shard_serial_ = 1;  // of the first context of the present shard
    std::atomic<std::int64_t> launches_{0};
    bool inside_ = false, again_ = false;
    std::set<std::string> names_, tables_;
    std::map<std::string, Kept> kept_;  // by digest
    std::map<std::pair<std::string, std::string>, int> views_;
    std::vector<std::size_t> free_;
    std::vector<std::pair<std::size_t, std::int64_t*>> retired_;
    std::size_t used_ = 0;
    std::int64_t rows_ = 0, contexts_ = 0;
};

enum : int { unknown, off, on };
DISPATCHCOV_SHARED inline std::atomic<int> state{unknown};
DISPATCHCOV_SHARED inline Recorder* recorder = nullptr;  // never deleted: destructors of statics may decide

struct Leaver {
    ~Leaver() {
        if (own_seat != nullptr) recorder->dismiss(own_seat);
        own_seat = nullptr;
    }
};

inline Seat& Recorder::enrolled() {
    if (own_seat == nullptr) {
        static thread_local const Leaver leaver;
        (void)leaver;
        const std::lock_guard<std::mutex> alone(mutex_);
        seats_.push_back(new Seat);
        own_seat = seats_.back();
    }
    return *own_seat;
}

#if !defined(__PIC__) || defined(__PIE__)  // code of a program, which stays
inline void stay() {}
#else
#if defined(__APPLE__)
constexpr auto address_in = &::dladdr;
constexpr auto open_again = &::dlopen;
#else  // null where the program is linked without libdl, which older C libraries have beside them: it opens no library
static int address_in(const void*, Dl_info*) __attribute__((weakref("dladdr")));
static void* open_again(const char*, int) __attribute__((weakref("dlopen")));
#endif

// Keeps the library that holds this code in the process: what it asks to be called at forks and at the end goes with it
// when it is unloaded, while others still decide.
inline void stay() {
    Dl_info here{};
    if (address_in == nullptr || open_again == nullptr) return;
    if (address_in(reinterpret_cast<const void*>(&stay), &here) != 0)
        open_again(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}
#endif

// The first decision of the process: does the environment ask for a recorder?
inline bool start() {
    static const bool started = [] {
        const char* run = std::getenv("DISPATCHCOV_RUN");
        if (run == nullptr || *run == '\0') {
            state.store(off, std::memory_order_release);
            return false;
        }
        const char* named = std::getenv("DISPATCHCOV_DATA");
        std::string data = named != nullptr && *named != '\0' ? named : ".dispatchcov";
        char folder[4096];
        if (data[0] != '/' && getcwd(folder, sizeof folder) != nullptr) data = std::string(folder) + "/" + data;
        stay();
        recorder = new Recorder(data, run);
        pthread_atfork([] { recorder->before_fork(); }, [] { recorder->after_fork_in_parent(); },
                       [] { recorder->after_fork_in_child(); });
        std::atexit([] { recorder->stop(); });
        state.store(on, std::memory_order_release);
        return true;
    }();
    return started;
}

}  // namespace detail

// --- what a program says to the recorder -----------------------------------------------------------------------------

// Does something record? One branch if nothing does.
inline bool recording() {
    const int now = detail::state.load(std::memory_order_acquire);
    return __builtin_expect(now != detail::off, 0) && (now == detail::on || detail::start());
}

// Decisions count under `test` from now on ("" outside tests), in a phase: setup, call, teardown, session or run.
inline void enter(const std::string& test, const std::string& phase) {
    if (recording()) detail::recorder->enter(test, phase);
}

// How `test` ended: passed, failed or skipped. Decisions of tests that did not pass hit nothing.
inline void outcome(const std::string& test, const std::string& outcome) {
    if (recording()) detail::recorder->line(detail::Line("outcome").add("test", test).add("outcome", outcome));
}

// `test` begins again: what it decided before counts as an earlier try.
inline void retry(const std::string& test) {
    if (recording()) detail::recorder->retry(test);
}

// Absence proves nothing in this run.
inline void partial(const std::string& reason) {
    if (recording()) detail::recorder->line(detail::Line("partial").add("reason", reason));
}

// Something to know about this run.
inline void remark(const std::string& text) {
    if (recording()) detail::recorder->line(detail::Line("note").add("text", text));
}

// A result was compared with a reference: all decisions of this test so far are `checked` if it passes.
inline void checked() {
    if (recording()) detail::recorder->checked();
}

// Why records could not be written, "" if all were.
inline std::string lost() { return recording() ? detail::recorder->lost() : ""; }

// Decisions are counted apart, as phase `warm-up`, while it lives: they attest nothing.
class WarmUp {
  public:
    WarmUp() {
        if (recording()) before_ = detail::recorder->where();
        enter(before_.first, "warm-up");
    }
    ~WarmUp() { enter(before_.first, before_.second); }
    WarmUp(const WarmUp&) = delete;
    WarmUp& operator=(const WarmUp&) = delete;

  private:
    std::pair<std::string, std::string> before_;
};

// --- decisions -------------------------------------------------------------------------------------------------------

namespace detail {

// The outcomes of the predicates for what other code decided: they throw nothing, facts for which a guard has no value
// are outside the domains. A header of an earlier version has only those of `decide`.
template <class T>
auto outcomes(const typename T::Facts& facts, int) -> decltype(T::outcomes(facts)) {
    return T::outcomes(facts);
}
template <class T>
auto outcomes(const typename T::Facts& facts, long) {
    return T::vector(facts);
}

// Calls `use` with `facts` as the recorder takes them. T is the `Spec` of a generated header.
template <class T, class Use>
auto with_input(const typename T::Facts& facts, std::string_view machine, std::string_view kernel, Use use) {
    std::int64_t codes[T::variables];
    T::codes(facts, codes);
    const auto vector = kernel.empty() ? T::vector(facts) : outcomes<T>(facts, 0);
    return use(Input{T::table(), codes, vector.words, machine.empty() ? recorder->machine() : machine, kernel});
}

inline FactsError unnamed(const char* op) {
    return FactsError(std::string(op) + ": expected the name of the kernel that ran, got \"\"");
}

template <class T>
DISPATCHCOV_COLD Ticket count(const typename T::Facts& facts, std::string_view machine, std::string_view kernel) {
    return with_input<T>(facts, machine, kernel, [](const Input& in) { return recorder->count(in, selected); });
}

}  // namespace detail

template <class T>
class Launch;

// One evaluation of a table.
template <class T>
struct Decision {
    typename T::Rule rule;
    typename T::Kernel kernel;
    typename T::Facts facts;
    detail::Ticket ticket;

    // Keep what it returns until the kernel is launched: `const auto launch = decision.launch();`
    [[nodiscard]] Launch<T> launch() const& { return Launch<T>(*this); }
    Launch<T> launch() const&& = delete;  // a launch refers to its decision
};

// The launch of a kernel: leaving it without an exception attests `launched`.
template <class T>
class Launch {
  public:
    explicit Launch(const Decision<T>& decision) : decision_(decision) {
        if (decision_.ticket.cell != nullptr) begin();
    }
    ~Launch() {
        if (decision_.ticket.cell != nullptr) end();
    }
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

  private:
    DISPATCHCOV_COLD void begin() {
        errors_ = std::uncaught_exceptions();
        number_ = with([this](const Input& in) { return detail::recorder->launch(decision_.ticket, in); });
    }
    DISPATCHCOV_COLD void end() {
        const bool raised = std::uncaught_exceptions() > errors_;
        detail::recorder->land(number_, raised ? detail::raised : detail::returned);
        if (!raised) with([this](const Input& in) { detail::recorder->attest(decision_.ticket, in, launched); });
    }
    template <class Use>
    auto with(Use use) const {
        return detail::with_input<T>(decision_.facts, *decision_.ticket.machine, {}, use);
    }

    const Decision<T>& decision_;
    std::pair<std::int64_t, std::uint64_t> number_;
    int errors_ = 0;
};

// Decides, and records it if something records. `machine` says where, as in "NVIDIA H200"; default: system, processor.
template <class T>
Decision<T> decide(const typename T::Facts& facts, std::string_view machine) {
    const typename T::Rule rule = T::find(facts);
    Decision<T> decision{rule, T::kernel_of(rule), facts, {}};
    if (recording()) decision.ticket = detail::count<T>(facts, machine, {});
    if (rule == T::none) fail(Fault::none, T::table().op);
    return decision;
}

// Records a decision that other code took and launched; `kernel` is what really ran: other than the table's it is a
// mismatch, and so are facts for which a guard has no value. Throws FactsError if `kernel` is empty, recorded or not.
template <class T>
void record(const typename T::Facts& facts, std::string_view kernel, std::string_view machine) {
    if (kernel.empty()) DISPATCHCOV_THROW(detail::unnamed(T::table().op));
    if (recording()) detail::count<T>(facts, machine, kernel);
}

}  // namespace layout_2
}  // namespace dispatchcov

#endif  // DISPATCHCOV_HPP
