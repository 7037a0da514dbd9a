'use strict';
// Zooms, moves and searches the timeline of the HTML report.

const LEFT = 170, TOP = 30, ROW = 19, CURVE = 46, MAP = 96;
const view = { from: 0, to: 1 };
let selected = -1, mask = null, found = [], at = -1, measure = null, waiting = false;

// First slice of track k that ends after time t.
function seek(k, t) {
  let low = T.first[k], high = T.first[k + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (T.end[middle] > t) high = middle; else low = middle + 1;
  }
  return low;
}

// Busy time of track k before time t.
function busyBefore(k, t) {
  const i = seek(k, t), partly = i < T.first[k + 1] ? Math.max(0, t - T.start[i]) : 0;
  return T.before[i] - T.before[T.first[k]] + partly;
}

function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    draw();
  });
}

function look(from, span) {
  span = Math.min(Math.max(span, 2), D.end_ns);
  view.from = Math.max(0, Math.min(from, D.end_ns - span));
  view.to = view.from + span;
  redraw();
}

function zoom(factor, share = 0.5) {
  const span = view.to - view.from, wanted = Math.min(Math.max(span * factor, 2), D.end_ns);
  look(view.from + share * (span - wanted), wanted);
}

const move = (share) => look(view.from + share * (view.to - view.from), view.to - view.from);

function show(i) {
  if (!(i >= 0 && i < T.count)) return;
  select(i);
  const span = Math.max((T.end[i] - T.start[i]) * 12, D.end_ns / 1e5);
  look((T.start[i] + T.end[i] - span) / 2, span);
}

function select(i) {
  selected = i;
  const box = $('detail');
  if (i < 0) return redraw();
  const inst = T.inst[i], line = text('div', `${place(inst)}  ${code(inst)}`, 'mono');
  const label = inst >= 0 ? T.texts[T.insts.label[inst]] : '';
  box.replaceChildren(
    text('b', `${T.texts[T.name[i]]}${label ? ` “${label}”` : ''}`),
    text('span', ` on ${T.tracks[T.track[i]]} from ${ns(T.start[i])} to ${ns(T.end[i])}: ${ns(T.end[i] - T.start[i])}. ${waited(i)} `),
    text('div', T.texts[T.detail[i]], 'mono'), line);
  if (inst >= 0 && T.insts.region && T.texts[T.insts.region[inst]]) box.append(text('div', `region ${T.texts[T.insts.region[inst]]}`));
  const p = T.producer[i];
  if (p >= 0) {
    const button = text('button', `waited for ${T.texts[T.name[p]]} on ${T.tracks[T.track[p]]}, which ended at ${ns(T.end[p])}`);
    button.onclick = () => show(p);
    box.append(button);
  }
  window.dispatchEvent(new CustomEvent('line', { detail: inst }));
  redraw();
}

// What is under the mouse: a slice, or a text about a curve or an address map.
function under(event) {
  const box = $('timeline').getBoundingClientRect(), x = event.clientX - box.left - LEFT;
  const y = event.clientY - box.top, scale = (view.to - view.from) / (box.width - LEFT);
  const t = view.from + x * scale, k = Math.floor((y - TOP) / ROW);
  if (x < 0 || y < TOP) return {};
  if (k < T.tracks.length) {
    const i = seek(k, t - scale);
    return i < T.first[k + 1] && T.start[i] <= t + scale ? { slice: i } : {};
  }
  const area = areas().find((a) => y >= a.y && y < a.y + a.height);
  if (!area) return {};
  return { note: area.curve ? curveAt(area.curve, t) : mapAt(area.map, t, 1 - (y - area.y) / area.height) };
}

function curveAt(curve, t) {
  const i = after(curve.time, t) - 1;
  return i < 0 ? '' : `${curve.name}: ${curve.value[i].toFixed(1)} ${curve.unit} at ${ns(t)}`;
}

function mapAt(map, t, height) {
  const address = height * map.shown;
  for (let i = map.start.length - 1; i >= 0; i--) {
    if (map.start[i] <= t && t < map.end[i] && map.low[i] <= address && address < map.low[i] + map.bytes[i]) {
      return `${map.texts[i]}, used from ${ns(map.start[i])} to ${ns(map.end[i])}`;
    }
  }
  return '';
}

function hover(event) {
  const tip = $('tip'), what = under(event);
  tip.style.display = what.slice === undefined && !what.note ? 'none' : 'block';
  if (what.note) tip.replaceChildren(text('div', what.note));
  if (what.slice !== undefined) {
    const i = what.slice, inst = T.inst[i];
    tip.replaceChildren(text('b', T.texts[T.name[i]] + ' '), text('span', `${ns(T.start[i])} + ${ns(T.end[i] - T.start[i])}`),
      text('div', T.texts[T.detail[i]], 'mono'), text('div', place(inst), 'mono'), text('div', code(inst), 'mono'),
      text('div', waited(i)));
  }
  tip.style.left = Math.max(0, Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 10)) + 'px';
  tip.style.top = (event.clientY + 18 + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 16) + 'px';
}

function mouse(canvas) {
  let drag = null;
  const time = (e) => view.from + (e.clientX - canvas.getBoundingClientRect().left - LEFT)
    * (view.to - view.from) / (canvas.clientWidth - LEFT);
  canvas.addEventListener('wheel', (e) => {
    e.preventDefault();
    const box = canvas.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (e.clientX - box.left - LEFT) / (box.width - LEFT)));
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) move((e.deltaX || e.deltaY) * 0.001);
    else zoom(Math.exp(e.deltaY * 0.0015), share);
  }, { passive: false });
  canvas.addEventListener('mousedown', (e) => {
    drag = { x: e.clientX, from: view.from, moved: false, measures: e.shiftKey };
    if (e.shiftKey) measure = { from: time(e), to: time(e) };
  });
  window.addEventListener('mouseup', (e) => {
    if (drag && !drag.moved && e.target === canvas) {
      measure = null;
      const i = under(e).slice;
      if (i !== undefined) select(i);
      redraw();
    }
    drag = null;
  });
  canvas.addEventListener('dblclick', (e) => {
    const i = under(e).slice;
    if (i !== undefined) show(i);
  });
  canvas.addEventListener('mouseleave', () => { $('tip').style.display = 'none'; });
  canvas.addEventListener('mousemove', (e) => { if (!drag) hover(e); });
  window.addEventListener('mousemove', (e) => {
    if (!drag) return;
    drag.moved = drag.moved || Math.abs(e.clientX - drag.x) > 2;
    if (drag.measures) {
      measure.to = time(e);
      redraw();
    } else look(drag.from - (e.clientX - drag.x) * (view.to - view.from) / (canvas.clientWidth - LEFT), view.to - view.from);
  });
}

function keyboard() {
  window.addEventListener('keydown', (e) => {
    if (['INPUT', 'SELECT'].includes(e.target.tagName) || e.ctrlKey || e.metaKey || e.altKey) return;
    const neighbour = (d) => {
      const i = selected + d;
      if (selected >= 0 && i >= 0 && i < T.count && T.track[i] === T.track[selected]) {
        select(i);
        if (T.end[i] < view.from || T.start[i] > view.to) look(T.start[i] - (view.to - view.from) / 2, view.to - view.from);
      }
    };
    const actions = { w: () => zoom(0.8), s: () => zoom(1.25), a: () => move(-0.1), d: () => move(0.1),
      ArrowLeft: () => neighbour(-1), ArrowRight: () => neighbour(1), '/': () => $('search').focus(),
      Escape: () => { selected = -1; measure = null; redraw(); } };
    if (!actions[e.key]) return;
    e.preventDefault();
    actions[e.key]();
  });
}

// Which slices hold the words; the critical path repeats instructions and is not counted.
function search(words) {
  const wanted = words.trim().toLowerCase();
  found = [];
  at = -1;
  mask = null;
  if (wanted) {
    const has = (t) => t.toLowerCase().includes(wanted);
    const good = T.texts.map(has), n = T.insts.op.length, inst = new Uint8Array(n);
    for (let i = 0; i < n; i++) inst[i] = good[T.insts.op[i]] || good[T.insts.label[i]] || good[T.insts.region?.[i]] || has(place(i)) ? 1 : 0;
    mask = new Uint8Array(T.count);
    for (let i = 0; i < T.count; i++) {
      mask[i] = good[T.name[i]] || good[T.detail[i]] || (T.inst[i] >= 0 && inst[T.inst[i]]) ? 1 : 0;
      if (mask[i] && !T.tracks[T.track[i]].endsWith('Critical path')) found.push(i);
    }
  }
  $('status').textContent = wanted ? `${found.length.toLocaleString('en')} found` : '';
  redraw();
}

function step(direction) {
  if (!found.length) return;
  if (at < 0) found = Int32Array.from(found).sort((a, b) => T.start[a] - T.start[b]);
  at = at < 0 ? (direction > 0 ? 0 : found.length - 1) : (at + direction + found.length) % found.length;
  const i = found[at];
  $('status').textContent = `${at + 1} of ${found.length}: ${T.texts[T.name[i]]} at ${ns(T.start[i])}`;
  show(i);
}

function timelineEvents() {
  let delay = 0;
  mouse($('timeline'));
  keyboard();
  $('search').addEventListener('input', (e) => {
    clearTimeout(delay);
    delay = setTimeout(() => search(e.target.value), 120);
  });
  $('search').addEventListener('keydown', (e) => {
    if (e.key !== 'Enter') return;
    if (mask === null || at < 0) {
      clearTimeout(delay);
      search(e.target.value);
    }
    step(e.shiftKey ? -1 : 1);
  });
  $('next').onclick = () => step(1);
  $('previous').onclick = () => step(-1);
  $('reset').onclick = () => {
    selected = -1;
    measure = null;
    look(0, D.end_ns);
  };
  if (!T.insts.region) $('colours').querySelector('[value=region]').remove();
  $('colours').onchange = () => { paint($('colours').value); redraw(); };
  window.addEventListener('resize', redraw);
}
