'use strict';
// Builds the panels of the HTML report: summary, causes of waits, roofline, opcodes, DMA sizes.

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
  shareBars('stallbars', D.stalls.map((r) => ({ who: r.who,
    parts: kinds.filter((k) => r.fs[k]).map((k) => ({ name: k, share: share(r, k), colour: causeColour(k) })) })));
  $('stallbars').after(colours(kinds.map((k) => [causeColour(k), k])));
}

function roofline() {
  const S = D.summary, bandwidth = D.machine.hbm_bytes_per_ns * 1e9, ridge = S.peak_flops_bandwidth_ratio;
  const peak = ridge * bandwidth, made = (S.hardware_flops - S.transpose_flops) / S.total_time;
  if (!(made > 0)) {
    $('roofline').replaceChildren(text('p', `No matmuls. HBM moved ${bytes(S.hbm_read_bytes + S.hbm_write_bytes)}: ${percent(S.mbu_estimated_percent)} of ${(bandwidth / 1e9).toFixed(0)} GB/s.`));
    return;
  }
  const intensity = S.mm_arithmetic_intensity, roof = Math.min(peak, intensity * bandwidth), tera = 1e12;
  rooflineChart('roofline', { ridge, peak: peak / tera, intensity, made: made / tera, roof: roof / tera, words: {
    peak: `PE array: ${(peak / tera).toFixed(1)} TFLOPS`, hbm: `HBM: ${(bandwidth / 1e9).toFixed(0)} GB/s`,
    hint: `this run: ${(made / tera).toFixed(2)} TFLOPS at ${intensity.toFixed(1)} flop/B`,
    run: ['this run:', `${percent(made / roof)} of the roof,`, `${intensity < ridge ? 'HBM' : 'compute'}-bound side`] } });
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
  const { dma_elements: elements, dma_transfers: transfers } = D;
  const x = [...elements.x, ...transfers.x.filter((from) => !elements.x.includes(from))];
  const shown = [[elements, 'contiguous element (512 B or more use the bandwidth)', '#d9822b'],
    [transfers, 'whole transfer (32 KiB or more recommended)', '#4e79a7']];
  $('dma').before(colours(shown.map(([, name, colour]) => [colour, name])));
  histogram('dma', x, shown.map(([sizes, , colour]) => {
    const at = x.map((from) => sizes.x.indexOf(from)), count = at.map((k) => (k < 0 ? 0 : sizes.count[k]));
    return { colour, count, hints: at.map((k, n) => (k < 0 ? '' : `${count[n].toLocaleString('en')} DMAs from ${x[n]}, ${bytes(sizes.bytes[k])} in all`)) };
  }));
}

function facts() {
  const S = D.summary, m = D.machine, add = (name, value) => $('facts').append(row([name, value]));
  add('HBM tensors', Object.entries(D.hbm).map(([k, v]) => `${k} ${bytes(v)}`).join(', '));
  add('HBM traffic', `read ${bytes(S.hbm_read_bytes)}, written ${bytes(S.hbm_write_bytes)}; at least ${bytes(S.inputs_outputs_weights_size_bytes)} (inputs and outputs)`);
  add('DMA', `${S.dma_transfer_count.toLocaleString('en')} transfers, ${bytes(Math.round(S.dma_transfer_average_bytes))} on average, ${S.dma_queue_count} queues`);
  add('on-chip traffic', `SBUF read ${bytes(S.sbuf_read_bytes)}, written ${bytes(S.sbuf_write_bytes)}; PSUM read ${bytes(S.psum_read_bytes)}, written ${bytes(S.psum_write_bytes)}`);
  add('machine', `${m.instance_type} (config ${m.config}): PE array ${m.pe_rows} × ${m.pe_columns}, clocks ${Object.entries(m.clocks_ghz).map(([k, v]) => `${k} ${v}`).join(', ')} GHz, HBM ${m.hbm_bytes_per_ns} GB/s, ${m.dma_engines} DMA engines of ${m.dma_bytes_per_ns} GB/s`);
}
