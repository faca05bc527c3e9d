// faiss: index=hnsw with kind=flat, sq8 or sq8direct (bytes as they are), or
// index=ivf with these or kind=pqfs, 4-bit product quantisation by fast scan
// whose best refine x k rows are compared again as float32. 8-bit codes of rows whose
// length is no multiple of 8 are compared without vector instructions (pad=8). Settings:
// ef, or nprobe and refine.
#include <faiss/IndexFlat.h>
#include <faiss/IndexHNSW.h>
#include <faiss/IndexIVFFlat.h>
#include <faiss/IndexIVFPQFastScan.h>
#include <faiss/IndexRefine.h>
#include <faiss/IndexScalarQuantizer.h>
#include <faiss/impl/IDSelector.h>
#include <faiss/index_io.h>
#include <omp.h>

#include "driver.h"

extern "C" void openblas_set_num_threads(int);

using driver::Options;
using driver::Rows;

struct Faiss : driver::Engine {
    std::unique_ptr<faiss::Index> index;
    faiss::IndexHNSW* hnsw = nullptr;
    faiss::IndexIVF* ivf = nullptr;
    faiss::IndexIVFFastScan* scan = nullptr;
    faiss::IndexRefine* refine = nullptr;
    std::unique_ptr<faiss::IDSelectorBitmap> selector;
    faiss::SearchParametersHNSW hnswParams;
    faiss::SearchParametersIVF ivfParams;
    driver::Padding padding;

    std::string about() override {
        std::string s = "faiss " + std::to_string(FAISS_VERSION_MAJOR) + "." + std::to_string(FAISS_VERSION_MINOR) + "." +
                        std::to_string(FAISS_VERSION_PATCH);
        return s + " library=" + PEER_LIBRARY;
    }
    // Finds the parts whose settings can be changed.
    void parts() {
        refine = dynamic_cast<faiss::IndexRefine*>(index.get());
        faiss::Index* inner = refine ? refine->base_index : index.get();
        hnsw = dynamic_cast<faiss::IndexHNSW*>(inner);
        ivf = dynamic_cast<faiss::IndexIVF*>(inner);
        scan = dynamic_cast<faiss::IndexIVFFastScan*>(inner);
    }
    void build(const Rows& base, const Options& o, int threads) override {
        if (base.bytes) throw std::runtime_error("faiss takes float32 rows");
        omp_set_num_threads(threads);
        openblas_set_num_threads(threads);
        padding = driver::Padding(o, base.dim);
        int d = int(padding.wide);
        auto metric = o.text("metric", "l2") == "ip" ? faiss::METRIC_INNER_PRODUCT : faiss::METRIC_L2;
        std::string kind = o.text("kind", "flat");
        auto type = kind == "sq8direct" ? faiss::ScalarQuantizer::QT_8bit_direct : faiss::ScalarQuantizer::QT_8bit;
        if (o.text("index", "") == "hnsw") {
            int m = int(o.number("M", 16));
            faiss::IndexHNSW* h = kind == "flat" ? static_cast<faiss::IndexHNSW*>(new faiss::IndexHNSWFlat(d, m, metric))
                                                 : new faiss::IndexHNSWSQ(d, type, m, metric);
            index.reset(h);
            h->hnsw.efConstruction = int(o.number("efc", 200));
        } else {
            size_t lists = size_t(o.number("nlist", 256));
            auto coarse = new faiss::IndexFlat(d, metric);
            if (kind == "flat") {
                auto i = new faiss::IndexIVFFlat(coarse, d, lists, metric);
                i->own_fields = true;
                index.reset(i);
            } else if (kind == "pqfs") {
                auto i = new faiss::IndexIVFPQFastScan(coarse, d, lists, size_t(o.number("pq", d / 4)), 4, metric);
                i->own_fields = true;
                auto r = new faiss::IndexRefineFlat(i);
                r->own_fields = true;
                index.reset(r);
            } else {
                // Differences from a list's centre are no whole bytes.
                auto i = new faiss::IndexIVFScalarQuantizer(coarse, d, lists, type, metric, kind != "sq8direct");
                i->own_fields = true;
                index.reset(i);
            }
        }
        parts();
        std::vector<float> copy;
        const float* rows = padding.rows(base.floats(0), base.n, copy);
        index->train(long(base.n), rows);
        index->add(long(base.n), rows);
    }
    void save(const std::string& path) override { faiss::write_index(index.get(), path.c_str()); }
    void open(const std::string& path, const Options& o, size_t dim) override {
        padding = driver::Padding(o, dim);
        index.reset(faiss::read_index(path.c_str()));
        parts();
    }
    void set(const Options& o) override {
        if (hnsw) hnsw->hnsw.efSearch = int(o.number("ef", 16));
        if (ivf) ivf->nprobe = size_t(o.number("nprobe", 1));
        if (scan) scan->nprobe = size_t(o.number("nprobe", 1));
        if (refine)
            if (auto flat = dynamic_cast<faiss::IndexRefineFlat*>(refine)) flat->k_factor = float(o.number("refine", 4));
    }
    void filter(const uint8_t* bits, size_t n) override {
        if (!hnsw && !ivf) throw std::runtime_error("searches take no filter");
        selector.reset(bits ? new faiss::IDSelectorBitmap(n, bits) : nullptr);
    }
    // The parameters of a search with a filter; without one, those of the index.
    faiss::SearchParameters* params() {
        if (!selector) return nullptr;
        hnswParams.sel = ivfParams.sel = selector.get();
        if (hnsw) {
            hnswParams.efSearch = hnsw->hnsw.efSearch;
            return &hnswParams;
        }
        ivfParams.nprobe = ivf->nprobe;
        return &ivfParams;
    }
    void search(const void* q, size_t k, uint32_t* ids, int) override {
        thread_local bool alone = false;
        if (!alone) {
            // Each searching thread works alone.
            omp_set_num_threads(1);
            openblas_set_num_threads(1);
            alone = true;
        }
        thread_local std::vector<float> distances;
        thread_local std::vector<faiss::Index::idx_t> rows;
        distances.resize(k);
        rows.resize(k);
        thread_local std::vector<float> copy;
        const float* row = padding.rows(static_cast<const float*>(q), 1, copy);
        index->search(1, row, long(k), distances.data(), rows.data(), params());
        for (size_t i = 0; i < k; i++) ids[i] = rows[i] < 0 ? driver::kMissing : uint32_t(rows[i]);
    }
};

int main(int argc, char** argv) {
    Faiss e;
    return driver::run(e, argc, argv);
}
