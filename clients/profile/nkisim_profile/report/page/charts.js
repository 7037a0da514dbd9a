'use strict';
// Draws the charts of the HTML report as SVG: shares as bars, a histogram, a roofline.

const INK = '#1c2430', DIM = '#66707e', GRID = '#e3e7ec', HOT = '#d1495b';
const BOTTOM = 40, RIGHT = 14; // pixels next to a chart's axes

// An element of SVG; texts in `within` stay texts.
function shape(kind, attributes, ...within) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', kind);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...within);
  return e;
}

const hint = (words) => shape('title', {}, words);
const label = (x, y, words, more) => shape('text', { x, y, fill: DIM, 'font-size': 11, ...more }, words);
const line = (x1, y1, x2, y2, more) => shape('line', { x1, y1, x2, y2, stroke: GRID, ...more });
const pen = document.createElement('canvas').getContext('2d');

// The pixels of a label.
function widthOf(words) {
  pen.font = '11px system-ui, "DejaVu Sans", sans-serif';
  return pen.measureText(words).width;
}

// A chart: parts(width) gives its height and its shapes. It is drawn anew at each width.
function chart(name, parts) {
  const box = $(name);
  let last = 0;
  const drawn = () => {
    const width = box.clientWidth;
    if (width === last || width === 0) return;
    last = width;
    const [height, shapes] = parts(width);
    box.replaceChildren(shape('svg', { class: 'plot', width, height, role: 'img' }, ...shapes));
  };
  drawn();
  new ResizeObserver(drawn).observe(box);
}

// rows: [{ who, parts: [{ name, share, colour }] }], shares in percent of the whole width.
function shareBars(name, rows) {
  chart(name, (width) => {
    const left = 8 + Math.max(...rows.map((r) => widthOf(r.who))), step = 28, end = rows.length * step;
    const scale = (width - left - 26) / 100, shapes = [];
    for (let tick = 0; tick <= 100; tick += 20) {
      shapes.push(line(left + tick * scale, 0, left + tick * scale, end),
        label(left + tick * scale, end + 16, `${tick} %`, { 'text-anchor': 'middle' }));
    }
    rows.forEach((r, k) => {
      let x = left;
      shapes.push(label(left - 6, k * step + 18, r.who, { 'text-anchor': 'end' }));
      for (const part of r.parts) {
        const bar = { x, y: k * step + 4, width: part.share * scale, height: step - 8, fill: part.colour };
        shapes.push(shape('rect', bar, hint(`${r.who}, ${part.name}: ${part.share.toFixed(1)} %`)));
        x += part.share * scale;
      }
    });
    return [end + 24, shapes];
  });
}

// x: labels; series: [{ colour, count, hints }], a bar next to the other for each label.
function histogram(name, x, series) {
  const most = Math.max(1, ...series.flatMap((s) => s.count)), height = 250, top = 22;
  const step = Math.max(1, roundStep(most / 5)), ticks = Array.from({ length: Math.floor(most / step) + 1 }, (_, k) => k * step);
  chart(name, (width) => {
    const left = 10 + Math.max(...ticks.map((t) => widthOf(t.toLocaleString('en')))), end = height - BOTTOM;
    const slot = (width - left - RIGHT) / x.length, scale = (end - top) / most;
    const every = Math.ceil((Math.max(...x.map(widthOf)) + 10) / slot), bar = 0.8 * slot / series.length;
    const shapes = ticks.flatMap((t) => [line(left, end - t * scale, width - RIGHT, end - t * scale),
      label(left - 6, end - t * scale + 4, t.toLocaleString('en'), { 'text-anchor': 'end' })]);
    shapes.push(label(0, 11, 'DMAs'), label(width - RIGHT, height - 6, 'bytes, from', { 'text-anchor': 'end' }));
    x.forEach((words, k) => {
      if (k % every === 0) shapes.push(label(left + (k + 0.5) * slot, end + 16, words, { 'text-anchor': 'middle' }));
      series.forEach((s, n) => s.count[k] && shapes.push(shape('rect', { x: left + (k + 0.1) * slot + n * bar,
        y: end - s.count[k] * scale, width: bar, height: s.count[k] * scale, fill: s.colour }, hint(s.hints[k]))));
    });
    return [height, shapes];
  });
}

// Powers of ten within a range, with twice and five times them where these are few.
function logTicks(low, high, most) {
  const powers = [], ticks = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p++) powers.push(p);
  const every = Math.ceil(powers.length / most), times = powers.length > 3 ? [1] : [1, 2, 5];
  for (const p of powers.filter((_, k) => k % every === 0)) ticks.push(...times.map((m) => m * 10 ** p));
  return ticks.filter((t) => t >= low && t <= high);
}

// All numbers in flop/B and TFLOPS: the ridge, the peak, and the run's intensity, rate and roof.
function rooflineChart(name, { ridge, peak, intensity, made, roof, words }) {
  const low = Math.min(ridge / 100, intensity / 4), high = Math.max(ridge * 30, intensity * 4);
  const under = Math.min(made, low * peak / ridge) / 2, over = peak * 3, height = 290, top = 8, left = 52;
  const end = height - BOTTOM, short = (t) => t.toLocaleString('en', { maximumSignificantDigits: 3 });
  chart(name, (width) => {
    const at = (v, from, to) => Math.log10(v / from) / Math.log10(to / from);
    const x = (v) => left + at(v, low, high) * (width - left - RIGHT), y = (v) => end - at(v, under, over) * (end - top);
    const shapes = [];
    for (const t of logTicks(low, high, Math.floor((width - left) / 60))) {
      shapes.push(line(x(t), top, x(t), end), label(x(t), end + 16, short(t), { 'text-anchor': 'middle' }));
    }
    for (const t of logTicks(under, over, 8)) {
      shapes.push(line(left, y(t), width - RIGHT, y(t)), label(left - 6, y(t) + 4, short(t), { 'text-anchor': 'end' }));
    }
    const slope = peak / ridge, points = [low, ridge, high].map((v) => `${x(v)},${y(Math.min(peak, v * slope))}`);
    shapes.push(shape('polyline', { points: points.join(' '), fill: 'none', stroke: INK, 'stroke-width': 2 }));
    shapes.push(line(x(intensity), y(made), x(intensity), y(roof), { stroke: HOT, 'stroke-dasharray': '2 3' }));
    shapes.push(shape('circle', { cx: x(intensity), cy: y(made), r: 5.5, fill: HOT }, hint(words.hint)));
    shapes.push(label(width - RIGHT, height - 6, 'matmul flop per HBM byte', { 'text-anchor': 'end' }));
    shapes.push(label(width - RIGHT, y(peak) - 18, words.peak, { 'text-anchor': 'end' }));
    shapes.push(label(left + 4, y(over) + 10, 'TFLOPS'));
    // The run's label: on the side that has more space, below the marker or above it. HBM's: where the slope is free.
    const side = x(intensity) < (left + width) / 2, down = y(made) + 16 + 14 * words.run.length < end;
    const first = down ? y(made) + 16 : y(made) - 8 - 14 * (words.run.length - 1), from = x(intensity) + (side ? 8 : -8);
    words.run.forEach((said, k) => shapes.push(label(from, first + 14 * k, said,
      { fill: HOT, 'text-anchor': side ? 'start' : 'end' })));
    const run = Math.max(...words.run.map(widthOf)), free = (v) => x(v) + 10 + widthOf(words.hbm) < (side ? from : from - run)
      || x(v) + 10 > (side ? from + run : from) || y(v * slope) + 10 < first - 12 || y(v * slope) > first + 14 * words.run.length;
    const place = [30, 12, 6, 60].map((k) => ridge / k).filter((v) => v > low && x(v) + 10 + widthOf(words.hbm) < width).find(free);
    if (place) shapes.push(label(x(place) + 10, y(place * slope) + 8, words.hbm));
    return [height, shapes];
  });
}
