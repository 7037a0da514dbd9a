'use strict';
// The report's own script: unpacks the data, draws the timeline, fills tables and plots.
(async () => {
  const bytes64 = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes64(document.getElementById('data').textContent.trim())]).stream()
    .pipeThrough(new DecompressionStream('gzip'));
  const D = await new Response(stream).json();
  const $ = (id) => document.getElementById(id);
  const text = (tag, value, name) => {
    const e = document.createElement(tag);
    e.textContent = value;
    if (name) e.className = name;
    return e;
  };
  const ns = (t) => (t >= 1e6 ? (t / 1e6).toFixed(3) + ' ms' : t >= 1e3 ? (t / 1e3).toFixed(3) + ' us'
    : t.toFixed(1) + ' ns');
  const percent = (x, digits = 1) => (100 * x).toFixed(digits) + ' %';
  const S = D.summary;

  function head() {
    const add = (label, value) => {
      const span = text('span', label + ' ');
      span.append(text('b', value));
      $('head').append(span);
    };
    add('latency', ns(S.total_time * 1e9));
    add('on', D.machine.target);
    add('tensor', percent(S.tensor_engine_active_time_percent));
    add('vector', percent(S.vector_engine_active_time_percent));
    add('scalar', percent(S.scalar_engine_active_time_percent));
    add('DMA', percent(S.dma_active_time_percent));
    add('MFU', percent(S.mfu_estimated_percent));
    add('HBM bandwidth', percent(S.mbu_estimated_percent));
    if (D.partial) $('head').append(text('span', 'partial: the run was interrupted', 'partial'));
    for (const line of D.verdict) $('verdict').append(text('li', line));
    for (const line of D.warnings) $('verdict').append(text('li', line, 'warn'));
  }

  // Timeline -------------------------------------------------------------------------------
  const T = D.timeline;
  const column = (key, Type) => new Type(bytes64(T[key]).buffer);
  const track = column('track', Int32Array), start = column('start', Float64Array);
  const end = column('end', Float64Array), name = column('name', Int32Array);
  const detail = column('text', Int32Array), source = column('source', Int32Array);
  const note = column('note', Int32Array);
  const first = [], last = [];  // slices of a track follow each other
  for (let i = 0; i < track.length; i++) {
    if (first[track[i]] === undefined) first[track[i]] = i;
    last[track[i]] = i + 1;
  }
  const LEFT = 190, TOP = 22, ROW = 20;
  const view = { from: 0, to: D.end_ns };
  const canvas = $('timeline'), tip = $('tip');
  let selected = -1, matches = null;
  const causes = { busy: '#2f7d4f', wait_dma: '#3b6fb6', dma_latency: '#8fb1dc', semaphore: '#d9a441',
    issue: '#9aa3ad', dma_engines: '#5a8cd0' };
  const palette = ['#4e79a7', '#f28e2b', '#59a14f', '#e15759', '#76b7b2', '#b07aa1', '#9c755f', '#edc948',
    '#5f9ed1', '#c85200', '#3f8f6b', '#a26dc2'];
  const colour = (i) => causes[T.texts[name[i]]] || palette[name[i] % palette.length];
  // First slice of track k that ends after time t.
  function at(k, t) {
    let low = first[k], high = last[k];
    while (low < high) {
      const mid = (low + high) >> 1;
      if (end[mid] > t) high = mid; else low = mid + 1;
    }
    return low;
  }
  function draw() {
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth;
    const height = TOP + ROW * T.tracks.length;
    canvas.style.height = height + 'px';
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const c = canvas.getContext('2d');
    c.scale(ratio, ratio);
    c.font = '11px system-ui, "DejaVu Sans", sans-serif';
    c.textBaseline = 'middle';
    const scale = (width - LEFT) / (view.to - view.from), x = (t) => LEFT + (t - view.from) * scale;
    axis(c, width, height, x);
    for (let k = 0; k < T.tracks.length; k++) {
      const y = TOP + k * ROW;
      c.fillStyle = '#1c2430';
      c.fillText(T.tracks[k], 2, y + ROW / 2, LEFT - 8);
      c.strokeStyle = '#eef1f4';
      c.strokeRect(LEFT, y, width - LEFT, ROW);
      for (let i = at(k, view.from); i < last[k] && start[i] < view.to;) {
        const a = Math.max(LEFT, x(start[i])), b = Math.min(width, x(end[i]));
        c.fillStyle = colour(i);
        c.globalAlpha = matches && !matches.has(i) ? 0.2 : 1;
        c.fillRect(a, y + 2, Math.max(b - a - (b - a > 3 ? 0.5 : 0), 0.7), ROW - 4);
        c.globalAlpha = 1;
        if (i === selected) {
          c.strokeStyle = '#d00000';
          c.lineWidth = 2;
          c.strokeRect(a, y + 1, Math.max(b - a, 2), ROW - 2);
          c.lineWidth = 1;
        }
        if (b - a > 40) {
          c.fillStyle = '#fff';
          c.save();
          c.beginPath();
          c.rect(a, y, b - a - 2, ROW);
          c.clip();
          c.fillText(T.texts[name[i]], a + 3, y + ROW / 2);
          c.restore();
        }
        // Slices thinner than a pixel share it: go on at the next pixel.
        i = b - a < 1 ? Math.max(i + 1, at(k, view.from + (a + 1 - LEFT) / scale)) : i + 1;
      }
    }
    window.nkisim.view = view;
  }
  function axis(c, width, height, x) {
    const span = view.to - view.from, rough = span / 8, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= rough);
    c.fillStyle = '#66707e';
    c.strokeStyle = '#e3e7ec';
    for (let t = Math.ceil(view.from / step) * step; t < view.to; t += step) {
      c.fillText(ns(t), x(t) + 3, TOP / 2);
      c.beginPath();
      c.moveTo(x(t), 0);
      c.lineTo(x(t), height);
      c.stroke();
    }
  }
  function hit(event) {
    const box = canvas.getBoundingClientRect();
    const px = event.clientX - box.left - LEFT, k = Math.floor((event.clientY - box.top - TOP) / ROW);
    if (px < 0 || k < 0 || k >= T.tracks.length) return -1;
    const scale = (view.to - view.from) / (canvas.clientWidth - LEFT);
    const i = at(k, view.from + (px - 1) * scale);
    return i < last[k] && start[i] <= view.from + (px + 1) * scale ? i : -1;
  }
  function clamp() {
    const span = Math.min(view.to - view.from, D.end_ns);
    view.from = Math.max(0, Math.min(view.from, D.end_ns - span));
    view.to = view.from + span;
    requestAnimationFrame(draw);
  }
  function show(i) {
    selected = i;
    const span = Math.max((end[i] - start[i]) * 12, D.end_ns / 1e5);
    view.from = (start[i] + end[i] - span) / 2;
    view.to = view.from + span;
    clamp();
  }
  function events() {
    let drag = null;
    canvas.addEventListener('wheel', (e) => {
      e.preventDefault();
      const box = canvas.getBoundingClientRect();
      const share = Math.max(0, (e.clientX - box.left - LEFT) / (box.width - LEFT));
      const t = view.from + share * (view.to - view.from);
      const span = Math.max(2, (view.to - view.from) * Math.exp(e.deltaY * 0.0015));
      view.from = t - share * span;
      view.to = view.from + span;
      clamp();
    }, { passive: false });
    canvas.addEventListener('mousedown', (e) => { drag = { x: e.clientX, from: view.from }; });
    window.addEventListener('mouseup', () => { drag = null; });
    canvas.addEventListener('dblclick', (e) => { const i = hit(e); if (i >= 0) show(i); });
    canvas.addEventListener('mouseleave', () => { tip.style.display = 'none'; });
    canvas.addEventListener('mousemove', (e) => {
      if (drag) {
        const span = view.to - view.from;
        view.from = drag.from - (e.clientX - drag.x) * span / (canvas.clientWidth - LEFT);
        view.to = view.from + span;
        clamp();
        return;
      }
      const i = hit(e);
      tip.style.display = i < 0 ? 'none' : 'block';
      if (i < 0) return;
      tip.replaceChildren(text('b', T.texts[name[i]] + ' '), text('span', `${ns(start[i])} + ${ns(end[i] - start[i])}`),
        text('div', T.texts[detail[i]], 'mono'), text('div', T.texts[source[i]], 'mono'),
        text('div', T.texts[note[i]]));
      tip.style.left = Math.min(e.clientX + 14, window.innerWidth - 400) + 'px';
      tip.style.top = e.clientY + 16 + 'px';
    });
    window.addEventListener('resize', draw);
    $('reset').onclick = () => { view.from = 0; view.to = D.end_ns; selected = -1; clamp(); };
  }
  let found = [], next = 0;
  function search(words) {
    const wanted = words.trim().toLowerCase();
    found = [];
    next = 0;
    matches = null;
    if (wanted) {
      const good = T.texts.map((t) => t.toLowerCase().includes(wanted));
      for (let i = 0; i < track.length; i++) {
        if (good[name[i]] || good[detail[i]] || good[source[i]]) found.push(i);
      }
      found.sort((a, b) => start[a] - start[b]);
      matches = new Set(found);
    }
    $('status').textContent = wanted ? `${found.length} found` : '';
    draw();
  }
  function step() {
    if (!found.length) return;
    const i = found[next++ % found.length];
    $('status').textContent = `${(next - 1) % found.length + 1} of ${found.length}: ${T.texts[name[i]]} at ${ns(start[i])}`;
    show(i);
  }
  $('search').addEventListener('input', (e) => search(e.target.value));
  $('search').addEventListener('keydown', (e) => { if (e.key === 'Enter') step(); });
  $('next').onclick = step;

  // Tables and plots -----------------------------------------------------------------------
  const layout = (more) => ({ height: 260, margin: { l: 52, r: 12, t: 8, b: 40 }, showlegend: false,
    font: { size: 11 }, paper_bgcolor: '#fff', plot_bgcolor: '#fff', ...more });
  const options = { displayModeBar: false, responsive: true };
  function stalls() {
    const sums = {};
    for (const r of D.stalls) for (const [k, v] of Object.entries(r.fs)) sums[k] = (sums[k] || 0) + v;
    const kinds = Object.keys(sums).sort((a, b) => sums[b] - sums[a]);
    const fixed = { busy: '#2f7d4f', 'fixed latency': '#86b894', 'utilisation limit': '#c2571a', 'idle after the end': '#e3e7ec' };
    const row = document.createElement('tr');
    row.append(text('th', 'cause'), ...D.stalls.map((r) => text('th', r.who, 'n')));
    $('stalls').append(row);
    for (const k of kinds) {
      const tr = document.createElement('tr');
      tr.append(text('td', k), ...D.stalls.map((r) => text('td', r.fs[k] ? (100 * r.fs[k] / D.end_fs).toFixed(1) : '', 'n')));
      $('stalls').append(tr);
    }
    const total = document.createElement('tr');
    total.append(text('th', 'sum'), ...D.stalls.map((r) =>
      text('th', (100 * Object.values(r.fs).reduce((a, b) => a + b, 0) / D.end_fs).toFixed(1), 'n')));
    $('stalls').append(total);
    Plotly.newPlot('stallbars', kinds.map((k, i) => ({ type: 'bar', orientation: 'h', name: k,
      y: D.stalls.map((r) => r.who), x: D.stalls.map((r) => 100 * (r.fs[k] || 0) / D.end_fs),
      marker: { color: fixed[k] || palette[i % palette.length] }, hovertemplate: `${k}: %{x:.1f} %<extra></extra>` })),
    layout({ barmode: 'stack', showlegend: true, legend: { orientation: 'h', y: 1.05, yanchor: 'bottom' }, height: 40 * D.stalls.length + 150, xaxis: { title: { text: '% of the run' }, range: [0, 100] },
      yaxis: { automargin: true, autorange: 'reversed' } }), options);
  }
  function roofline() {
    const bandwidth = D.machine.hbm_bytes_per_ns * 1e9, ridge = S.peak_flops_bandwidth_ratio;
    const peak = ridge * bandwidth, x = [ridge / 1000, ridge, ridge * 30];
    const made = (S.hardware_flops - S.transpose_flops) / S.total_time;
    const data = [{ x, y: x.map((v) => Math.min(peak, v * bandwidth) / 1e12), mode: 'lines', line: { color: '#1c2430' },
      hovertemplate: '%{x:.1f} flop/B: %{y:.2f} TFLOPS<extra></extra>' }];
    if (made > 0) data.push({ x: [S.mm_arithmetic_intensity], y: [made / 1e12], mode: 'markers+text', text: ['this run'],
      textposition: 'bottom center', marker: { size: 11, color: '#d1495b' } });
    Plotly.newPlot('roofline', data, layout({ xaxis: { type: 'log', title: { text: 'flop per HBM byte' } },
      yaxis: { type: 'log', title: { text: 'TFLOPS' } } }), options);
  }
  function plots() {
    const curve = (series, label, color, factor = 1) => ({ x: series.x, y: series.y.map((v) => v * factor), name: label,
      mode: 'lines', line: { shape: 'hv', color, width: 1.3 } });
    Plotly.newPlot('memory', [curve(D.sbuf.avg_util_percent, 'SBUF', '#3b6fb6', 100), curve(D.psum.avg_util_percent, 'PSUM', '#d9822b', 100)],
      layout({ showlegend: true, legend: { orientation: 'h', y: 1.15 }, xaxis: { title: { text: 'us' } }, yaxis: { title: { text: '% in use' }, rangemode: 'tozero' } }), options);
    Plotly.newPlot('hbm', [curve(D.hbm.current_throughput, 'HBM', '#2f7d4f')],
      layout({ xaxis: { title: { text: 'us' } }, yaxis: { title: { text: 'GB/s' }, rangemode: 'tozero' } }), options);
    Plotly.newPlot('dma', [{ type: 'bar', ...D.dma_sizes, marker: { color: '#4e79a7' } }],
      layout({ xaxis: { type: 'category', title: { text: 'bytes per element, from' } }, yaxis: { title: { text: 'DMAs' } } }), options);
  }
  function lines() {
    const header = document.createElement('tr');
    header.append(text('th', 'line'), text('th', 'source'), text('th', 'runs', 'n'), text('th', 'engine time', 'n'),
      text('th', 'waits', 'n'), text('th', 'critical', 'n'), text('th', '% of the run', 'n'));
    $('lines').append(header);
    for (const r of D.lines) {
      const tr = document.createElement('tr'), file = r.line.split('/').pop();
      const cell = text('td', file, 'mono');
      cell.title = r.line;
      tr.append(cell, text('td', r.code, 'mono'), text('td', r.count, 'n'), text('td', ns(r.busy / 1e6), 'n'),
        text('td', ns(r.wait / 1e6), 'n'), text('td', ns(r.critical / 1e6), 'n'), text('td', (100 * r.critical / D.end_fs).toFixed(1), 'n'));
      tr.style.cursor = 'pointer';
      tr.onclick = () => { $('search').value = r.line; search(r.line); step(); $('timeline').scrollIntoView({ block: 'center' }); };
      $('lines').append(tr);
    }
    for (const w of D.what_if) {
      const tr = document.createElement('tr');
      tr.append(text('td', 'if ' + w.change), text('td', ns(w.end_fs / 1e6), 'n'),
        text('td', (w.gain > 0 ? '-' : '+') + percent(Math.abs(w.gain)), 'n'));
      $('whatif').append(tr);
    }
  }
  window.nkisim = { data: D, view, slices: track.length, show, search, found: () => found };
  head();
  events();
  clamp();
  draw();
  stalls();
  roofline();
  plots();
  lines();
  window.nkisim.ready = true;
})().catch((error) => {
  document.body.prepend(document.createTextNode('The report could not be opened: ' + error));
  throw error;
});
