package hostile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
)

// pair is a key and value of a bucket.
type pair struct {
	bucket     string
	key, value []byte
}

// mutator changes a file.
type mutator struct {
	rng   *rand.Rand
	pairs []pair
	blob  []int // places in pairs of blocks, by importance: see weigh
	kinds map[codec.Kind]bool
	names bool // an entry of a dictionary of features was changed
}

// Mutant is what was changed in a file.
type Mutant struct {
	What  string              // in words
	Kinds map[codec.Kind]bool // of the blocks that were written or removed
	Names bool                // an entry of a dictionary of features was changed
}

// Mutate changes a few things in the file at path, as the random numbers say.
func Mutate(path string, rng *rand.Rand) (out Mutant, err error) {
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	err = b.Update(func(tx *bbolt.Tx) error {
		m := &mutator{rng: rng, kinds: map[codec.Kind]bool{}}
		if err := m.read(tx); err != nil {
			return err
		}
		for i := range 1 + rng.IntN(3)*rng.IntN(2) {
			if i > 0 {
				out.What += "; "
			}
			out.What += m.change(tx)
		}
		out.Kinds, out.Names = m.kinds, m.names
		return nil
	})
	return out, err
}

// read lists what there is.
func (m *mutator) read(tx *bbolt.Tx) error {
	err := tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		return b.ForEach(func(k, v []byte) error {
			m.pairs = append(m.pairs, pair{string(name), bytes.Clone(k), bytes.Clone(v)})
			return nil
		})
	})
	for i, p := range m.pairs {
		if _, err := codec.Parse(p.value); err != nil {
			continue
		}
		_, kind, _ := codec.ParseKey(p.key)
		n := 4
		switch kind {
		case codec.KindCatalog:
			n = 40
		case codec.KindManifest:
			n = 30
		case codec.KindTail, codec.KindGeneric:
			n = 1
		}
		for range n {
			m.blob = append(m.blob, i)
		}
	}
	return err
}

// change makes one change.
func (m *mutator) change(tx *bbolt.Tx) string {
	if m.rng.IntN(12) == 0 {
		return m.entry(tx)
	}
	p := m.pairs[m.blob[m.rng.IntN(len(m.blob))]]
	block, err := codec.Parse(p.value)
	if err != nil {
		return "nothing"
	}
	what := fmt.Sprintf("%s %v", p.bucket, place(p.key))
	data, err := block.Data(codec.MaxRaw)
	if err != nil {
		return "nothing"
	}
	data, h := bytes.Clone(data), block.Header
	how := ""
	switch r := m.rng.IntN(20); {
	case r == 0:
		m.touch(p.key)
		_ = tx.Bucket([]byte(p.bucket)).Delete(p.key)
		return what + ": removed"
	case r == 1:
		at := m.otherKey(p.key)
		value, how := m.seal(at, h, data)
		m.put(tx, p.bucket, at, value)
		return fmt.Sprintf("%s: copied to %v %s", what, place(at), how)
	case r == 2:
		other := m.pairs[m.blob[m.rng.IntN(len(m.blob))]]
		if o, err := codec.Parse(other.value); err == nil {
			data, how = bytes.Clone(o.Payload), fmt.Sprintf("has the payload of %v", place(other.key))
		}
	case r == 3:
		h.Rows, h.Cols, h.Elem = m.number(h.Rows), uint32(m.number(uint64(h.Cols))), codec.Elem(m.rng.IntN(8))
		how = "another header"
	case json.Valid(data) && len(data) > 2:
		data, how = m.json(data)
	default:
		data, how = m.array(data, max(1, h.Elem.Size()))
	}
	value, forged := m.seal(p.key, h, data)
	m.put(tx, p.bucket, p.key, value)
	if _, kind, _ := codec.ParseKey(p.key); kind == codec.KindManifest {
		m.put(tx, "blocks", p.key, value)
	}
	return fmt.Sprintf("%s: %s %s", what, how, forged)
}

// touch notes that the block of a key was written or removed.
func (m *mutator) touch(key []byte) {
	_, kind, _ := codec.ParseKey(key)
	m.kinds[kind] = true
}

func (m *mutator) put(tx *bbolt.Tx, bucket string, key, value []byte) {
	m.touch(key)
	// A key that bbolt refuses is no mutant.
	_ = tx.Bucket([]byte(bucket)).Put(key, value)
}

func place(key []byte) string {
	object, kind, chunk := codec.ParseKey(key)
	return fmt.Sprintf("%d/%v/%d", object, kind, chunk)
}

// otherKey is a key near to one, or far from it.
func (m *mutator) otherKey(key []byte) []byte {
	object, kind, chunk := codec.ParseKey(key)
	switch m.rng.IntN(4) {
	case 0:
		object ^= 1 << (63 - m.rng.IntN(3))
	case 1:
		object = uint64(1 + m.rng.IntN(20))
	case 2:
		kind = codec.Kind(m.rng.IntN(int(codec.KindCenters) + 2)) // and one that does not exist
	default:
		chunk = uint32(m.number(uint64(chunk)))
	}
	k := codec.Key(object, kind, chunk)
	return k[:]
}

// seal makes a block of a payload, whose checksum is right. Now and then it is
// compressed, whatever its kind, and then it may be very long.
func (m *mutator) seal(key []byte, h codec.Header, data []byte) (value []byte, how string) {
	compressed := h.Flags&codec.FlagZstd != 0
	if m.rng.IntN(25) == 0 {
		compressed = !compressed
		if compressed && m.rng.IntN(2) == 0 && len(data) > 0 {
			data = bytes.Repeat(data, max(1, (32<<20)/len(data)))
			how = "long, "
		}
		how += fmt.Sprintf("compressed %v", compressed)
	}
	if !compressed {
		return codec.Encode(key, h, data), how
	}
	value, err := codec.EncodeCompressed(key, codec.Header{Kind: codec.KindCold, Elem: h.Elem, Rows: h.Rows, Cols: h.Cols}, data)
	if err != nil {
		return codec.Encode(key, h, data), err.Error()
	}
	binary.LittleEndian.PutUint16(value[6:], uint16(h.Kind))
	return resum(key, value), how
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// resum makes the checksum of a block right.
func resum(key, value []byte) []byte {
	stored := binary.LittleEndian.Uint64(value[32:])
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value[:48])
	sum = crc32.Update(sum, castagnoli, value[codec.HeaderSize:codec.HeaderSize+stored])
	binary.LittleEndian.PutUint32(value[48:], sum)
	return value
}

// number is another number, near to one or at a border.
func (m *mutator) number(n uint64) uint64 {
	borders := []uint64{0, 1, 2, 63, 64, 255, 256, 4095, 1 << 16, 1<<16 - 1, 1 << 20, 1 << 24, 1<<26 + 1, 1<<28 - 1,
		1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 40, 1 << 61, 1<<62 - 1, 1 << 63, 1<<64 - 1}
	switch m.rng.IntN(5) {
	case 0:
		return n + 1
	case 1:
		return n - 1
	case 2:
		return n * 2
	case 3:
		return n ^ 1<<m.rng.IntN(64)
	}
	return borders[m.rng.IntN(len(borders))]
}

// array changes elements of an array, or its length.
func (m *mutator) array(data []byte, size int) ([]byte, string) {
	n := len(data) / size
	if m.rng.IntN(6) == 0 {
		to := int(m.number(uint64(n)) % uint64(2*n+3))
		if to < n {
			return data[:to*size], fmt.Sprintf("%d of %d elements", to, n)
		}
		return append(data, make([]byte, (to-n)*size)...), fmt.Sprintf("%d elements, not %d", to, n)
	}
	if n == 0 {
		return append(data, byte(m.rng.Uint32())), "a byte more"
	}
	// Offsets and counts are u32 or u64 in payloads of bytes as well.
	if size == 1 && m.rng.IntN(2) == 0 && len(data) >= 8 {
		size = 4
		n = len(data) / size
	}
	times := 1
	if m.rng.IntN(3) == 0 {
		times = 1 + m.rng.IntN(8)
	}
	how := ""
	for range times {
		i := m.rng.IntN(n)
		if m.rng.IntN(3) == 0 {
			i = []int{0, n - 1, n / 2}[m.rng.IntN(3)]
		}
		to := data[i*size : (i+1)*size]
		var x [8]byte
		copy(x[:], to)
		old := binary.LittleEndian.Uint64(x[:])
		now := m.number(old)
		if m.rng.IntN(6) == 0 {
			now = uint64(math.Float32bits([]float32{float32(math.NaN()), float32(math.Inf(1)), -1, 0, 1e30, -1e-30}[m.rng.IntN(6)]))
		}
		binary.LittleEndian.PutUint64(x[:], now)
		copy(to, x[:])
		how = fmt.Sprintf("element %d of %d from %d to %d", i, n, old, now)
	}
	if times > 1 {
		how = fmt.Sprintf("%d elements, %s", times, how)
	}
	return data, how
}

// entry changes an entry of a dictionary: its checksum is right.
func (m *mutator) entry(tx *bbolt.Tx) string {
	var all []pair
	for _, p := range m.pairs {
		if p.bucket == "keys" || p.bucket == "labels" || p.bucket == "features" {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return "nothing"
	}
	p := all[m.rng.IntN(len(all))]
	b := tx.Bucket([]byte(p.bucket))
	m.names = m.names || p.bucket == "features"
	if m.rng.IntN(5) == 0 {
		_ = b.Delete(p.key)
		return fmt.Sprintf("%s %q: removed", p.bucket, p.key)
	}
	old, ok := entryNumber(p)
	if !ok { // that of a feature's number
		_ = b.Put(p.key, append(p.value, 'x'))
		return fmt.Sprintf("%s %q: longer", p.bucket, p.key)
	}
	n := m.number(old)
	if other, ok := entryNumber(all[m.rng.IntN(len(all))]); ok && m.rng.IntN(2) == 0 {
		n = other
	}
	if m.rng.IntN(6) == 0 { // another name for the number
		p.key = append(p.key[:len(p.key):len(p.key)], 'x')
		n = old
	}
	_ = b.Put(p.key, entryValue(p.bucket, p.key, n))
	return fmt.Sprintf("%s %q: number %d, was %d", p.bucket, p.key, n, old)
}

// entryValue is the value of an entry: a checksum, and the number without leading zeros.
func entryValue(bucket string, key []byte, n uint64) []byte {
	number := bytes.TrimLeft(binary.BigEndian.AppendUint64(nil, n), "\x00")
	sum := crc32.Update(crc32.Checksum([]byte(bucket), castagnoli), castagnoli, key)
	return append(binary.BigEndian.AppendUint32(nil, crc32.Update(sum, castagnoli, number)), number...)
}

// entryNumber is the number of an entry; ok reports whether it is one that the database reads.
func entryNumber(p pair) (n uint64, ok bool) {
	if len(p.value) < 4 || len(p.value) > 12 {
		return 0, false
	}
	for _, b := range p.value[4:] {
		n = n<<8 | uint64(b)
	}
	return n, bytes.Equal(p.value, entryValue(p.bucket, p.key, n))
}

// node is a value in a JSON text, and where it is.
type node struct {
	path string
	get  func() any
	set  func(any)
}

// json changes a value of a JSON text.
func (m *mutator) json(data []byte) ([]byte, string) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var root any
	if err := d.Decode(&root); err != nil {
		return data, "nothing"
	}
	var nodes []node
	collect("", &root, &nodes)
	if len(nodes) == 0 {
		return data, "nothing"
	}
	how := ""
	if m.rng.IntN(3) == 0 {
		how = m.structure(root)
	}
	if how == "" {
		x := nodes[m.rng.IntN(len(nodes))]
		now := m.value(x.get(), nodes)
		x.set(now)
		if list, ok := now.([]any); ok { // its text may be long
			how = fmt.Sprintf("%s is of %d elements", x.path, len(list))
		} else {
			how = fmt.Sprintf("%s is %.60s", x.path, fmt.Sprint(now))
		}
	}
	out, err := json.Marshal(root)
	if err != nil {
		return data, "nothing"
	}
	return out, how
}

// collect lists the values below one.
func collect(path string, at *any, out *[]node) {
	switch v := (*at).(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			child := v[k]
			*out = append(*out, node{path + "." + k, func() any { return v[k] }, func(x any) { v[k] = x }})
			collect(path+"."+k, &child, out)
		}
	case []any:
		for i := range v {
			name := fmt.Sprintf("%s[%d]", path, i)
			*out = append(*out, node{name, func() any { return v[i] }, func(x any) { v[i] = x }})
			collect(name, &v[i], out)
		}
	}
}

// copied is a copy of a value: the value itself could contain the place that it is put into.
func copied(x any) any {
	switch v := x.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = copied(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = copied(e)
		}
		return out
	}
	return x
}

// value is another value in the place of one.
func (m *mutator) value(old any, nodes []node) any {
	if m.rng.IntN(12) == 0 {
		return copied(nodes[m.rng.IntN(len(nodes))].get())
	}
	switch v := old.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return json.Number(fmt.Sprint(int64(m.number(uint64(n)))))
		}
		return []any{json.Number("1e308"), json.Number("-1"), json.Number("0"), json.Number("1e-320")}[m.rng.IntN(4)]
	case bool:
		return !v
	case string:
		return []any{"", v + "x", "flat", string(make([]byte, 300)), "\x1b[31m"}[m.rng.IntN(5)]
	case []any:
		switch m.rng.IntN(4) {
		case 0:
			return []any{}
		case 1:
			return nil
		case 2:
			return append(slices.Clone(v), v...)
		}
		out := slices.Clone(v)
		for len(v) > 0 && len(out) < 20_000 {
			out = append(out, v...)
		}
		return out
	case map[string]any:
		if m.rng.IntN(2) == 0 {
			return nil
		}
		return map[string]any{}
	}
	return []any{json.Number("1"), "x", []any{}, map[string]any{}}[m.rng.IntN(4)]
}
