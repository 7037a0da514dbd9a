'use strict';
// Builds the panels of the HTML report: summary, causes of waits, roofline, opcodes, DMA sizes.

const layout = (more) => ({ height: 270, margin: { l: 56, r: 14, t: 10, b: 42 }, showlegend: false, font: { size: 11 }, paper_bgcolor: '#fff', plot_bgcolor: '#fff', ...more });
const options = { displayModeBar: false, responsive: true };
const ENGINE_COLOURS = { Tensor: '#5a78b8', TensorMatrix: '#5a78b8', Vector: '#4b9aa8', Scalar: '#8a6fb3', GpSimd: '#b0788f', Sync: '#7f8a99' };

function row(cells, tag = 'td') {
  const tr = document.createElement('tr');
  tr.append(...cells.map((cell) => (cell instanceof Node ? cell : typeof cell === 'object'
    ? text(tag, cell.n, 'n') : text(tag, cell))));
  return tr;
}

const n = (value) => ({ n: value });

// What a plot's colours mean, as text that wraps: a plot's own legend scrolls, or lies on its bars, where it is narrow.
function colours(entries) {
  const box = document.createElement('div');
  box.className = 'legend';
  box.append(...entries.map(([colour, name]) => {
    const e = text('span', name), square = document.createElement('i');
    square.style.background = colour;
    e.prepend(square);
    return e;
  }));
  return box;
}

function head() {
  const S = D.summary;
  const add = (label, value) => {
    const span = text('span', label + ' ');
    span.append(text('b', value));
    $('head').append(span);
  };
  add('latency', ns(S.total_time * 1e9));
  add('on', `${D.machine.target}${D.machine.cores > 1 ? ` × ${D.machine.cores} cores` : ''}`);
  for (const e of ['tensor', 'vector', 'scalar', 'gpsimd', 'sync']) add(e, percent(S[`${e}_engine_active_time_percent`]));
  add('DMA', percent(S.dma_active_time_percent));
  add('MFU', percent(S.mfu_estimated_percent));
  add('HBM bandwidth', percent(S.mbu_estimated_percent));
  if (D.partial) $('head').append(text('span', 'partial: the run was interrupted', 'partial'));
  if (D.trust) $('verdict').append(text('li', `Trust: ${D.trust}`));
  for (const line of D.verdict) $('verdict').append(text('li', line));
  for (const line of D.warnings) $('verdict').append(text('li', line, 'warn'));
  $('whatif-box').hidden = D.what_if.length === 0;
  $('verdict-box').classList.toggle('wide', D.what_if.length === 0);
  for (const w of D.what_if) {
    const change = text('td', `${w.gain > 0 ? '−' : '+'}${percent(Math.abs(w.gain))}`, 'n');
    if (w.gain > 0.02) change.style.fontWeight = 600;
    $('whatif').append(row([`if ${w.change}`, n(ns(w.end_fs / 1e6)), change]));
  }
}

// A cause's colour says what kind it is; an engine waited for has the engine's.
function causeColour(cause) {
  const fixed = { busy: '#2f7d4f', 'fixed latency': '#86b894', 'utilisation limit': '#c2571a', issue: '#9aa3ad', semaphore: '#d9a441', 'HBM bandwidth': '#234b8c', 'idle after the end': '#e9ecf0' };
  if (fixed[cause]) return fixed[cause];
  const engine = Object.keys(ENGINE_COLOURS).find((e) => cause === `waiting for ${e}`);
  if (engine) return ENGINE_COLOURS[engine];
  return cause.includes('latency') ? '#8fb1dc' : cause.includes('DMA engines') ? '#5a8cd0' : cause.includes('DMA') ? '#3b6fb6' : '#b07aa1';
}

const ORDER = ['busy', 'fixed latency', 'utilisation limit', 'issue', 'semaphore'];

function causes() {
  const sums = {};
  for (const r of D.stalls) for (const [k, v] of Object.entries(r.fs)) sums[k] = (sums[k] || 0) + v;
  const rank = (k) => (ORDER.includes(k) ? ORDER.indexOf(k) : k === 'idle after the end' ? 99 : 50);
  return Object.keys(sums).filter((k) => sums[k] > 0).sort((a, b) => rank(a) - rank(b) || sums[b] - sums[a]);
}

function stalls() {
  const kinds = causes(), share = (r, k) => 100 * (r.fs[k] || 0) / D.end_fs;
  $('stalls').append(row(['', ...D.stalls.map((r) => n(r.who))], 'th'));
  for (const k of kinds) {
    const cells = D.stalls.map((r) => {
      const cell = text('td', r.fs[k] ? share(r, k).toFixed(1) : '', 'n');
      const waits = k !== 'busy' && k !== 'idle after the end';
      if (r.fs[k]) cell.style.background = waits ? `rgba(209, 73, 91, ${share(r, k) / 160})` : `rgba(47, 125, 79, ${k === 'busy' ? share(r, k) / 200 : 0})`;
      return cell;
    });
    $('stalls').append(row([k, ...cells]));
  }
  $('stalls').append(row(['sum', ...D.stalls.map((r) =>
    n((100 * Object.values(r.fs).reduce((a, b) => a + b, 0) / D.end_fs).toFixed(1)))], 'th'));
  Plotly.newPlot('stallbars', kinds.map((k) => ({ type: 'bar', orientation: 'h', name: k,
    y: D.stalls.map((r) => r.who), x: D.stalls.map((r) => share(r, k)), marker: { color: causeColour(k) },
    hovertemplate: `%{y}, ${k}: %{x:.1f} %<extra></extra>` })),
  layout({ barmode: 'stack', bargap: 0.25, height: 28 * D.stalls.length + 60, margin: { l: 56, r: 26, t: 10, b: 30 }, xaxis: { range: [0, 100], ticksuffix: ' %' }, yaxis: { automargin: true, autorange: 'reversed' } }), options);
  $('stallbars').after(colours(kinds.map((k) => [causeColour(k), k])));
}

function roofline() {
  const S = D.summary, bandwidth = D.machine.hbm_bytes_per_ns * 1e9, ridge = S.peak_flops_bandwidth_ratio;
  const peak = ridge * bandwidth, made = (S.hardware_flops - S.transpose_flops) / S.total_time;
  if (!(made > 0)) {
    $('roofline').replaceChildren(text('p', `No matmuls. HBM moved ${bytes(S.hbm_read_bytes + S.hbm_write_bytes)}: ${percent(S.mbu_estimated_percent)} of ${(bandwidth / 1e9).toFixed(0)} GB/s.`));
    return;
  }
  const intensity = S.mm_arithmetic_intensity, low = Math.min(ridge / 100, intensity / 4), high = Math.max(ridge * 30, intensity * 4);
  const roof = Math.min(peak, intensity * bandwidth), x = [low, ridge, high];
  const narrow = $('roofline').clientWidth < 420;
  const note = (at, y, value, more) => ({ x: Math.log10(at), y: Math.log10(y), text: value, showarrow: false, font: { size: 11, color: '#66707e' }, ...more });
  Plotly.newPlot('roofline', [
    { x, y: x.map((v) => Math.min(peak, v * bandwidth) / 1e12), mode: 'lines', line: { color: '#1c2430' }, hovertemplate: '%{x:.1f} flop/B: at most %{y:.2f} TFLOPS<extra></extra>' },
    { x: [intensity, intensity], y: [made / 1e12, roof / 1e12], mode: 'lines', line: { color: '#d1495b', dash: 'dot', width: 1 }, hoverinfo: 'skip' },
    { x: [intensity], y: [made / 1e12], mode: 'markers', marker: { size: 11, color: '#d1495b' },
      hovertemplate: `this run: ${(made / 1e12).toFixed(2)} TFLOPS at %{x:.1f} flop/B<extra></extra>` }],
  layout({ height: Math.max(270, 28 * D.stalls.length + 130), xaxis: { type: 'log', title: { text: 'matmul flop per HBM byte' } }, yaxis: { type: 'log', title: { text: 'TFLOPS' }, range: [Math.log10(Math.min(made, low * bandwidth) / 1e12) - 0.3, Math.log10(peak / 1e12) + 0.5] },
    annotations: [note(ridge * 3, peak / 1e12, `PE array: ${(peak / 1e12).toFixed(1)} TFLOPS`, { yanchor: 'bottom' }),
      note(ridge / 30, peak / 3e13, `HBM: ${(bandwidth / 1e9).toFixed(0)} GB/s`, { xanchor: 'left', xshift: 10, yshift: -6 }),
      // Next to the marker, on the side where the roof is level or higher: off its line.
      // Where that is narrow: below it.
      note(intensity, made / 1e12, `this run:${narrow ? '<br>' : ' '}${percent(made / roof)} of the roof,<br>${intensity < ridge ? 'HBM' : 'compute'}-bound side`, { yanchor: 'top', yshift: narrow ? -8 : -4, xanchor: narrow ? 'center' : intensity < ridge ? 'left' : 'right', xshift: narrow ? 0 : intensity < ridge ? 8 : -8, font: { size: 11, color: '#d1495b' } })] }), options);
}

function opcodes() {
  $('opcodes').append(row(['engine', 'opcode', n('count'), n('each'), n('active'), n('of the run')], 'th'));
  for (const o of D.opcodes) {
    const tr = row([o.engine, o.opcode, n(o.instruction_count.toLocaleString('en')), n(ns(o.instruction_time_ns / o.instruction_count)),
      n(ns(o.active_time_ns)), n(percent(o.active_time_percent))]);
    tr.className = 'click bar';
    tr.style.setProperty('--share', `${100 * o.active_time_percent}%`);
    tr.onclick = () => searchFor(o.opcode);
    $('opcodes').append(tr);
  }
}

function dmaSizes() {
  const trace = (sizes, name, color) => ({ type: 'bar', name, x: sizes.x, y: sizes.count, marker: { color }, customdata: sizes.bytes.map(bytes),
    hovertemplate: '%{y} DMAs from %{x}, %{customdata} in all<extra></extra>' });
  const x = [...D.dma_elements.x, ...D.dma_transfers.x.filter((label) => !D.dma_elements.x.includes(label))];
  const shown = [[D.dma_elements, 'contiguous element (512 B or more use the bandwidth)', '#d9822b'],
    [D.dma_transfers, 'whole transfer (32 KiB or more recommended)', '#4e79a7']];
  $('dma').before(colours(shown.map(([, name, colour]) => [colour, name])));
  Plotly.newPlot('dma', shown.map((s) => trace(...s)),
    layout({ xaxis: { type: 'category', categoryarray: x, automargin: true, title: { text: 'bytes, from' } }, yaxis: { automargin: true, title: { text: 'DMAs' } } }), options);
}

function facts() {
  const S = D.summary, m = D.machine, add = (name, value) => $('facts').append(row([name, value]));
  add('HBM tensors', Object.entries(D.hbm).map(([k, v]) => `${k} ${bytes(v)}`).join(', '));
  add('HBM traffic', `read ${bytes(S.hbm_read_bytes)}, written ${bytes(S.hbm_write_bytes)}; at least ${bytes(S.inputs_outputs_weights_size_bytes)} (inputs and outputs)`);
  add('DMA', `${S.dma_transfer_count.toLocaleString('en')} transfers, ${bytes(Math.round(S.dma_transfer_average_bytes))} on average, ${S.dma_queue_count} queues`);
  add('on-chip traffic', `SBUF read ${bytes(S.sbuf_read_bytes)}, written ${bytes(S.sbuf_write_bytes)}; PSUM read ${bytes(S.psum_read_bytes)}, written ${bytes(S.psum_write_bytes)}`);
  add('machine', `${m.instance_type} (config ${m.config}): PE array ${m.pe_rows} × ${m.pe_columns}, clocks ${Object.entries(m.clocks_ghz).map(([k, v]) => `${k} ${v}`).join(', ')} GHz, HBM ${m.hbm_bytes_per_ns} GB/s, ${m.dma_engines} DMA engines of ${m.dma_bytes_per_ns} GB/s`);
}
