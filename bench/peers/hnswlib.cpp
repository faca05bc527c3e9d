// hnswlib, unmodified, over float32 rows (metric=l2 or ip) or byte rows
// (metric=u8). Settings: ef.
#include "driver.h"
#include "hnswlib/hnswlib.h"
#include "u8_space.h"

using driver::Options;
using driver::Rows;

// Older versions, such as Debian's, have no filters.
#if defined(PEER_FILTERS)
struct Bits : hnswlib::BaseFilterFunctor {
    const uint8_t* bits = nullptr;
    bool operator()(hnswlib::labeltype id) override { return bits[id >> 3] >> (id & 7) & 1; }
};
#endif

template <typename D>
struct Graph {
    std::unique_ptr<hnswlib::SpaceInterface<D>> space;
    std::unique_ptr<hnswlib::HierarchicalNSW<D>> index;
#if defined(PEER_FILTERS)
    Bits bits;
#endif

    void build(const Rows& base, const Options& o, int threads) {
        index = std::make_unique<hnswlib::HierarchicalNSW<D>>(space.get(), base.n, o.number("M", 16), o.number("efc", 200),
                                                              o.number("seed", 100));
        index->addPoint(base.row(0), 0);
        driver::parallel(base.n - 1, threads, [&](size_t i, int) { index->addPoint(base.row(i + 1), i + 1); });
    }
    void open(const std::string& path) {
        index = std::make_unique<hnswlib::HierarchicalNSW<D>>(space.get(), path);
    }
    void search(const void* q, size_t k, uint32_t* ids) {
#if defined(PEER_FILTERS)
        auto found = index->searchKnn(q, k, bits.bits ? &bits : nullptr);
#else
        auto found = index->searchKnn(q, k);
#endif
        size_t n = found.size();
        for (size_t i = n; i < k; i++) ids[i] = driver::kMissing;
        while (n > 0) {
            ids[--n] = uint32_t(found.top().second);
            found.pop();
        }
    }
};

struct Hnswlib : driver::Engine {
    Graph<float> floats;
    Graph<int> bytes;
    bool u8 = false;

    std::string about() override {
        std::string s = std::string("hnswlib ") + PEER_VERSION;
#if defined(USE_AVX512)
        return s + " float=AVX-512"
#elif defined(USE_AVX)
        return s + " float=AVX"
#else
        return s + " float=SSE"
#endif
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
                   " uint8=AVX-512-VNNI";
#elif defined(__AVX2__)
                   " uint8=AVX2";
#else
                   " uint8=scalar";
#endif
    }
    void shape(const Options& o, size_t dim) {
        std::string metric = o.text("metric", "l2");
        u8 = metric == "u8";
        if (u8)
            bytes.space = std::make_unique<U8Space>(dim);
        else if (metric == "ip")
            floats.space = std::make_unique<hnswlib::InnerProductSpace>(dim);
        else
            floats.space = std::make_unique<hnswlib::L2Space>(dim);
    }
    void build(const Rows& base, const Options& o, int threads) override {
        shape(o, base.dim);
        if (u8 != base.bytes) throw std::runtime_error("rows of the wrong type");
        u8 ? bytes.build(base, o, threads) : floats.build(base, o, threads);
    }
    void save(const std::string& path) override { u8 ? bytes.index->saveIndex(path) : floats.index->saveIndex(path); }
    void open(const std::string& path, const Options& o, size_t dim) override {
        shape(o, dim);
        u8 ? bytes.open(path) : floats.open(path);
    }
    void set(const Options& o) override {
        size_t ef = size_t(o.number("ef", 10));
        u8 ? bytes.index->setEf(ef) : floats.index->setEf(ef);
    }
#if defined(PEER_FILTERS)
    void filter(const uint8_t* bits, size_t) override { floats.bits.bits = bytes.bits.bits = bits; }
#endif
    void search(const void* q, size_t k, uint32_t* ids, int) override {
        u8 ? bytes.search(q, k, ids) : floats.search(q, k, ids);
    }
};

int main(int argc, char** argv) {
    Hnswlib e;
    return driver::run(e, argc, argv);
}
