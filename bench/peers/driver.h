// The loop that every C++ driver runs: commands on standard input, one answer
// line each on standard output. bench/child/child.go has the same protocol in
// Go and says what the commands mean; keep the two alike.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace driver {

constexpr uint32_t kMissing = 0xffffffffu;

inline double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline uint64_t nanos() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

// Words of the form name=value.
struct Options {
    std::map<std::string, std::string> words;

    static Options parse(std::istream& in) {
        Options o;
        std::string w;
        while (in >> w) {
            auto eq = w.find('=');
            if (eq == std::string::npos) throw std::runtime_error("option without a value: " + w);
            o.words[w.substr(0, eq)] = w.substr(eq + 1);
        }
        return o;
    }
    long number(const std::string& name, long otherwise) const {
        auto at = words.find(name);
        return at == words.end() ? otherwise : std::stol(at->second);
    }
    std::string text(const std::string& name, const std::string& otherwise) const {
        auto at = words.find(name);
        return at == words.end() ? otherwise : at->second;
    }
};

// Rows of a raw file in host byte order: n x dim values of float or of bytes.
// The file is mapped: nothing is copied before the library does.
struct Rows {
    size_t n = 0, dim = 0;
    bool bytes = false;
    const char* data = nullptr;
    size_t length = 0;

    Rows() = default;
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;
    ~Rows() {
        if (data) munmap(const_cast<char*>(data), length);
    }
    void map(const std::string& path, size_t rows, size_t d, const std::string& type) {
        if (type != "f32" && type != "u8") throw std::runtime_error("unknown type " + type);
        bytes = type == "u8";
        n = rows;
        dim = d;
        length = rows * d * (bytes ? 1 : sizeof(float));
        int fd = ::open(path.c_str(), O_RDONLY);
        if (fd < 0) throw std::runtime_error("cannot open " + path);
        struct stat st;
        if (fstat(fd, &st) != 0 || size_t(st.st_size) != length) {
            ::close(fd);
            throw std::runtime_error(path + " has another length than announced");
        }
        void* p = mmap(nullptr, length, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
        ::close(fd);
        if (p == MAP_FAILED) throw std::runtime_error("cannot map " + path);
        data = static_cast<const char*>(p);
    }
    const void* row(size_t i) const { return data + i * dim * (bytes ? 1 : sizeof(float)); }
    const float* floats(size_t i) const { return reinterpret_cast<const float*>(row(i)); }
    const uint8_t* u8(size_t i) const { return reinterpret_cast<const uint8_t*>(row(i)); }
};

// Appends zeros to rows, up to a multiple of pad= coordinates, for libraries that are slow
// or wrong at other lengths. This changes neither L2 distances nor inner products.
struct Padding {
    size_t dim = 0, wide = 0;

    Padding() = default;
    Padding(const Options& o, size_t d) : dim(d) {
        size_t multiple = size_t(std::max(1L, o.number("pad", 1)));
        wide = (d + multiple - 1) / multiple * multiple;
    }
    // The rows themselves if their length is such a multiple, or copies in to, which is
    // empty or was used for as many rows before.
    const float* rows(const float* from, size_t n, std::vector<float>& to) const {
        if (wide == dim) return from;
        to.resize(n * wide);
        for (size_t i = 0; i < n; i++) std::memcpy(&to[i * wide], from + i * dim, dim * sizeof(float));
        return to.data();
    }
};

// What a driver does with its library.
struct Engine {
    virtual ~Engine() = default;
    // Version and compile-time facts, one line.
    virtual std::string about() = 0;
    virtual void build(const Rows& base, const Options& o, int threads) = 0;
    virtual void save(const std::string& path) = 0;
    // Opens a saved index; o are the words it was built with, and first=1 where
    // the time to the first answer is what counts.
    virtual void open(const std::string& path, const Options& o, size_t dim) = 0;
    // Takes a setting of the search, such as ef=40.
    virtual void set(const Options& o) = 0;
    // Called before searches of that many threads.
    virtual void threads(int) {}
    // Restricts searches to the rows whose bit is set, n bytes of eight rows each, lowest bit
    // first; nullptr lifts that. The bits live until the next call.
    virtual void filter(const uint8_t*, size_t) { throw std::runtime_error("searches take no filter"); }
    // The k nearest rows of one query, in any order; kMissing fills the rest.
    virtual void search(const void* query, size_t k, uint32_t* ids, int thread) = 0;
};

// While it lives, what a library prints goes to standard error: standard output
// carries the answers.
struct Quiet {
    int out;

    Quiet() : out(redirect(STDERR_FILENO)) {}
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;
    ~Quiet() {
        flush();
        dup2(out, STDOUT_FILENO);
        ::close(out);
    }
    static void flush() {
        std::cout.flush();
        std::fflush(stdout);
    }
    static int redirect(int to) {
        flush();
        int old = dup(STDOUT_FILENO);
        if (old < 0 || dup2(to, STDOUT_FILENO) < 0) throw std::runtime_error("cannot redirect standard output");
        return old;
    }
};

// Lets one thread at a time search an index that keeps the state of one query;
// costs nothing where one thread searches.
struct Turns {
    bool needed = false;
    std::mutex mutex;

    std::unique_lock<std::mutex> take() {
        return needed ? std::unique_lock<std::mutex>(mutex) : std::unique_lock<std::mutex>();
    }
};

inline size_t fileSize(const std::string& path) {
    struct stat st;
    if (::stat(path.c_str(), &st) != 0) throw std::runtime_error("cannot open " + path);
    return size_t(st.st_size);
}

inline void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) throw std::runtime_error("cannot pin to the core");
}

inline void unpin(const cpu_set_t& all) { sched_setaffinity(0, sizeof all, &all); }

inline long status(const char* field) {
    std::ifstream in("/proc/self/status");
    std::string line;
    while (std::getline(in, line))
        if (line.rfind(field, 0) == 0) return std::stol(line.substr(std::strlen(field) + 1)) * 1024;
    return 0;
}

// Calls fn(i, thread) for 0 <= i < n on that many threads, taking turns.
template <typename F>
void parallel(size_t n, int threads, F fn) {
    if (threads <= 1) {
        for (size_t i = 0; i < n; i++) fn(i, 0);
        return;
    }
    std::atomic<size_t> next{0};
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; t++)
        pool.emplace_back([&, t] {
            for (size_t i; (i = next++) < n;) fn(i, t);
        });
    for (auto& t : pool) t.join();
}

inline void serve(Engine& e, int core) {
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    std::unique_ptr<Rows> base;
    std::map<std::string, std::unique_ptr<Rows>> queries;
    std::vector<uint8_t> bits;
    std::string line;
    auto ok = [](const std::string& rest) { std::cout << "ok " << rest << "\n" << std::flush; };
    while (std::getline(std::cin, line)) {
        std::istringstream in(line);
        std::string command;
        in >> command;
        try {
            if (command == "info") {
                ok(e.about());
            } else if (command == "base" || command == "queries") {
                std::string slot, path, type;
                size_t n, dim;
                if (command == "queries") in >> slot;
                if (!(in >> path >> n >> dim >> type)) throw std::runtime_error("bad command");
                auto rows = std::make_unique<Rows>();
                rows->map(path, n, dim, type);
                (command == "base" ? base : queries[slot]) = std::move(rows);
                ok("");
            } else if (command == "filter") {
                std::string path;
                in >> path;
                std::vector<uint8_t> next;
                if (path != "-") {
                    next.resize(fileSize(path));
                    std::ifstream f(path, std::ios::binary);
                    if (!f.read(reinterpret_cast<char*>(next.data()), std::streamsize(next.size())))
                        throw std::runtime_error("cannot read " + path);
                }
                e.filter(next.empty() ? nullptr : next.data(), next.size());
                bits.swap(next);
                ok("");
            } else if (command == "build") {
                int threads;
                in >> threads;
                if (!base) throw std::runtime_error("no base rows");
                auto o = Options::parse(in);
                double t = now();
                e.build(*base, o, threads);
                ok("seconds=" + std::to_string(now() - t));
            } else if (command == "save") {
                std::string path;
                in >> path;
                e.save(path);
                ok("");
            } else if (command == "open") {
                std::string path;
                size_t dim;
                in >> path >> dim;
                e.open(path, Options::parse(in), dim);
                ok("");
            } else if (command == "first") {
                // A new process answers its first query: open, then search once.
                std::string path, slot, w;
                size_t k;
                in >> path >> slot >> k;
                Options build, setting;
                build.words["first"] = "1";
                Options* o = &build;
                while (in >> w) {
                    if (w == "--") {
                        o = &setting;
                        continue;
                    }
                    auto eq = w.find('=');
                    if (eq == std::string::npos) throw std::runtime_error("option without a value: " + w);
                    o->words[w.substr(0, eq)] = w.substr(eq + 1);
                }
                auto& q = queries.at(slot);
                std::vector<uint32_t> ids(k);
                double t = now();
                e.open(path, build, q->dim);
                e.set(setting);
                e.threads(1);
                e.search(q->row(0), k, ids.data(), 0);
                ok("seconds=" + std::to_string(now() - t));
            } else if (command == "run") {
                std::string slot;
                size_t k, passes, warm, limit;
                if (!(in >> slot >> k >> passes >> warm >> limit)) throw std::runtime_error("bad command");
                auto& q = queries.at(slot);
                e.set(Options::parse(in));
                e.threads(1);
                size_t n = limit && limit < q->n ? limit : q->n;
                std::vector<uint32_t> ids(n * k), ns(passes * n);
                pin(core);
                for (size_t p = 0; p < warm; p++)
                    for (size_t i = 0; i < n; i++) e.search(q->row(i), k, &ids[i * k], 0);
                for (size_t p = 0; p < passes; p++)
                    for (size_t i = 0; i < n; i++) {
                        uint64_t t = nanos();
                        e.search(q->row(i), k, &ids[i * k], 0);
                        uint64_t took = nanos() - t;
                        ns[p * n + i] = took > 0xfffffffe ? 0xfffffffe : uint32_t(took);
                    }
                unpin(all);
                ok(std::to_string(n) + " " + std::to_string(k) + " " + std::to_string(passes));
                std::cout.write(reinterpret_cast<char*>(ids.data()), std::streamsize(ids.size() * 4));
                std::cout.write(reinterpret_cast<char*>(ns.data()), std::streamsize(ns.size() * 4));
                std::cout.flush();
            } else if (command == "batch") {
                std::string slot;
                size_t k;
                int threads;
                if (!(in >> slot >> k >> threads)) throw std::runtime_error("bad command");
                auto& q = queries.at(slot);
                e.set(Options::parse(in));
                e.threads(threads);
                std::vector<uint32_t> ids(q->n * k);
                double t = now();
                parallel(q->n, threads, [&](size_t i, int thread) { e.search(q->row(i), k, &ids[i * k], thread); });
                ok("seconds=" + std::to_string(now() - t));
            } else if (command == "rss") {
                // Query files are not the library's; they are mapped.
                long queryBytes = 0;
                for (auto& q : queries) queryBytes += long(q.second->length);
                ok("rss=" + std::to_string(status("VmRSS:") - queryBytes) + " own=" + std::to_string(status("RssAnon:")));
            } else if (command == "quit") {
                ok("");
                return;
            } else {
                throw std::runtime_error("unknown command " + command);
            }
        } catch (const std::exception& x) {
            std::cout << "error " << x.what() << "\n" << std::flush;
        }
    }
}

inline int run(Engine& e, int argc, char** argv) {
    int core = argc > 1 ? std::atoi(argv[1]) : 0;
    serve(e, core);
    return 0;
}

}  // namespace driver
