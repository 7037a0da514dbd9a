'use strict';
// Draws the timeline of the HTML report on a canvas: slices, curves and address maps.

const PALETTE = ['#4e79a7', '#f28e2b', '#59a14f', '#b07aa1', '#e15759', '#76b7b2', '#9c755f', '#d4a82a',
  '#5f9ed1', '#c85200', '#3f8f6b', '#a26dc2', '#8c8c8c', '#c36a9b', '#7a9a3b', '#31708f'];
const CAUSES = { busy: '#2f7d4f', throttle: '#c2571a', 'fixed latency': '#86b894', 'wait engine': '#7d8fc4',
  'wait dma': '#3b6fb6', hbm: '#234b8c', 'dma latency': '#8fb1dc', 'dma engines': '#5a8cd0', port: '#b07aa1',
  semaphore: '#d9a441', 'own path': '#9c755f', issue: '#9aa3ad', end: '#e3e7ec',
  'wait rank': '#d1495b', collective: '#f28e2b' };
const CURVES = ['#2f7d4f', '#7d5ba6', '#3b6fb6', '#d9822b'];
let colourOf = () => PALETTE[0];

// First index of a sorted array whose value is over t.
function after(values, t) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > t) high = middle; else low = middle + 1;
  }
  return low;
}

// Chooses colours: the most time gets the palette's first ones. Fills the legend.
function paint(mode) {
  const times = new Map(), path = (i) => T.tracks[T.track[i]].endsWith('Critical path');
  const key = { opcode: (i) => T.name[i],
    line: (i) => (T.inst[i] < 0 ? -1 : T.insts.file[T.inst[i]] * 1e6 + (T.insts.line[T.inst[i]] || T.insts.op[T.inst[i]])),
    region: (i) => (T.inst[i] < 0 ? -1 : T.insts.region[T.inst[i]]),
    cause: (i) => (T.wait[i] > 0 ? T.cause[i] : 0) }[mode];
  for (let i = 0; i < T.count; i++) {
    if (path(i)) continue;
    const entry = times.get(key(i)) || { time: 0, slice: i };
    entry.time += T.end[i] - T.start[i];
    times.set(key(i), entry);
  }
  const ranked = [...times.keys()].sort((a, b) => times.get(b).time - times.get(a).time);
  const colours = new Map(ranked.map((k, n) => [k, mode === 'cause' ? CAUSES[T.causes[k]] : PALETTE[n % PALETTE.length]]));
  colourOf = (i) => (path(i) ? CAUSES[T.texts[T.name[i]]] : colours.get(key(i)));
  const label = { opcode: (k) => T.texts[k], cause: (k) => (k ? T.causes[k] : 'no wait'),
    region: (k) => (k < 0 ? 'none' : T.texts[k] || 'none'),
    line: (k) => (k < 0 ? 'none' : place(T.inst[times.get(k).slice]).split('/').pop()) }[mode];
  legend(ranked.slice(0, PALETTE.length).map((k) => [colours.get(k), label(k)]));
}

function legend(entries) {
  const used = new Set();
  for (let k = 0; k < T.tracks.length; k++) {
    if (T.tracks[k].endsWith('Critical path')) for (let i = T.first[k]; i < T.first[k + 1]; i++) used.add(T.texts[T.name[i]]);
  }
  const item = ([colour, name]) => {
    const e = text('span', name), box = document.createElement('i');
    box.style.background = colour;
    e.prepend(box);
    return e;
  };
  $('legend').replaceChildren(...entries.map(item), text('span', '· critical path:'),
    ...Object.entries(CAUSES).filter(([name]) => used.has(name)).map(([name, colour]) => item([colour, name])));
}

function areas() {
  let y = TOP + ROW * T.tracks.length + 6;
  const out = [];
  const add = (height, what) => {
    out.push({ y, height, ...what });
    y += height + 6;
  };
  D.curves.forEach((curve, n) => add(CURVE, { curve, colour: CURVES[n % CURVES.length] }));
  for (const map of D.maps) add(MAP, { map });
  return out;
}

function draw() {
  const began = performance.now(), canvas = $('timeline'), ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, parts = areas(), last = parts[parts.length - 1];
  const height = last ? last.y + last.height + 2 : TOP + ROW * T.tracks.length;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.style.height = height + 'px';
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const c = canvas.getContext('2d');
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  c.font = '11px system-ui, "DejaVu Sans", sans-serif';
  c.textBaseline = 'middle';
  const scale = (width - LEFT) / (view.to - view.from), x = (t) => LEFT + (t - view.from) * scale;
  axis(c, width, height, x);
  for (let k = 0; k < T.tracks.length; k++) drawTrack(c, k, width, scale, x);
  for (const area of parts) (area.curve ? drawCurve : drawMap)(c, area, width, scale, x);
  if (selected >= 0) drawSelected(c, width, x);
  if (measure) drawMeasure(c, width, height, x);
  window.nkisim.draw_ms = performance.now() - began;
}

// The least of 1, 2 and 5 times a power of ten that is not less.
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((m) => m * power >= least);
}

function axis(c, width, height, x) {
  const span = view.to - view.from, label = c.measureText(ns(span)).width + 14;
  const step = roundStep(span / Math.max(1, Math.min(8, (width - LEFT) / label)));
  c.fillStyle = '#dde2e8';
  c.fillRect(LEFT, 3, width - LEFT, 5);
  c.fillStyle = '#4e79a7';
  const whole = (width - LEFT) / D.end_ns;
  c.fillRect(LEFT + view.from * whole, 2, Math.max(3, span * whole), 7);
  c.fillStyle = '#66707e';
  c.strokeStyle = '#e3e7ec';
  window.nkisim.labels = [];
  for (let t = Math.ceil(view.from / step) * step; t < view.to; t += step) {
    const end = x(t) + 3 + c.measureText(ns(t)).width;
    if (end <= width) {
      c.fillText(ns(t), x(t) + 3, 20);
      window.nkisim.labels.push([x(t) + 3, end]);
    }
    c.beginPath();
    c.moveTo(x(t), 12);
    c.lineTo(x(t), height);
    c.stroke();
  }
}

function drawTrack(c, k, width, scale, x) {
  const y = TOP + k * ROW, last = T.first[k + 1], from = T.first[k], family = !T.tracks[k].includes(' · ');
  c.fillStyle = family ? '#1c2430' : '#9aa3ad';
  c.fillText(family ? T.tracks[k] : '· ' + T.tracks[k].split(' · ')[1], family ? 2 : 14, y + ROW / 2, LEFT - 56);
  const busy = (busyBefore(k, view.to) - busyBefore(k, view.from)) / (view.to - view.from);
  c.textAlign = 'right';
  c.fillStyle = '#66707e';
  if (last > from) c.fillText(percent(busy, 0), LEFT - 8, y + ROW / 2);
  c.textAlign = 'left';
  if (family) {
    c.fillStyle = '#eceff3';
    c.fillRect(0, y, width, 1);
  }
  for (let i = seek(k, view.from); i < last && T.start[i] < view.to;) {
    const a = Math.max(LEFT, x(T.start[i])), b = Math.min(width, x(T.end[i]));
    if (b - a >= 1) {
      slice(c, i, a, b, y);
      i++;
      continue;
    }
    // Slices thinner than a pixel share it: the more of it is busy, the darker it is.
    const edge = view.from + (Math.floor(a) + 1 - LEFT) / scale, next = Math.max(i + 1, seek(k, edge));
    const share = Math.min(1, (T.before[next] - T.before[i]) * scale);
    c.fillStyle = colourOf(i);
    c.globalAlpha = (mask && !anyFound(i, next) ? 0.25 : 1) * (0.2 + 0.8 * share);
    c.fillRect(Math.floor(a), y + 2, 1, ROW - 4);
    c.globalAlpha = 1;
    i = next;
  }
}

function anyFound(i, end) {
  for (; i < end; i++) if (mask[i]) return true;
  return false;
}

function slice(c, i, a, b, y) {
  c.fillStyle = colourOf(i);
  c.globalAlpha = mask && !mask[i] ? 0.2 : 1;
  c.fillRect(a, y + 2, b - a - (b - a > 3 ? 0.5 : 0), ROW - 4);
  c.globalAlpha = 1;
  if (b - a < 34) return;
  const inst = T.inst[i], label = inst >= 0 ? T.texts[T.insts.label[inst]] : '';
  c.fillStyle = '#fff';
  c.save();
  c.beginPath();
  c.rect(a, y, b - a - 2, ROW);
  c.clip();
  c.fillText(T.texts[T.name[i]] + (label && b - a > 120 ? ' ' + label : ''), a + 3, y + ROW / 2);
  c.restore();
}

// The selected slice, and an arrow from what it waited for.
function drawSelected(c, width, x) {
  const y = (i) => TOP + T.track[i] * ROW, inside = (v) => Math.min(width, Math.max(LEFT, v));
  const a = inside(x(T.start[selected])), b = inside(x(T.end[selected])), p = T.producer[selected];
  c.strokeStyle = '#d00000';
  c.lineWidth = 2;
  c.strokeRect(a, y(selected) + 1, Math.max(b - a, 2), ROW - 2);
  if (p >= 0) {
    const from = inside(x(T.end[p]));
    c.strokeRect(inside(x(T.start[p])), y(p) + 1, Math.max(from - inside(x(T.start[p])), 2), ROW - 2);
    c.lineWidth = 1.3;
    c.beginPath();
    c.moveTo(from, y(p) + ROW / 2);
    c.bezierCurveTo(from + 24, y(p) + ROW / 2, a - 24, y(selected) + ROW / 2, a, y(selected) + ROW / 2);
    c.stroke();
  }
  c.lineWidth = 1;
}

function drawMeasure(c, width, height, x) {
  const [from, to] = [measure.from, measure.to].sort((a, b) => a - b);
  const a = Math.max(LEFT, x(from)), b = Math.min(width, x(to));
  c.fillStyle = 'rgba(78, 121, 167, 0.15)';
  c.fillRect(a, TOP - 4, b - a, height);
  const busy = T.tracks.map((name, k) => [name, (busyBefore(k, to) - busyBefore(k, from)) / (to - from)])
    .filter(([name, share]) => share > 0.0005 && !name.includes(' · ') && !name.endsWith('Critical path'));
  $('status').textContent = to > from ? `${ns(to - from)}: ` + busy.map(([name, share]) => `${name} ${percent(share)}`).join(', ') : '';
}

function drawCurve(c, area, width, scale, x) {
  const { curve, y, height } = area, top = curve.unit === '%' ? Math.max(100, curve.top) : curve.top || 1;
  c.fillStyle = '#1c2430';
  c.fillText(curve.name, 2, y + 10, LEFT - 8);
  c.fillStyle = '#66707e';
  c.fillText(`0 to ${top.toLocaleString('en', { maximumSignificantDigits: 3 })} ${curve.unit}${curve.averaged ? ', averaged' : ''}`, 2, y + 24, LEFT - 8);
  c.fillStyle = '#f6f8fa';
  c.fillRect(LEFT, y, width - LEFT, height);
  c.fillStyle = area.colour;
  const { time, value } = curve;
  let i = Math.max(0, after(time, view.from) - 1), before = i < time.length ? value[i] : 0;
  if (time.length && time[i] > view.from) before = 0;
  for (let px = LEFT; px < width; px++) {
    const edge = view.from + (px + 1 - LEFT) / scale;
    let largest = before;
    while (i < time.length && time[i] < edge) {
      if (time[i] >= view.from) largest = Math.max(largest, value[i]);
      before = value[i++];
    }
    const h = Math.max(largest > 0 ? 1 : 0, largest / top * (height - 2));
    c.fillRect(px, y + height - h, 1, h);
  }
}

function drawMap(c, area, width, scale, x) {
  const { map, y, height } = area;
  map.shown = map.used > 0.5 * map.size ? map.size : map.used;
  c.fillStyle = '#1c2430';
  c.fillText(map.name, 2, y + 10, LEFT - 8);
  c.fillStyle = '#66707e';
  c.fillText(`address 0 to ${bytes(map.shown)} of`, 2, y + 24, LEFT - 8);
  c.fillText(`${bytes(map.size)} per partition`, 2, y + 38, LEFT - 8);
  c.fillStyle = '#f6f8fa';
  c.fillRect(LEFT, y, width - LEFT, height);
  for (let i = 0; i < map.start.length; i++) {
    const a = Math.max(LEFT, x(map.start[i])), b = Math.min(width, x(map.end[i]));
    if (b <= LEFT || a >= width) continue;
    const h = Math.max(1, map.bytes[i] / map.shown * height), top = y + height - map.low[i] / map.shown * height - h;
    c.globalAlpha = 0.75;
    c.fillStyle = PALETTE[i % PALETTE.length];
    c.fillRect(a, top, Math.max(1, b - a), h - (h > 3 ? 0.6 : 0));
    c.globalAlpha = 1;
    if (h > 10 && b - a > 40) {
      c.fillStyle = '#fff';
      c.fillText(map.texts[i].split(':')[0], a + 3, top + h / 2, b - a - 6);
    }
  }
}
