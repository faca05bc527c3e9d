// liblinear as a peer of bench/budget. Frames on standard input, each a letter
// and then numbers in host byte order; the answers go to standard output.
//
//	V   → string: the library's version
//	L   u64 rows, cols; u64 ptr[rows+1]; u32 index[]; f32 value[]
//	    → u64 entries; replaces the matrix
//	T   one model: parameters; u64 n; u32 rows[n]; i8 class[n]; u64 t; u32 test[t]
//	    → f64 CPU seconds of training and of testing; u64 weights that are not
//	      zero; f64 decision values[t], above zero for class +1
//	M   one model a label against the rest: parameters; u64 labels; u64 n;
//	    u32 rows[n]; u64 ptr[labels+1]; u32 positive[] (places in rows); u64 t;
//	    u32 test[t]; u64 k
//	    → f64 CPU seconds of training and of testing; u64 weights; of each
//	      test row u64 count, u32 labels above zero [count], u32 best labels [k]
//
// parameters are u64 solver; f64 C, eps, bias, cost factor of class +1, of −1.
// Strings are u64 length and bytes. T and M answer u64 1 first, or u64 0 and a
// string that says what went wrong. All runs on one thread. The models of M are
// evaluated by liblinear's own predict_values as one model of as many classes,
// which is the layout it is fastest with.
//
//	g++ -O3 -march=native -o DRIVER driver.cpp -llinear
#include <linear.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <string>
#include <vector>

// CPU seconds: the core may be shared with others.
static double worked() {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void readAll(void* to, size_t size) {
    if (size > 0 && fread(to, 1, size, stdin) != size) exit(0);
}

template <class T>
static T get() {
    T v;
    readAll(&v, sizeof v);
    return v;
}

template <class T>
static std::vector<T> list(size_t n) {
    std::vector<T> v(n);
    readAll(v.data(), n * sizeof(T));
    return v;
}

template <class T>
static void put(const T& v) {
    fwrite(&v, sizeof v, 1, stdout);
}

static void putString(const std::string& s) {
    put<uint64_t>(s.size());
    fwrite(s.data(), 1, s.size(), stdout);
}

struct Matrix {
    int cols = 0;
    std::vector<size_t> start;
    std::vector<feature_node> nodes;

    // Every row ends with a place for the bias and the mark -1.
    void load() {
        uint64_t rows = get<uint64_t>();
        cols = int(get<uint64_t>());
        auto ptr = list<uint64_t>(rows + 1);
        auto index = list<uint32_t>(ptr[rows]);
        auto value = list<float>(ptr[rows]);
        start.assign(rows + 1, 0);
        nodes.clear();
        nodes.reserve(ptr[rows] + 2 * rows);
        for (uint64_t i = 0; i < rows; i++) {
            start[i] = nodes.size();
            for (uint64_t e = ptr[i]; e < ptr[i + 1]; e++)
                if (value[e] != 0) nodes.push_back({int(index[e]) + 1, value[e]});
            nodes.push_back({-1, 0});
            nodes.push_back({-1, 0});
        }
        start[rows] = nodes.size();
        put<uint64_t>(ptr[rows]);
    }

    // The bias is a feature behind all others; none if it is negative.
    void setBias(double bias) {
        for (size_t i = 0; i + 1 < start.size(); i++)
            nodes[start[i + 1] - 2] = bias < 0 ? feature_node{-1, 0} : feature_node{cols + 1, bias};
    }
    feature_node* row(size_t i) { return nodes.data() + start[i]; }
};

static Matrix matrix;

struct Settings {
    parameter param{};
    double bias;
    int classes[2] = {1, -1};
    double factors[2];

    static Settings read() {
        Settings s;
        s.param.solver_type = int(get<uint64_t>());
        s.param.C = get<double>();
        s.param.eps = get<double>();
        s.bias = get<double>();
        s.factors[0] = get<double>();
        s.factors[1] = get<double>();
        return s;
    }
};

// Trains and returns the model with the sign that makes class +1 positive.
static model* fit(Settings& s, problem& p, double& sign) {
    s.param.nr_weight = 2;
    s.param.weight_label = s.classes;
    s.param.weight = s.factors;
    if (const char* bad = check_parameter(&p, &s.param)) throw std::string(bad);
    model* m = train(&p, &s.param);
    sign = m->label[0] == 1 ? 1 : -1;
    return m;
}

static problem problemOf(const Settings& s, const std::vector<uint32_t>& rows, std::vector<feature_node*>& x, std::vector<double>& y) {
    matrix.setBias(s.bias);
    x.resize(rows.size());
    for (size_t i = 0; i < rows.size(); i++) x[i] = matrix.row(rows[i]);
    return problem{int(rows.size()), matrix.cols + (s.bias >= 0), y.data(), x.data(), s.bias};
}

static void one() {
    Settings s = Settings::read();
    auto rows = list<uint32_t>(get<uint64_t>());
    auto classes = list<int8_t>(rows.size());
    auto test = list<uint32_t>(get<uint64_t>());
    std::vector<double> y(classes.begin(), classes.end());
    std::vector<feature_node*> x;
    problem p = problemOf(s, rows, x, y);
    double sign;
    double start = worked();
    model* m = fit(s, p, sign);
    double trained = worked() - start;
    uint64_t weights = 0;
    for (int j = 0; j < p.n; j++) weights += m->w[j] != 0;
    std::vector<double> values(test.size());
    start = worked();
    for (size_t i = 0; i < test.size(); i++) predict_values(m, matrix.row(test[i]), &values[i]);
    double tested = worked() - start;
    for (double& v : values) v *= sign;
    put<uint64_t>(1);
    put(trained);
    put(tested);
    put(weights);
    fwrite(values.data(), sizeof(double), values.size(), stdout);
    free_and_destroy_model(&m);
}

static void many() {
    Settings s = Settings::read();
    size_t labels = get<uint64_t>();
    auto rows = list<uint32_t>(get<uint64_t>());
    auto ptr = list<uint64_t>(labels + 1);
    auto positive = list<uint32_t>(ptr[labels]);
    auto test = list<uint32_t>(get<uint64_t>());
    size_t k = get<uint64_t>();
    std::vector<double> y(rows.size(), -1);
    std::vector<feature_node*> x;
    problem p = problemOf(s, rows, x, y);
    std::vector<double> w(size_t(p.n) * labels);
    double trained = 0;
    uint64_t weights = 0;
    for (size_t l = 0; l < labels; l++) {
        size_t count = ptr[l + 1] - ptr[l];
        // A label that no row has, or all, needs no training.
        if (count == 0 || count == rows.size()) {
            if (count > 0 && s.bias > 0) w[size_t(p.n - 1) * labels + l] = 1 / s.bias;
            continue;
        }
        for (size_t e = ptr[l]; e < ptr[l + 1]; e++) y[positive[e]] = 1;
        double sign;
        double start = worked();
        model* m = fit(s, p, sign);
        trained += worked() - start;
        for (int j = 0; j < p.n; j++) {
            w[size_t(j) * labels + l] = sign * m->w[j];
            weights += m->w[j] != 0;
        }
        free_and_destroy_model(&m);
        for (size_t e = ptr[l]; e < ptr[l + 1]; e++) y[positive[e]] = -1;
    }
    std::vector<int> names(labels);
    std::iota(names.begin(), names.end(), 0);
    model all{s.param, int(labels), matrix.cols, w.data(), names.data(), s.bias};
    std::vector<double> values(labels);
    std::vector<std::vector<uint32_t>> sets(test.size()), best(test.size());
    std::vector<uint32_t> order(labels);
    double tested = 0;
    for (size_t i = 0; i < test.size(); i++) {
        double start = worked();
        predict_values(&all, matrix.row(test[i]), values.data());
        for (size_t l = 0; l < labels; l++)
            if (values[l] > 0) sets[i].push_back(uint32_t(l));
        tested += worked() - start;
        std::iota(order.begin(), order.end(), 0);
        std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](uint32_t a, uint32_t b) {
            return values[a] != values[b] ? values[a] > values[b] : a < b;
        });
        best[i].assign(order.begin(), order.begin() + k);
    }
    put<uint64_t>(1);
    put(trained);
    put(tested);
    put(weights);
    for (size_t i = 0; i < test.size(); i++) {
        put<uint64_t>(sets[i].size());
        fwrite(sets[i].data(), 4, sets[i].size(), stdout);
        fwrite(best[i].data(), 4, k, stdout);
    }
}

int main() {
    set_print_string_function([](const char*) {});
    for (;;) {
        char what = get<char>();
        try {
            switch (what) {
            case 'V': putString("liblinear " + std::to_string(liblinear_version / 100) + "." + std::to_string(liblinear_version % 100)); break;
            case 'L': matrix.load(); break;
            case 'T': one(); break;
            case 'M': many(); break;
            default: return 2;
            }
        } catch (const std::string& s) {
            put<uint64_t>(0);
            putString(s);
        }
        fflush(stdout);
    }
}
