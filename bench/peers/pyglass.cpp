// pyglass over float32 rows (metric=l2 or ip): its HNSW, built over one kind of its codes
// (graph=), searched over the same or another kind (codes=) and refined over float16. The
// defaults are those of its example. Its float16 codes of rows whose length is no multiple
// of 16 are wrong by L2 (pad=16): they go on with the next row. Settings: ef.
#include <immintrin.h>
#include <omp.h>

#if defined(__AVX512F__) && !defined(__AVX512VPOPCNTDQ__)
// Its 1-bit codes, which nothing here uses, take an instruction that this processor
// lacks for granted and do not compile without it.
#include <cstdlib>
inline __m512i missingPopcount(__m512i) { std::abort(); }
#define _mm512_popcnt_epi32 missingPopcount
#endif

#include <glass/hnsw/hnsw.hpp>
#include <glass/searcher/graph_searcher.hpp>

#include "driver.h"

using driver::Options;
using driver::Rows;

struct Pyglass : driver::Engine {
    glass::Graph<int32_t> graph;
    std::unique_ptr<glass::GraphSearcherBase> searcher;
    const Rows* rows = nullptr;
    driver::Padding padding;
    std::vector<float> query;
    driver::Turns turns;

    std::string about() override { return std::string("pyglass ") + PEER_VERSION; }

    static std::string metric(const Options& o) { return o.text("metric", "l2") == "ip" ? "IP" : "L2"; }

    void build(const Rows& base, const Options& o, int threads) override {
        if (base.bytes) throw std::runtime_error("rows of the wrong type");
        driver::Quiet quiet;
        omp_set_num_threads(threads);
        int32_t R = int32_t(o.number("R", 48)), L = int32_t(o.number("L", 200));
        auto hnsw = glass::create_hnsw(metric(o), o.text("graph", "SQ8U"), R, L);
        if (!hnsw) throw std::runtime_error("pyglass builds no graph over such codes");
        std::vector<float> copy;
        padding = driver::Padding(o, base.dim);
        const float* from = padding.rows(base.floats(0), base.n, copy);
        graph = hnsw->Build(from, int32_t(base.n), int32_t(padding.wide));
        rows = &base;
    }
    // The graph's file lacks the rows, of which a searcher makes its codes: they follow.
    void save(const std::string& path) override {
        driver::Quiet quiet;
        graph.save(path);
        std::ofstream out(path, std::ios::binary | std::ios::app);
        out.write(rows->data, std::streamsize(rows->length));
        if (!out.flush()) throw std::runtime_error("cannot write " + path);
    }
    void open(const std::string& path, const Options& o, size_t dim) override {
        driver::Quiet quiet;
        omp_set_num_threads(1);
        glass::Graph<int32_t> loaded;
        loaded.load(path, "glass");
        size_t n = size_t(loaded.N);
        std::vector<float> base(n * dim);
        std::ifstream in(path, std::ios::binary);
        in.seekg(std::streamoff(driver::fileSize(path) - base.size() * sizeof(float)));
        if (!in.read(reinterpret_cast<char*>(base.data()), std::streamsize(base.size() * sizeof(float))))
            throw std::runtime_error("cannot read " + path);
        std::string codes = o.text("codes", "SQ4U");
        // Refining float16 codes over float16 rows changes nothing but the memory needed.
        std::string refined = codes == "FP16" ? "" : "FP16";
        searcher = glass::create_searcher(std::move(loaded), metric(o), codes, refined);
        if (!searcher) throw std::runtime_error("pyglass searches no such codes");
        std::vector<float> copy;
        padding = driver::Padding(o, dim);
        searcher->SetData(padding.rows(base.data(), n, copy), int32_t(n), int32_t(padding.wide));
        // It tries distances of prefetching; a first answer does not wait for that.
        if (o.number("first", 0) == 0) searcher->Optimize(1);
    }
    void set(const Options& o) override { searcher->SetEf(int32_t(o.number("ef", 10))); }
    void threads(int n) override { turns.needed = n > 1; }
    void search(const void* q, size_t k, uint32_t* ids, int) override {
        auto turn = turns.take();
        const float* row = padding.rows(static_cast<const float*>(q), 1, query);
        searcher->Search(row, int32_t(k), reinterpret_cast<int32_t*>(ids));
    }
};

int main(int argc, char** argv) {
    Pyglass e;
    return driver::run(e, argc, argv);
}
