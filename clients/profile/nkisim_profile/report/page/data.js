'use strict';
// Unpacks the numbers of the HTML report of a simulated run.

const $ = (id) => document.getElementById(id);
let D, T, block;

const ns = (t) => (t >= 1e6 ? (t / 1e6).toFixed(3) + ' ms' : t >= 1e3 ? (t / 1e3).toFixed(3) + ' us'
  : t.toFixed(1) + ' ns');
const percent = (x, digits = 1) => (100 * x).toFixed(digits) + ' %';
const bytes = (n) => (n >= 2 ** 30 ? (n / 2 ** 30).toFixed(2) + ' GiB' : n >= 2 ** 20
  ? (n / 2 ** 20).toFixed(2) + ' MiB' : n >= 1024 ? (n / 1024).toFixed(1) + ' KiB' : n + ' B');

function text(tag, value, name) {
  const e = document.createElement(tag);
  e.textContent = value;
  if (name) e.className = name;
  return e;
}

async function unpack(base64) {
  const binary = atob(base64), packed = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) packed[i] = binary.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).arrayBuffer();
}

// A column as a typed array; differences are summed up in place.
function column(reference) {
  const types = { i4: Int32Array, u2: Uint16Array, u1: Uint8Array, f4: Float32Array };
  const values = new types[reference.type](block.buffer, block.start + reference.at, reference.n);
  if (reference.delta) for (let i = 1; i < values.length; i++) values[i] += values[i - 1];
  return values;
}

async function load() {
  const buffer = await unpack($('data').textContent.trim());
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  D = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  block = { buffer, start: 8 + length };
  const t = D.timeline, n = t.start.n, tick = t.tick_ns;
  T = { tracks: t.tracks, first: t.first, texts: D.texts, causes: t.causes, count: n };
  for (const key of ['name', 'detail', 'inst', 'cause', 'producer']) T[key] = column(t[key]);
  const start = column(t.start), duration = column(t.duration), wait = column(t.wait);
  T.start = Float64Array.from(start, (v) => v * tick);
  T.end = Float64Array.from(start, (v, i) => (v + duration[i]) * tick);
  T.wait = Float64Array.from(wait, (v) => v * tick);
  // Busy time of a track before each slice: shares of any stretch are then two look-ups.
  T.before = new Float64Array(n + 1);
  for (let i = 0; i < n; i++) T.before[i + 1] = T.before[i] + T.end[i] - T.start[i];
  T.track = new Int32Array(n);
  for (let k = 0; k < T.tracks.length; k++) T.track.fill(k, T.first[k], T.first[k + 1]);
  T.insts = Object.fromEntries(Object.entries(t.insts).map(([k, v]) => [k, column(v)]));
  for (const curve of D.curves) {
    curve.time = Float64Array.from(column(curve.time), (v) => v * tick);
    curve.value = column(curve.value);
    curve.top = curve.value.reduce((a, b) => Math.max(a, b), 0);
  }
  for (const map of D.maps) {
    for (const key of ['start', 'end']) map[key] = Float64Array.from(column(map[key]), (v) => v * tick);
    for (const key of ['low', 'bytes']) map[key] = column(map[key]);
  }
  block = null;
}

// `file.py:LINE` of a static instruction, the trace's own line where there is no source.
function place(inst) {
  if (inst < 0) return '';
  const file = T.texts[T.insts.file[inst]];
  return file ? `${file}:${T.insts.line[inst]}` : `${D.trace}:${T.insts.trace_line[inst]}`;
}

// The text of that line, if the file is in the report.
function code(inst) {
  const file = inst < 0 ? null : D.lines.files[T.texts[T.insts.file[inst]]];
  return file ? (file.lines[T.insts.line[inst] - 1] || '').trim() : '';
}

function waited(i) {
  return T.wait[i] > 0 ? `before it: ${ns(T.wait[i])} ${T.causes[T.cause[i]]}` : '';
}
