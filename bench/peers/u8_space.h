// Squared Euclidean distance of byte vectors for hnswlib, which has none with
// SIMD of its own: |a - b| in bytes by two saturating subtractions, widened to
// 16 bits by interleaving with zero, squared and added by pairs.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "hnswlib/hnswlib.h"

inline int l2SquaredU8(const void* pa, const void* pb, const void* pdim) {
    const uint8_t* a = static_cast<const uint8_t*>(pa);
    const uint8_t* b = static_cast<const uint8_t*>(pb);
    size_t n = *static_cast<const size_t*>(pdim), i = 0;
    int sum = 0;
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
    const __m512i zero = _mm512_setzero_si512();
    __m512i s0 = zero, s1 = zero;
    for (; i < n; i += 64) {
        __mmask64 m = n - i >= 64 ? ~__mmask64(0) : (__mmask64(1) << (n - i)) - 1;
        __m512i x = _mm512_maskz_loadu_epi8(m, a + i), y = _mm512_maskz_loadu_epi8(m, b + i);
        __m512i d = _mm512_or_si512(_mm512_subs_epu8(x, y), _mm512_subs_epu8(y, x));
        __m512i lo = _mm512_unpacklo_epi8(d, zero), hi = _mm512_unpackhi_epi8(d, zero);
        s0 = _mm512_dpwssd_epi32(s0, lo, lo);
        s1 = _mm512_dpwssd_epi32(s1, hi, hi);
    }
    sum = _mm512_reduce_add_epi32(_mm512_add_epi32(s0, s1));
    i = n;
#elif defined(__AVX2__)
    const __m256i zero = _mm256_setzero_si256();
    __m256i s0 = zero, s1 = zero, s2 = zero, s3 = zero;
    auto step = [&](size_t at, __m256i& p, __m256i& q) {
        __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + at));
        __m256i y = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + at));
        __m256i d = _mm256_or_si256(_mm256_subs_epu8(x, y), _mm256_subs_epu8(y, x));
        __m256i lo = _mm256_unpacklo_epi8(d, zero), hi = _mm256_unpackhi_epi8(d, zero);
        p = _mm256_add_epi32(p, _mm256_madd_epi16(lo, lo));
        q = _mm256_add_epi32(q, _mm256_madd_epi16(hi, hi));
    };
    for (; i + 64 <= n; i += 64) {
        step(i, s0, s1);
        step(i + 32, s2, s3);
    }
    if (i + 32 <= n) {
        step(i, s0, s1);
        i += 32;
    }
    __m256i s = _mm256_add_epi32(_mm256_add_epi32(s0, s1), _mm256_add_epi32(s2, s3));
    __m128i h = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    if (i + 16 <= n) {
        const __m128i z = _mm_setzero_si128();
        __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a + i));
        __m128i y = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + i));
        __m128i d = _mm_or_si128(_mm_subs_epu8(x, y), _mm_subs_epu8(y, x));
        __m128i lo = _mm_unpacklo_epi8(d, z), hi = _mm_unpackhi_epi8(d, z);
        h = _mm_add_epi32(h, _mm_add_epi32(_mm_madd_epi16(lo, lo), _mm_madd_epi16(hi, hi)));
        i += 16;
    }
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    sum = _mm_cvtsi128_si32(h);
#endif
    for (; i < n; i++) {
        int d = int(a[i]) - int(b[i]);
        sum += d * d;
    }
    return sum;
}

// Says whether the SIMD path agrees with the plain sum for all lengths to 300.
inline bool l2SquaredU8Agrees() {
    uint8_t a[300], b[300];
    uint32_t r = 1;
    for (size_t i = 0; i < 300; i++) {
        r = r * 1664525 + 1013904223;
        // Extremes come often, for that is where sums overflow.
        a[i] = r >> 31 ? uint8_t(r >> 8) : 255;
        b[i] = (r >> 30) & 1 ? uint8_t(r >> 16) : 0;
    }
    for (size_t n = 0; n <= 300; n++) {
        int sum = 0;
        for (size_t i = 0; i < n; i++) sum += (int(a[i]) - int(b[i])) * (int(a[i]) - int(b[i]));
        if (l2SquaredU8(a, b, &n) != sum) return false;
    }
    return true;
}

class U8Space : public hnswlib::SpaceInterface<int> {
    size_t dim_;

public:
    explicit U8Space(size_t dim) : dim_(dim) {
        if (!l2SquaredU8Agrees()) throw std::runtime_error("the distance of bytes is wrong on this processor");
    }
    size_t get_data_size() override { return dim_; }
    hnswlib::DISTFUNC<int> get_dist_func() override { return l2SquaredU8; }
    void* get_dist_func_param() override { return &dim_; }
};
