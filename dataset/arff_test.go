package dataset

import (
	"errors"
	"testing"
)

// TestWekaRows: rows as Weka and MOA write and read them.
func TestWekaRows(t *testing.T) {
	head := "@relation w\n@attribute a numeric\n@attribute b {'p q', r}\n@attribute class {x,y}\n@data\n"
	want := []Record{record("0", "x", 0, 1, 1, 1), record("1", "y", 0, 3, 2, 1)}
	for name, rows := range map[string]string{
		"commas": "1,'p q',x\n3,r,y\n", "tabs": "1\t'p q'\tx\n3\tr\ty\n", "blanks": "1 'p q'  x\n3 r y\r\n",
		"both": "1 ,\t'p q' , x\n 3,\t\tr,y % note\n", "a comma at the end": "1,'p q',x,\n3,r,y , \n",
		"sparse": "{0 1, 2 x}\n{0\t3,1 r,2 y}\n", "sparse, a comma at the end": "{0 1,}\n{0 3,1 r,2 y , }\n",
		"sparse, blanks": "{0 1 1 'p q'}\n{0 3 1 r 2 y}\n",
	} {
		got, err := load(t, "x.arff", []byte(head+rows), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		compare(t, got, want)
	}
}

// TestMissingValues: a question mark is left out, unless a dense row needs a number.
func TestMissingValues(t *testing.T) {
	head := "@relation m\n@attribute a numeric\n@attribute b {5,6}\n@attribute c {p,q}\n@attribute class {x,y}\n@data\n"
	compare(t, mustLoad(t, "x.arff", []byte(head+"1,5,?,x\n1,5,q,?\n{0 ?,1 ?,2 ?,3 ?}\n"), Options{}),
		[]Record{record("0", "x", 0, 1, 1, 5), record("1", "", 0, 1, 1, 5, 3, 1), record("2", "")})
	for _, row := range []string{"?,5,p,x\n", "1,?,p,x\n"} {
		_, err := load(t, "x.arff", []byte(head+row), Options{})
		if wantFormatError(t, err); !errors.Is(err, ErrMissing) {
			t.Errorf("%q: %v", row, err)
		}
	}
	meka := "@relation 'm: -C -1'\n@attribute a numeric\n@attribute l {0,1}\n@data\n1,?\n2,1\n{0 3,1 ?}\n"
	compare(t, mustLoad(t, "x.arff", []byte(meka), Options{}),
		[]Record{record("0", "", 0, 1), record("1", "l", 0, 2), record("2", "", 0, 3)})
}

// TestLastAttribute: the last attribute is the class if it is nominal and the file names no labels.
func TestLastAttribute(t *testing.T) {
	file := []byte("@relation w\n@attribute s {0,1}\n@attribute a numeric\n@attribute play {yes,no}\n@data\n1,2,yes\n0,3,no\n")
	compare(t, mustLoad(t, "x.arff", file, Options{}),
		[]Record{record("0", "yes", 0, 1, 1, 2), record("1", "no", 1, 3)})
	compare(t, mustLoad(t, "x.arff", file, Options{NoLabels: true}),
		[]Record{record("0", "", 0, 1, 1, 2, 2, 1), record("1", "", 1, 3, 3, 1)})
}
