// SymphonyQG over float32 rows by L2, with AVX-512 only: a graph of fixed degree
// whose neighbors are stored as one-bit codes next to each vertex. The defaults are
// those of its reproduce folder. Settings: ef.
#include <qg/qg.hpp>
#include <qg/qg_builder.hpp>

#include "driver.h"

using driver::Options;
using driver::Rows;

struct SymphonyQG : driver::Engine {
    std::unique_ptr<symqg::QuantizedGraph> index;
    driver::Turns turns;

    std::string about() override { return std::string("SymphonyQG ") + PEER_VERSION; }

    static size_t degree(const Options& o) { return size_t(o.number("degree", 32)); }

    void build(const Rows& base, const Options& o, int threads) override {
        if (base.bytes) throw std::runtime_error("rows of the wrong type");
        driver::Quiet quiet;
        index = std::make_unique<symqg::QuantizedGraph>(base.n, degree(o), base.dim);
        symqg::QGBuilder builder(*index, uint32_t(o.number("efc", 400)), base.floats(0), size_t(threads));
        builder.build(size_t(o.number("iterations", 3)));
    }
    void save(const std::string& path) override {
        driver::Quiet quiet;
        index->save_index(path.c_str());
    }
    // The file does not tell how many rows it has: its length does. A row holds the
    // vector, the codes of its neighbors, three factors and a number for each.
    void open(const std::string& path, const Options& o, size_t dim) override {
        driver::Quiet quiet;
        size_t padded = size_t(1) << symqg::ceil_log2(dim);
        size_t row = 4 * (dim + padded / 32 * degree(o) + 4 * degree(o));
        size_t rows = (driver::fileSize(path) - 4 - 4 * padded) / row;
        index = std::make_unique<symqg::QuantizedGraph>(rows, degree(o), dim);
        index->load_index(path.c_str());
    }
    void set(const Options& o) override { index->set_ef(size_t(o.number("ef", 10))); }
    void threads(int n) override { turns.needed = n > 1; }
    void search(const void* q, size_t k, uint32_t* ids, int) override {
        auto turn = turns.take();
        index->search(static_cast<const float*>(q), uint32_t(k), ids);
    }
};

int main(int argc, char** argv) {
    SymphonyQG e;
    return driver::run(e, argc, argv);
}
