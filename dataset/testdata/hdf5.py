# Writes the files that TestH5py reads. Some of them are committed, in testdata/hdf5.
import h5py, numpy as np, os

a = np.arange(40 * 6).reshape(40, 6) - 120

def new(name, **kw):
    f = h5py.File(f'{name}.h5', 'w', **kw)
    f.attrs['distance'] = 'angular'
    f.attrs['dimension'] = 6
    return f

for t in ['f2', 'f4', 'f8', 'i1', 'i2', 'i4', 'i8', '>f2', '>f4', '>f8', '>i2', '>i4', '>i8', '<f4']:
    with new('type-' + t.replace('>', 'big-')) as f:
        f['x'] = a.astype(t)
for t in ['u1', 'u2', 'u4', 'u8', '>u2', '>u4', '>u8']:
    with new('type-unsigned' + t.replace('>', 'big-')) as f:
        f['x'] = (a + 120).astype(t)
with new('ann') as f:
    f['train'] = a.astype('f4')
    f['test'] = a[:5].astype('f4') * 2
    f['neighbors'] = a[:5].astype('i4')
    f['distances'] = a[:5].astype('f4')
for name, kw in {
    'gzip': dict(chunks=(7, 4), compression='gzip'),
    'all': dict(chunks=(7, 4), compression='gzip', shuffle=True),
    'shuffle': dict(chunks=(8, 6), shuffle=True),
    'plain': dict(chunks=(3, 6)),
    'one': dict(chunks=(40, 6)),
    'onegzip': dict(chunks=(64, 8), maxshape=(64, 8), compression='gzip'),
    'wider': dict(chunks=(7, 4), maxshape=(100, 20), compression='gzip'),
    'grow': dict(chunks=(7, 4), maxshape=(None, 6), compression='gzip'),
    'growplain': dict(chunks=(1, 6), maxshape=(None, 6)),
    'grow2': dict(chunks=(1, 2), maxshape=(None, None)),
    'auto': dict(compression='gzip', compression_opts=9),
}.items():
    with new(name) as f:
        f.create_dataset('g/h/x', data=a.astype('f4'), **kw)
with new('images') as f:
    f.create_dataset('x', data=a.reshape(40, 3, 2).astype('i2'), chunks=(9, 2, 2), compression='gzip')
# Indexes of chunks of several levels, groups of many links.
wide = np.arange(20000 * 2).reshape(20000, 2).astype('f4')
with new('many') as f:
    f.create_dataset('x', data=wide, chunks=(1, 2))
with new('manygzip') as f:
    f.create_dataset('x', data=wide, chunks=(2, 2), maxshape=(None, 2), compression='gzip')
with new('few') as f:
    f.create_dataset('x', data=wide[:1100], chunks=(1, 2))
for name, n, text in [('links', 12, ''), ('links400', 400, ''), ('longlinks', 4000, 250 * '-')]:
    with new(name) as f:
        f['x'], f['number'] = a.astype('f4'), 3.5
        for i in range(n):
            f[f'link {i}{text}'] = h5py.SoftLink('/none') if i % 3 else f['number']
with new('deep') as f:
    f.create_dataset('/'.join('abcdefgh') + '/x', data=a.astype('f4'))
with new('others') as f:
    f['x'] = a.astype('f4')
    f['names'] = ['a', 'b']
    f['flag'] = np.array([True, False])
    f['number'] = 3.5
    f['complex'] = a.astype('c8')
    f['soft'] = h5py.SoftLink('/x')
    f.create_group('empty')
# What cannot be read, next to what can: those of testdata/hdf5/other.
os.mkdir('other')
with h5py.File('other/beside.h5', 'w') as f:
    f['emb'] = a.astype('f4')
    f['names'] = np.array([b'ab'] * 40)
    f['tags'] = np.array([[b'a', b'b']] * 40)
    f['texts'] = ['a'] * 40
    f['structs'] = np.zeros(40, [('a', 'f4'), ('b', 'i4')])
    f['colors'] = np.zeros(40, h5py.enum_dtype({'red': 0, 'green': 1, 'blue': 2}, 'i1'))
    f.create_dataset('lists', (40,), h5py.vlen_dtype('i4'))[0] = [1, 2]
    f['committed'] = np.dtype('f4')
    f['soft'] = h5py.SoftLink('/emb')
    f['dangling'] = h5py.SoftLink('none')
    f.create_group('ordered', track_order=True)['x'] = a
    p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    p.set_layout(h5py.h5d.COMPACT)
    s = h5py.h5s.create_simple((40, 6))
    h5py.h5d.create(f.id, b'compact', h5py.h5t.NATIVE_FLOAT, s, p).write(s, s, a.astype('f4'))
    f.create_dataset('sums', data=a.astype('f4'), chunks=(7, 4), fletcher32=True)
for name, train, test, kw in [
    ('lzf', 'train', 'test', dict(compression='lzf')), ('offset', 'emb', 'neighbors', dict(scaleoffset=0)),
    ('test', 'test', 'train', dict(compression='lzf')), ('bool', 'x', None, {}),
]:
    with h5py.File(f'other/{name}.h5', 'w') as f:
        f.create_dataset(train, data=a.astype('i4') if name != 'bool' else a % 2 == 1, **kw)
        if test:
            f[test] = a[:5].astype('i4')
with h5py.File('other/link.h5', 'w') as f:
    f['test'], f['train'] = a.astype('f4'), h5py.ExternalLink('more.h5', '/train')
with h5py.File('other/latest.h5', 'w', libver='latest') as f:
    f['x'] = a.astype('f4')
with h5py.File('other/user.h5', 'w', userblock_size=512) as f:
    f['x'] = a.astype('f4')
with h5py.File('other/sets.h5', 'w') as f:
    f.attrs['distance'] = 'jaccard'
    f['train'], f['size_train'] = np.array([5, 1, 2, 7, 7, 3], 'i4'), np.array([3, 0, 2, 1])
    f['test'], f['size_test'] = np.array([1], 'i4'), np.array([1])
with h5py.File('other/shared.h5', 'w') as f:
    f['type'] = np.dtype('f4')
    f['test'] = a.astype('f4')
    f.create_dataset('train', data=a.astype('f4'), dtype=f['type'])
