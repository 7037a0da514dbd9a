'use strict';
// Draws the HTML report of a run of several ranks: a row for each rank on one time axis.

const D = JSON.parse(document.getElementById('data').textContent);
const $ = (id) => document.getElementById(id);
const COLOURS = { waiting: '#e8a5ad', collective: '#f28e2b', path: '#d1495b', engine: '#4e79a7', dma: '#59a14f' };
const LEFT = 90, TOP = 42, LANE = 40, PATH = 20;
const view = { from: 0, to: D.end };

const us = (t) => (t / 1000).toFixed(3) + ' us';

function cell(row, value, number) {
  const e = document.createElement('td');
  e.textContent = value;
  if (number) e.className = 'n';
  row.append(e);
}

function table(id, heads, rows) {
  const head = document.createElement('tr');
  for (const h of heads) {
    const e = document.createElement('th');
    e.textContent = h;
    head.append(e);
  }
  $(id).replaceChildren(head, ...rows.map((values) => {
    const row = document.createElement('tr');
    for (const v of values) cell(row, v, typeof v === 'string' && /^[\d.]+( us| %)?$/.test(v));
    return row;
  }));
}

function size(canvas, height) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth;
  canvas.style.height = height + 'px';
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const c = canvas.getContext('2d');
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  return [c, width];
}

function draw() {
  const canvas = $('ranks'), [c, width] = size(canvas, TOP + LANE * D.ranks.length + 6);
  const scale = (width - LEFT) / (view.to - view.from), x = (t) => LEFT + (t - view.from) * scale;
  c.font = '12px system-ui, "DejaVu Sans", sans-serif';
  axis(c, x, width);
  const place = new Map(D.ranks.map((r, k) => [r.rank, TOP + k * LANE]));
  const box = (from, to, y, height, colour, least = 1) => {
    if (to < view.from || from > view.to) return;
    const a = Math.max(LEFT, x(from)), b = Math.min(width, x(to));
    c.fillStyle = colour;
    c.fillRect(a, y, Math.max(least, b - a), height);
  };
  for (const r of D.ranks) {
    const y = place.get(r.rank);
    c.fillStyle = '#f6f8fa';
    c.fillRect(LEFT, y + 1, width - LEFT, LANE - 3);
    c.fillStyle = '#1c2430';
    c.fillText(`rank ${r.rank}`, 8, y + 16);
    for (const op of r.operations) {
      box(op.start, op.ready, y + 3, 16, COLOURS.waiting);
      box(op.ready, op.end, y + 3, 16, COLOURS.collective);
      const width_of_wait = (op.end - op.ready) * scale;
      if (width_of_wait > 60 && x(op.ready) >= LEFT) {
        c.fillStyle = '#1c2430';
        c.fillText(op.operation, x(op.ready) + 4, y + 15, width_of_wait - 8);
      }
    }
    for (const [from, to] of r.engines) box(from, to, y + 21, 7, COLOURS.engine);
    for (const [from, to] of r.dma) box(from, to, y + 30, 6, COLOURS.dma);
  }
  arrows(c, x, place);
  c.strokeStyle = COLOURS.path;
  c.fillStyle = COLOURS.path;
  let last = null;
  for (const p of D.path) {
    const y = place.get(p.rank);
    if (y === undefined) continue;
    box(p.from, p.to, y + 1, 2, COLOURS.path);
    if (last !== null && last !== y && x(p.from) >= LEFT && p.from <= view.to) {
      c.lineWidth = 2;
      c.beginPath();
      c.moveTo(x(p.from), last + 2);
      c.lineTo(x(p.from), y + 2);
      c.stroke();
    }
    last = y;
  }
}

function axis(c, x, width) {
  c.fillStyle = '#66707e';
  c.strokeStyle = '#e3e7ec';
  const labels = Math.max(1, Math.min(8, (width - LEFT) / (c.measureText(us(view.to)).width + 14)));
  const wanted = (view.to - view.from) / labels, power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= wanted);
  for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
    c.beginPath();
    c.moveTo(x(t), PATH);
    c.lineTo(x(t), TOP + LANE * D.ranks.length);
    c.stroke();
    if (x(t) < width - 60) c.fillText(us(t), x(t) + 3, 14);
  }
}

// From the rank that came last to those that had waited for it.
function arrows(c, x, place) {
  c.strokeStyle = '#9a3b47';
  c.lineWidth = 1;
  for (const r of D.ranks) {
    for (const op of r.operations) {
      if (op.waited_for < 0 || op.ready < view.from || op.ready > view.to) continue;
      const from = place.get(op.waited_for), to = place.get(r.rank);
      if (from === undefined) continue;
      c.setLineDash([3, 3]);
      c.beginPath();
      c.moveTo(x(op.ready), from + 11);
      c.lineTo(x(op.ready), to + 11);
      c.stroke();
      c.setLineDash([]);
    }
  }
}

function under(event) {
  const box = $('ranks').getBoundingClientRect();
  const t = view.from + (event.clientX - box.left - LEFT) * (view.to - view.from) / (box.width - LEFT);
  const r = D.ranks[Math.floor((event.clientY - box.top - TOP) / LANE)];
  const op = r && r.operations.find((o) => o.start <= t && t < o.end);
  return op && `rank ${r.rank}: ${op.operation}, ${op.algorithm}, ${op.group}; ${us(op.start)} + ${us(op.end - op.start)}`
    + (op.waited_for < 0 ? '; no rank came later' : `; waited ${us(op.ready - op.start)} for rank ${op.waited_for}`);
}

function look(from, span) {
  span = Math.min(Math.max(span, 10), D.end);
  view.from = Math.max(0, Math.min(from, D.end - span));
  view.to = view.from + span;
  draw();
}

function mouse() {
  const canvas = $('ranks'), share = (e) => (e.clientX - canvas.getBoundingClientRect().left - LEFT) / (canvas.clientWidth - LEFT);
  let drag = null;
  canvas.addEventListener('wheel', (e) => {
    e.preventDefault();
    const span = view.to - view.from, wanted = span * Math.exp(e.deltaY * 0.0015), at = Math.min(1, Math.max(0, share(e)));
    look(view.from + at * (span - wanted), wanted);
  }, { passive: false });
  canvas.addEventListener('mousedown', (e) => { drag = { x: share(e), from: view.from }; });
  window.addEventListener('mouseup', () => { drag = null; });
  window.addEventListener('mousemove', (e) => {
    if (drag) look(drag.from - (share(e) - drag.x) * (view.to - view.from), view.to - view.from);
  });
  canvas.addEventListener('mousemove', (e) => {
    const what = drag ? null : under(e), tip = $('tip');
    tip.style.display = what ? 'block' : 'none';
    tip.textContent = what || '';
    tip.style.left = Math.min(e.clientX + 14, window.innerWidth - 540) + 'px';
    tip.style.top = e.clientY + 16 + 'px';
  });
  canvas.addEventListener('mouseleave', () => { $('tip').style.display = 'none'; });
  $('reset').onclick = () => look(0, D.end);
  window.addEventListener('resize', draw);
}

$('facts').textContent = D.facts;
for (const [name, colour] of [['waiting for the last rank', COLOURS.waiting], ['in collective', COLOURS.collective],
  ['engines', COLOURS.engine], ['DMA', COLOURS.dma], ['critical path', COLOURS.path]]) {
  const e = document.createElement('span'), i = document.createElement('i');
  i.style.background = colour;
  e.append(i, name);
  $('legend').append(e);
}
table('accounting', ['rank', 'latency', 'in collectives', 'waiting for ranks', 'busiest engine', ''],
  D.ranks.map((r) => [String(r.rank), us(r.latency), r.inside, r.waiting, r.busiest, r.busy]));
table('operations', ['id', 'operation', 'algorithm', 'ranks', 'bytes', 'start', 'duration', 'last came rank', 'first waited'],
  D.operations);
table('path', ['rank', 'from', 'length', 'what', 'where', 'instruction', 'source'],
  D.path.map((p) => [String(p.rank), us(p.from), us(p.to - p.from), p.cause, p.where, p.instruction || '', p.source || '']));
mouse();
draw();
