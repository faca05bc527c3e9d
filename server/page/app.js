// The page of a server: collections and their shape, searches, predictions, a map. All it shows comes from
// the HTTP interface of the same server; texts of rows are set as text, never as HTML.
'use strict';

const find = (id) => document.getElementById(id);
const canvas = find('map').querySelector('canvas');
const state = {file: '', collection: null, indexes: [], places: [], colors: new Map(), asked: 0, pictures: null};

// make returns an element with properties and children; null children are left out.
function make(tag, properties, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name.includes('-') || name === 'role' || name === 'scope') {
      e.setAttribute(name, value);
    } else {
      e[name] = value;
    }
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

const grouped = (n) => n.toLocaleString('en');
const short = (text, most) => text.length > most ? text.slice(0, most) + '…' : text;
const digits = (x) => Number(x.toPrecision(4)).toString();

function size(bytes) {
  let unit = 0;
  for (; bytes >= 1024 && unit < 4; unit++) {
    bytes /= 1024;
  }
  return `${unit ? bytes.toFixed(1) : bytes} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit]}`;
}

// ask sends a request and returns the response. It fails with the message of the server.
async function ask(method, path, body) {
  const headers = {};
  const token = sessionStorage.getItem('token');
  if (token) {
    headers.Authorization = 'Bearer ' + token;
  }
  if (body !== undefined) {
    headers['Content-Type'] = 'application/json';
    body = JSON.stringify(body);
  }
  const answer = await fetch(path, {method, headers, body});
  if (answer.status === 401) {
    find('token-form').hidden = false;
    find('token').focus();
  }
  if (!answer.ok) {
    const failure = await answer.json().catch(() => null);
    const text = failure?.error?.message || `the server answered ${answer.status}`;
    throw Object.assign(new Error(text), {code: failure?.error?.code});
  }
  return answer;
}

const get = async (path) => (await ask('GET', path)).json();
const of = (name) => encodeURIComponent(name).replaceAll('.', '%2E');
const path = (rest) => `/v1/files/${of(state.file)}/collections/${of(state.collection.name)}${rest}`;

// attempt calls f and shows its error.
async function attempt(f) {
  find('message').textContent = '';
  try {
    await f();
  } catch (err) {
    find('message').textContent = err.message;
  }
}

async function openPage() {
  const {files} = await get('/v1/files');
  find('token-form').hidden = true;
  const select = find('files');
  select.replaceChildren(...files.map((name) => make('option', {value: name}, name)));
  find('files-label').hidden = files.length < 2;
  const [file, collection] = location.hash.slice(1).split('/').map(decodeURIComponent);
  select.value = files.includes(file) ? file : files[0];
  await openFile(collection);
}

async function openFile(wanted) {
  state.file = find('files').value;
  const stats = await get(`/v1/files/${of(state.file)}`);
  const list = stats.collections;
  find('foot').textContent = `${state.file}: ${size(stats.file_bytes)}, state ${stats.generation}, ` +
    `${grouped(stats.totals.searches)} searches and ${grouped(stats.totals.commits)} commits since it was opened` +
    (stats.running ?? []).map((r) => `; ${r.call}: ${r.stage} ${grouped(r.done)}${r.total ? ` of ${grouped(r.total)}` : ''}`).join('');
  find('collections').replaceChildren(...list.map((c) => make('button', {
    type: 'button', onclick: () => attempt(() => openCollection(c.name)), 'aria-current': false,
  }, c.name)));
  if (list.length === 0) {
    throw new Error('the file has no collection');
  }
  await openCollection(list.some((c) => c.name === wanted) ? wanted : list[0].name);
}

async function openCollection(name) {
  const base = `/v1/files/${of(state.file)}/collections/${of(name)}`;
  const [collection, {indexes}] = await Promise.all([get(base), get(base + '/indexes')]);
  Object.assign(state, {collection, indexes, places: [], pointed: null, pictures: null});
  history.replaceState(null, '', `#${encodeURIComponent(state.file)}/${encodeURIComponent(name)}`);
  document.title = `${name} – anndb`;
  for (const b of find('collections').children) {
    b.setAttribute('aria-current', b.textContent === name);
  }
  find('main').hidden = false;
  find('ask').reset();
  find('hits').replaceChildren();
  find('plan').textContent = '';
  showShape();
  showForm();
  await Promise.all([showRows(), showCurve(), showMap()]);
}

function showShape() {
  const c = state.collection;
  const parts = [`${grouped(c.rows)} rows`];
  if (c.dim) {
    parts.push(`vectors of ${c.dim} coordinates, ${c.metric || 'l2'}`);
  }
  if (c.text) {
    parts.push(`texts, analyzer ${c.text.analyzer || 'words'}`);
  } else if (c.sparse || c.named) {
    parts.push(`${grouped(c.features || 0)} features, ${c.named ? 'named' : 'numbered'}`);
  }
  if (c.attributes) {
    parts.push(`attributes ${c.attributes.join(', ')}`);
  }
  find('name').textContent = c.name;
  find('facts').textContent = parts.join(' · ');
  const labels = Object.entries(c.labels || {}).sort((a, b) => b[1] - a[1]);
  find('labels').replaceChildren(
    ...labels.slice(0, 20).map(([label, n]) => make('button', {
      type: 'button', className: 'chip', title: 'search among rows with this label',
      onclick: () => {
        find('ask').where.value = `label = ${JSON.stringify(label)}`;
        find('ask').where.focus();
      },
    }, `${label} `, make('span', {className: 'muted'}, grouped(n)))),
    labels.length > 20 ? `and ${grouped(labels.length - 20)} more labels` : '');
  const columns = ['Name', 'Kind', 'Rows', 'Fresh', 'Size', 'State'];
  const numbers = ['Rows', 'Fresh', 'Size'];
  const cell = (tag, name, value) => make(tag, {className: numbers.includes(name) ? 'number' : ''}, value);
  find('indexes').replaceChildren(state.indexes.length === 0 ?
    make('tr', null, make('td', null, 'No index: searches compare all rows.')) :
    make('tr', null, ...columns.map((name) => cell('th', name, name))),
    ...state.indexes.map((x) => make('tr', null, ...[
      x.name + (x.default ? ' (default)' : ''), x.kind, grouped(x.rows), grouped(x.fresh),
      size(Object.values(x.bytes || {}).reduce((a, b) => a + b, 0)), x.error || 'good',
    ].map((value, i) => cell('td', columns[i], value)))));
}

function showForm() {
  const c = state.collection;
  const form = find('ask');
  const finders = state.indexes.filter((x) => !x.predicts);
  const models = state.indexes.filter((x) => x.predicts);
  const has = {
    text: Boolean(c.text), vector: Boolean(c.dim), features: (c.sparse || c.named) && !c.text,
    index: finders.length > 0,
  };
  for (const e of form.querySelectorAll('[data-for]')) {
    e.hidden = !has[e.dataset.for];
  }
  const options = (list) => list.map((x) => make('option', {value: x.name}, x.name));
  form.index.replaceChildren(make('option', {value: ''}, 'default'), ...options(finders),
    make('option', {value: 'flat'}, 'exact scan'));
  form.model.replaceChildren(...options(models));
  form.model.value = models.find((x) => x.default)?.name ?? models[0]?.name ?? '';
  find('predict').hidden = models.length === 0;
  find('models').hidden = models.length < 2;
}

// query returns the query of the form.
function query() {
  const form = find('ask');
  const c = state.collection;
  const q = {};
  if (c.text && form.text.value.trim()) {
    q.text = form.text.value;
  }
  if (c.dim && form.vector.value.trim()) {
    q.vector = form.vector.value.replace(/[[\]]/g, ' ').trim().split(/[\s,;]+/).map(Number);
    if (q.vector.some(Number.isNaN)) {
      throw new Error('the vector has something that is no number');
    }
  }
  if (!c.text && (c.sparse || c.named) && form.features.value.trim()) {
    q.features = features(form.features.value, c.named);
  }
  if (form.key.value) {
    q.key = form.key.value;
  }
  if (Object.keys(q).length === 0) {
    throw new Error('fill in what to search for');
  }
  return q;
}

// features reads name=value, with commas or lines; a value left out is 1.
function features(text, named) {
  const pairs = text.split(/[,\n]/).map((s) => s.trim()).filter(Boolean).map((item) => {
    const at = item.lastIndexOf('=');
    const pair = at < 0 ? [item, 1] : [item.slice(0, at).trim(), Number(item.slice(at + 1))];
    if (Number.isNaN(pair[1]) || !named && !/^\d+$/.test(pair[0])) {
      throw new Error(`${item} is no feature: want ${named ? 'name' : 'number'}=value`);
    }
    return pair;
  });
  if (named) {
    return Object.fromEntries(pairs);
  }
  pairs.sort((a, b) => a[0] - b[0]);
  return {indices: pairs.map((p) => Number(p[0])), values: pairs.map((p) => p[1])};
}

// timed sends the form, and reports how long that took unless another one was sent in between.
async function timed(what, body) {
  const turn = ++state.asked;
  const buttons = [find('search'), find('predict')];
  buttons.forEach((b) => { b.disabled = true; });
  const begin = performance.now();
  try {
    const answer = await (await ask('POST', path(what), body)).json();
    return turn === state.asked ? [answer, performance.now() - begin] : [null, 0];
  } finally {
    buttons.forEach((b) => { b.disabled = false; });
  }
}

async function search() {
  const form = find('ask');
  const body = {
    ...query(), k: Number(form.k.value) || 10, include: ['labels', 'text', 'attributes', 'payload'], stats: true,
  };
  for (const name of ['where', 'index']) {
    if (form[name].value.trim()) {
      body[name] = form[name].value;
    }
  }
  if (state.collection.dim && form.recall.value) {
    body.recall = Number(form.recall.value);
  }
  if (form.explain.checked) {
    body.explain = true;
  }
  const [answer, took] = await timed('/search', body);
  if (!answer) {
    return;
  }
  find('plan').textContent = `${answer.hits.length} rows by ${answer.plan}, ${digits(took)} ms with the way to the server`;
  find('hits').replaceChildren(...answer.hits.map(showHit));
  await showPictures(answer.hits);
}

// passage returns the part of a text of at most that many letters that has the most words of the query.
function passage(text, most) {
  const words = [...new Set(find('ask').text.value.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) || [])];
  const low = text.toLowerCase();
  let best = 0, found = 0;
  for (let at = 0; at < text.length; at += most / 4) {
    const part = low.slice(at, at + most);
    const n = words.filter((w) => part.includes(w)).length;
    if (n > found) {
      [best, found] = [at, n];
    }
  }
  return (best > 0 ? '…' : '') + short(text.slice(best), most);
}

// measure returns what a hit is ranked by. The distance of words is minus their score.
function measure(hit) {
  if (hit.places || hit.score) {
    return `score ${digits(hit.score || 0)}`;
  }
  const words = state.collection.text && hit.distance < 0;
  return words ? `score ${digits(-hit.distance)}` : `distance ${digits(hit.distance)}`;
}

function showHit(hit) {
  const key = hit.key ?? '';
  const head = make('div', {className: 'head'},
    make('span', {className: 'key'}, key || '(a key of bytes)'),
    make('span', {className: 'number muted'}, measure(hit)),
    ...(hit.labels || []).map((l) => make('span', {className: 'chip'}, l)),
    key ? make('button', {type: 'button', className: 'link', 'aria-label': `search like ${key}`,
      onclick: () => like(key)}, 'like this') : null);
  const body = make('div', {className: 'body'},
    hit.text ? make('p', {className: 'text'}, passage(hit.text, 400)) : null,
    hit.attributes && Object.keys(hit.attributes).length ? make('p', {className: 'muted'},
      Object.entries(hit.attributes).map(([name, value]) => `${name}: ${value}`).join(' · ')) : null,
    hit.payload ? make('p', {className: 'text muted'}, short(hit.payload, 400)) : null,
    hit.why ? why(hit.why) : null);
  return make('li', null, head, body);
}

// why shows a reason and what it is made of.
function why(reason) {
  const most = 12;
  const parts = (r) => make('ul', null,
    ...r.parts.slice(0, most).map((p) => make('li', null, `${digits(p.score)}  ${p.text}`, p.parts ? parts(p) : null)),
    r.parts.length > most ? make('li', null, `and ${r.parts.length - most} more`) : null);
  return make('details', null, make('summary', null, `why: ${reason.text}`), reason.parts ? parts(reason) : null);
}

function like(key) {
  const form = find('ask');
  for (const name of ['text', 'vector', 'features']) {
    form[name].value = '';
  }
  form.key.value = key;
  find('ask-title').scrollIntoView();
  attempt(search);
}

// floats returns the vector of a row: an array, or float32 in base64.
function floats(v) {
  if (!v || Array.isArray(v)) {
    return v;
  }
  const bytes = Uint8Array.from(atob(v.base64), (c) => c.charCodeAt(0));
  return Array.from(new Float32Array(bytes.buffer));
}

// showPictures draws the rows whose vectors are grey pictures: squares of numbers from 0 to 255.
async function showPictures(hits) {
  const side = Math.sqrt(state.collection.dim || 0);
  if (side < 8 || !Number.isInteger(side) || state.pictures === false) {
    return;
  }
  const turn = state.asked;
  for (const [i, hit] of hits.slice(0, 50).entries()) {
    const row = await get(path(`/rows/${of(hit.key ?? '')}`));
    const v = floats(row.vector);
    state.pictures ??= Boolean(v) && v.every((x) => x >= 0 && x <= 255 && Number.isInteger(x));
    if (!state.pictures || turn !== state.asked) {
      return;
    }
    const canvas = make('canvas', {width: side, height: side, role: 'img', 'aria-label': `picture of row ${hit.key}`});
    const context = canvas.getContext('2d');
    const picture = context.createImageData(side, side);
    v.forEach((x, at) => picture.data.set([x, x, x, 255], 4 * at));
    context.putImageData(picture, 0, 0);
    find('hits').children[i].prepend(canvas);
  }
}

async function predict() {
  const form = find('ask');
  const [answer, took] = await timed('/predict', {
    ...query(), index: form.model.value, top: 10, set: true,
    explain: form.explain.checked, stats: true,
  });
  if (!answer) {
    return;
  }
  const list = answer.labels || [];
  const predicted = list.filter((l) => l.predicted).length;
  find('plan').textContent = list.length === 0 ? 'No label: the model knows nothing of this query.' :
    `${predicted} ${predicted === 1 ? 'label' : 'labels'} predicted by ${form.model.value}, ` +
    `${digits(took)} ms with the way to the server`;
  find('hits').replaceChildren(...list.map((l) => {
    const bar = make('span', {className: 'bar'});
    bar.style.width = `${100 * Math.max(0, Math.min(1, l.probability || l.score))}%`;
    return make('li', null, make('div', {className: 'head'},
      make('span', {className: 'key'}, l.label),
      make('span', {className: 'track', 'aria-hidden': true}, bar),
      make('span', {className: 'number'}, l.probability ? `${(100 * l.probability).toFixed(1)} %` : `score ${digits(l.score)}`),
      make('span', {className: l.predicted ? 'chip' : 'muted'}, l.predicted ? 'predicted' : 'not predicted')),
    make('div', {className: 'body'}, l.why ? why(l.why) : null));
  }), ...(answer.why ? [make('li', null, why(answer.why))] : []));
}

async function showRows() {
  const lines = await (await ask('GET', path('/rows?vectors=base64&limit=10'))).text();
  const rows = lines.split('\n').filter(Boolean).map((line) => JSON.parse(line));
  const row = (r) => make('tr', null,
    make('td', null, r.key === undefined ? '(bytes)' : make('button', {type: 'button', className: 'link',
      'aria-label': `search like ${r.key}`, onclick: () => like(r.key)}, r.key)),
    make('td', null, ...(r.labels || []).map((l) => make('span', {className: 'chip'}, l))),
    make('td', null, short(r.text || Object.entries(r.attributes || {}).map((a) => a.join(': ')).join(' · '), 160)));
  find('rows').replaceChildren(...(rows.length ? [] : [make('tr', null, make('td', null, 'No rows.'))]),
    ...rows.map(row));
}

// chart returns the answer for a chart, null from a gateway of a cluster, which has none.
const chart = (rest) => ask('GET', path(rest)).catch((err) => {
  if (err.code === 'not_in_cluster') {
    return null;
  }
  throw err;
});

async function showCurve() {
  const tuned = state.indexes.some((x) => x.curve);
  const answer = tuned ? await chart('/recall.svg') : null;
  find('curve').hidden = !answer;
  if (answer) {
    const picture = await answer.blob();
    const image = find('curve').querySelector('img');
    URL.revokeObjectURL(image.src);
    image.src = URL.createObjectURL(picture);
  }
}

const palette = [
  ['#0072b2', '#3d9fe0'], ['#d55e00', '#f07f2e'], ['#009e73', '#2cc397'], ['#cc79a7', '#dd93bb'],
  ['#56b4e9', '#8accf2'], ['#e69f00', '#f0b429'], ['#3c3c3c', '#d0d0d0'], ['#966e46', '#c49a6c'],
  ['#785ef0', '#a08cff'], ['#8c004b', '#e0559b'],
];
const dark = matchMedia('(prefers-color-scheme: dark)');
const colorOf = (label) => palette[state.colors.get(label)]?.[dark.matches ? 1 : 0] ?? (dark.matches ? '#5a5f68' : '#bdbdbd');

async function showMap() {
  const answer = state.collection.dim > 1 ? await chart('/map') : null;
  const {rows} = answer ? await answer.json() : {rows: []};
  find('map').hidden = rows.length === 0;
  if (rows.length === 0) {
    return;
  }
  const counts = new Map();
  for (const r of rows) {
    if (r.label) {
      counts.set(r.label, (counts.get(r.label) || 0) + 1);
    }
  }
  const frequent = [...counts].sort((a, b) => b[1] - a[1]).slice(0, palette.length).map(([label]) => label).sort();
  state.colors = new Map(frequent.map((label, i) => [label, i]));
  const range = (axis) => rows.reduce(([lo, hi], r) => [Math.min(lo, r[axis]), Math.max(hi, r[axis])], [Infinity, -Infinity]);
  const [x, y] = [range('x'), range('y')];
  const share = (value, [lo, hi]) => hi > lo ? (value - lo) / (hi - lo) : 0.5;
  state.places = rows.map((r) => ({...r, at: [0.03 + 0.94 * share(r.x, x), 0.97 - 0.94 * share(r.y, y)]}));
  // Rows of rare labels are drawn first, beneath the others.
  state.places.sort((a, b) => (state.colors.has(a.label) ? 1 : 0) - (state.colors.has(b.label) ? 1 : 0));
  canvas.setAttribute('aria-label',
    `A map of ${rows.length} rows by two principal coordinates, coloured by label: arrows go from row to row, Enter searches like one`);
  drawMap();
}

function drawMap() {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (width === 0) {
    return;
  }
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  const context = canvas.getContext('2d');
  context.scale(devicePixelRatio, devicePixelRatio);
  for (const p of state.places) {
    context.fillStyle = colorOf(p.label);
    context.beginPath();
    context.arc(p.at[0] * width, p.at[1] * height, 2.2, 0, 2 * Math.PI);
    context.fill();
  }
  if (state.pointed) {
    context.strokeStyle = dark.matches ? '#fff' : '#000';
    context.beginPath();
    context.arc(state.pointed.at[0] * width, state.pointed.at[1] * height, 6, 0, 2 * Math.PI);
    context.stroke();
  }
  const entry = (label, color) => {
    const dot = make('span', {className: 'dot'});
    dot.style.background = color;
    return make('span', null, dot, label);
  };
  find('legend').replaceChildren(`${grouped(state.places.length)} rows by two principal coordinates. `,
    ...[...state.colors.keys()].map((label) => entry(label, colorOf(label))));
}

// least returns the place of the least cost below a bound, or undefined.
function least(cost, bound) {
  let best;
  for (const p of state.places) {
    const c = cost(p);
    if (c < bound) {
      [best, bound] = [p, c];
    }
  }
  return best;
}

// under returns the place under the pointer, or undefined.
function under(event) {
  const box = event.currentTarget.getBoundingClientRect();
  return least((p) => (box.left + p.at[0] * box.width - event.clientX) ** 2 +
    (box.top + p.at[1] * box.height - event.clientY) ** 2, 100);
}

// towards returns the nearest place in a direction from the one that is pointed at, at first from the middle.
function towards(x, y) {
  const from = state.pointed?.at ?? [0.5, 0.5];
  return least((p) => {
    const [dx, dy] = [p.at[0] - from[0], p.at[1] - from[1]];
    const [along, across] = [dx * x + dy * y, Math.abs(dx * y - dy * x)];
    return p !== state.pointed && along >= across && along + across > 0 ? along + 2 * across : Infinity;
  }, Infinity);
}

function point(p) {
  state.pointed = p;
  find('under').textContent = p ? `${p.key ?? '(bytes)'}${p.label ? ' – ' + p.label : ''}` : '';
}

find('files').onchange = () => attempt(openFile);
find('ask').onsubmit = (event) => {
  event.preventDefault();
  attempt(search);
};
find('predict').onclick = () => attempt(predict);
find('token-form').onsubmit = (event) => {
  event.preventDefault();
  sessionStorage.setItem('token', find('token').value);
  attempt(openPage);
};
canvas.onpointermove = (event) => point(under(event));
canvas.onclick = (event) => {
  point(under(event));
  if (state.pointed?.key) {
    like(state.pointed.key);
  }
};
canvas.onkeydown = (event) => {
  const way = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key];
  if (way) {
    event.preventDefault();
    point(towards(...way) ?? state.pointed);
    drawMap();
  } else if (event.key === 'Enter' && state.pointed?.key) {
    like(state.pointed.key);
  }
};
document.onkeydown = (event) => {
  if (event.key === '/' && !/INPUT|TEXTAREA|SELECT/.test(event.target.tagName)) {
    event.preventDefault();
    [...find('query').querySelectorAll('input, textarea')].find((e) => !e.closest('[hidden]')).focus();
  }
};
new ResizeObserver(drawMap).observe(find('map'));
dark.onchange = drawMap;
attempt(openPage);
