package vectors

// Law is the distribution of the rows of a generated set. A row is the centre of a cluster, plus a
// point in the directions of the cluster, plus noise in all coordinates. The fields select what a
// search may rely on: that few coordinates have most of a distance, that clusters are far apart, that
// rows differ.
type Law struct {
	Name string
	// Dim is the number of coordinates; 0 is for GenDim.
	Dim int
	// Clusters is the number of clusters. The size of cluster c is proportional to (c+1)^-Power.
	Clusters int
	Power    float64
	// Common is the number of directions that all centres share; 0 is for centres that share none.
	// Centre is the standard deviation of a centre in the first of these directions, or in each
	// coordinate.
	Common int
	Centre float64
	// Own is the number of directions of each cluster: its intrinsic dimension. Their variances are
	// as 1/(1+j/Fall).
	Own  int
	Fall float64
	// Noise is the standard deviation of the noise in each coordinate.
	Noise float64
	// Tails is the number of degrees of freedom of Student's distribution, by which the offset of a
	// row from its centre is scaled; 0 is for normal rows.
	Tails int
	// Copies is the share of rows that repeat an earlier row of the same cluster.
	Copies float64
	// Inner is the share of rows whose offset is half as long: they are near neighbors of many rows.
	Inner float64
}

// Family holds the laws of the generated sets. Each takes away something that a search may rely on.
var Family = []Law{
	// Few directions have most of the distances, as in embeddings.
	{Name: "generated", Clusters: 256, Power: 0.5, Common: 24, Centre: 2, Own: 24, Fall: 6, Noise: 0.05},
	// Clusters share no directions.
	{Name: "own", Clusters: 2000, Power: 0.8, Centre: 1, Own: 24, Fall: 6, Noise: 0.05},
	// The same in few coordinates, for collections of many rows.
	{Name: "own32", Dim: 32, Clusters: 2000, Power: 0.8, Centre: 1, Own: 16, Fall: 6, Noise: 0.05},
	// And in many, where the rows are most of a file.
	{Name: "own768", Dim: 768, Clusters: 2000, Power: 0.8, Centre: 1, Own: 24, Fall: 6, Noise: 0.05},
	// As many clusters as rows, or a tenth; full dimension within them.
	{Name: "specks", Clusters: 100_000, Power: 0.3, Centre: 1, Noise: 0.3},
	// No clusters, and variances that hardly differ.
	{Name: "cloud", Clusters: 1, Own: 128, Fall: 64, Noise: 0.05},
	// No clusters, and four dimensions.
	{Name: "thin", Clusters: 1, Own: 4, Fall: 8, Noise: 0.01},
	{Name: "tails", Clusters: 200, Power: 0.5, Centre: 0.5, Own: 32, Fall: 8, Noise: 0.05, Tails: 3},
	{Name: "copies", Clusters: 500, Power: 0.8, Centre: 0.5, Own: 16, Fall: 6, Noise: 0.05, Copies: 0.3},
	{Name: "hubs", Clusters: 50, Power: 0.5, Centre: 0.3, Own: 64, Fall: 32, Noise: 0.05, Inner: 0.05},
}

// sizes are the ends of the names of generated sets, by which they differ in rows.
var sizes = []struct {
	name string
	rows int
}{{"10k", 10_000}, {"100k", 100_000}, {"300k", 300_000}, {"1m", 1_000_000}, {"3m", 3_000_000},
	{"10m", 10_000_000}}

// Generated returns the law and the number of rows of a set by its name, such as own-100k.
func Generated(name string) (law *Law, rows int, ok bool) {
	for i := range Family {
		for _, s := range sizes {
			if name == Family[i].Name+"-"+s.name {
				return &Family[i], s.rows, true
			}
		}
	}
	return nil, 0, false
}
