# Writes the FAISS files of testdata/moving, into the working folder, by faiss 1.7.3, and rows.f32 by numpy.
import faiss
import numpy as np

np.random.seed(3)
d = 8
x = np.random.randint(0, 100, (20, d)).astype('float32')
x.tofile('rows.f32')


def write(name, index, ids=None):
    index.train(x)
    if ids is None:
        index.add(x)
    else:
        index.add_with_ids(x[:len(ids)], np.array(ids))
    return index, name + '.faiss'


def ivf(lists, metric=faiss.METRIC_L2):
    q = faiss.IndexFlat(d, metric)
    i = faiss.IndexIVFFlat(q, d, lists, metric)
    i.q = q
    return i


ids = np.arange(500, 520)
files = [
    write('l2', faiss.IndexFlatL2(d)), write('ip', faiss.IndexFlatIP(d)), write('l1', faiss.IndexFlat(d, faiss.METRIC_L1)),
    write('ivf', ivf(4), ids), write('ivf-sparse', ivf(16), [7, -1, 2**40]),
    write('ivf-direct', ivf(2)), write('ivf-table', ivf(4, faiss.METRIC_INNER_PRODUCT)),
    write('ids', faiss.IndexIDMap(faiss.IndexFlatL2(d)), ids), write('ids2', faiss.IndexIDMap2(faiss.IndexFlatL2(d)), ids),
    write('hnsw', faiss.IndexHNSWFlat(d, 8)), write('norm', faiss.index_factory(d, 'L2norm,Flat')),
]
files[5][0].make_direct_map()
files[6][0].set_direct_map_type(faiss.DirectMap.Hashtable)
for index, name in files:
    faiss.write_index(index, name)
