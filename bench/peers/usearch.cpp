// usearch over float32 rows, over bytes, or over float32 rows that it keeps as
// bfloat16 (as=bf16). Its kernels (NumKong) are compiled for the machine.
// Settings: ef.
#include <usearch/index_dense.hpp>

#include "driver.h"

using driver::Options;
using driver::Rows;
using namespace unum::usearch;

struct Usearch : driver::Engine {
    index_dense_t index;
    bool bytes = false;

    std::string about() override {
        return std::string("usearch ") + PEER_VERSION + " compiled=" + hardware_acceleration_compiled() +
               " kernel=" + (index ? index.metric().isa_name() : "?");
    }
    metric_punned_t metric(const Options& o, size_t dim) {
        metric_kind_t kind = o.text("metric", "l2") == "ip" ? metric_kind_t::ip_k : metric_kind_t::l2sq_k;
        scalar_kind_t as = bytes ? scalar_kind_t::u8_k : scalar_kind_t::f32_k;
        if (o.text("as", "") == "bf16") as = scalar_kind_t::bf16_k;
        return metric_punned_t(dim, kind, as);
    }
    void add(const Rows& base, size_t i, int thread) {
        auto result = bytes ? index.add(i, reinterpret_cast<const u8_t*>(base.u8(i)), size_t(thread))
                            : index.add(i, base.floats(i), size_t(thread));
        if (!result) throw std::runtime_error(result.error.release());
    }
    void build(const Rows& base, const Options& o, int threads) override {
        bytes = base.bytes;
        index_dense_config_t config(size_t(o.number("M", 16)), size_t(o.number("efc", 200)), 64);
        auto made = index_dense_t::make(metric(o, base.dim), config);
        if (!made) throw std::runtime_error(made.error.release());
        index = std::move(made.index);
        index.reserve(index_limits_t(base.n, size_t(threads)));
        add(base, 0, 0);
        driver::parallel(base.n - 1, threads, [&](size_t i, int t) { add(base, i + 1, t); });
    }
    void save(const std::string& path) override {
        if (auto result = index.save(path.c_str()); !result) throw std::runtime_error(result.error.release());
    }
    void open(const std::string& path, const Options& o, size_t) override {
        // Mapped, usearch opens a file fastest; loaded, it searches as it was built.
        auto made = index_dense_t::make(path.c_str(), o.number("first", 0) != 0);
        if (!made) throw std::runtime_error(made.error.release());
        index = std::move(made.index);
        bytes = index.scalar_kind() == scalar_kind_t::u8_k;
    }
    void threads(int n) override {
        index_limits_t limits = index.limits();
        if (limits.threads_search < size_t(n)) {
            limits.threads_search = limits.threads_add = size_t(n);
            index.reserve(limits);
        }
    }
    void set(const Options& o) override { index.change_expansion_search(size_t(o.number("ef", 10))); }
    void search(const void* q, size_t k, uint32_t* ids, int thread) override {
        auto found = bytes ? index.search(static_cast<const u8_t*>(q), k, size_t(thread))
                           : index.search(static_cast<const float*>(q), k, size_t(thread));
        if (!found) throw std::runtime_error(found.error.release());
        size_t n = found.size();
        for (size_t i = 0; i < k; i++) ids[i] = i < n ? uint32_t(found[i].member.key) : driver::kMissing;
    }
};

int main(int argc, char** argv) {
    Usearch e;
    return driver::run(e, argc, argv);
}
