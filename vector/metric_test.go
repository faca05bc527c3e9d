package vector

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

func TestParseMetric(t *testing.T) {
	for m, name := range map[Metric]string{L2: "l2", Cosine: "cosine", InnerProduct: "ip"} {
		if got := m.String(); got != name {
			t.Errorf("String: %q, want %q", got, name)
		}
		if got, err := ParseMetric(name); got != m || err != nil {
			t.Errorf("ParseMetric(%q): %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "L2", "metric(0)", "euclidean"} {
		if _, err := ParseMetric(name); !errors.Is(err, ErrMetric) {
			t.Errorf("ParseMetric(%q): %v, want ErrMetric", name, err)
		}
	}
	if got := Metric(0).String(); got != "metric(0)" {
		t.Errorf("String of no metric: %q", got)
	}
}

// TestMetricNumbers checks the numbers that are stored in files.
func TestMetricNumbers(t *testing.T) {
	if L2 != 1 || Cosine != 2 || InnerProduct != 3 {
		t.Error(L2, Cosine, InnerProduct)
	}
}

func TestKernelCosineDistance(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name string
		a, b []float32
		want float32
	}{
		{"right angle", []float32{1, 0}, []float32{0, 3}, 1},
		{"opposite", []float32{1, 2}, []float32{-1, -2}, 2},
		{"same direction", []float32{0, 2, 0}, []float32{0, 5, 0}, 0},
		{"sixty degrees", []float32{1, 1, 0}, []float32{0, 1, 1}, 0.5},
		{"zero vector", []float32{0, 0}, []float32{1, 1}, 1},
		{"squared norm of zero", []float32{1e-30}, []float32{1e-30}, 1},
		{"empty", nil, []float32{1}, 1},
		{"shorter length", []float32{1, 2, 9}, []float32{1, 2}, 0},
		{"NaN", []float32{1, nan}, []float32{1, 2}, nan},
		{"infinite", []float32{1, inf}, []float32{1, 2}, nan},
		{"overflow", []float32{1e30}, []float32{1e30}, nan},
	} {
		got := CosineDistance(c.a, c.b)
		if !(math.Abs(float64(got-c.want)) < 1e-6) && (got == got || c.want == c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(21, 22))
		for n := 1; n <= maxLen(); n++ {
			a, b := make([]float32, n), make([]float32, n)
			for i := range a {
				a[i], b[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
			}
			if d := CosineDistance(a, a); d != 0 {
				t.Fatalf("of %d elements with itself: %v", n, d)
			}
			dot, size := exact(false, a, b)
			na, _ := exact(false, a, a)
			nb, _ := exact(false, b, b)
			norm := math.Sqrt(na * nb)
			// The bound of the product, and that of the norms on a cosine of at
			// most 1, then one rounding of a distance of at most 2.
			limit := bound(n, size)/norm + float64(4*n)*0x1p-24 + 0x1p-23
			if d := float64(CosineDistance(a, b)); !(math.Abs(d-(1-dot/norm)) <= limit) || d < 0 || d > 2 {
				t.Fatalf("of %d elements: %v, want %v", n, d, 1-dot/norm)
			}
		}
	})
}

func TestInverseNorm(t *testing.T) {
	for _, c := range []struct {
		x    []float32
		want float32
	}{
		{nil, 0}, {[]float32{0, 0}, 0}, {[]float32{3, 4}, 0.2}, {[]float32{-2}, 0.5}, {[]float32{1e-30}, 1e30},
	} {
		if got := InverseNorm(c.x); got != c.want {
			t.Errorf("%v: %g, want %g", c.x, got, c.want)
		}
	}
}
