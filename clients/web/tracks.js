'use strict';
// Draws the timeline of a run in the browser.

const FS_PER_NS = 1e6;
const UNIT_NAMES = ['Tensor', 'TensorMatrix', 'Vector', 'Scalar', 'GpSimd', 'Sync'], ENGINE_COUNT = 5;
const CAUSE_NAMES = ['busy', 'throttle', 'fixed_latency', 'wait_engine', 'wait_dma', 'hbm', 'dma_latency', 'dma_engines',
  'port', 'semaphore', 'own_path', 'issue', 'end', 'wait_rank', 'collective'];
const NOT_WAITS = ['busy', 'fixed_latency', 'throttle', 'end'];

// Texts by number, each stored once.
function numbered(texts) {
  const ids = new Map(texts.map((t, i) => [t, i]));
  return (t) => {
    if (!ids.has(t)) {
      ids.set(t, texts.length);
      texts.push(t);
    }
    return ids.get(t);
  };
}

// Slices in rows without overlaps: first fit, by start.
function intoRows(slices) {
  const free = [], rows = [];
  for (const s of [...slices].sort((a, b) => a.start - b.start)) {
    let row = free.findIndex((until) => until <= s.start);
    if (row < 0) row = free.length;
    free[row] = s.end;
    (rows[row] ??= []).push(s);
  }
  return rows;
}

function largestWait(charged, i) {
  let best = 0, time = 0;
  CAUSE_NAMES.forEach((cause, number) => {
    const fs = NOT_WAITS.includes(cause) || !charged[cause] ? 0 : charged[cause][i];
    if (fs > time) [best, time] = [number, fs];
  });
  return [best, time];
}

function slicesOf(s, core, id) {
  const families = [], queueName = new Map();
  for (let i = 0; i < s.queues.core.length; i++) {
    if (s.queues.core[i] === core) queueName.set(s.queues.index[i], s.texts[s.queues.name[i]]);
  }
  const pick = (table, mine, make) => [...s[table].core.keys()].filter(mine).map(make);
  families.push(['Critical path', pick('path', (i) => s.path.core[i] === core, (i) => ({
    start: s.path.from[i], end: s.path.to[i], name: id(CAUSE_NAMES[s.path.cause[i]].replace('_', ' ')),
    detail: id(queueName.get(s.path.where[i]) ?? ''), inst: s.path.inst[i], cause: 0, wait: 0 }))]);
  const p = s.parts, t = s.transfers;
  UNIT_NAMES.forEach((name, unit) => {
    families.push([name, pick('parts', (i) => p.core[i] === core && p.unit[i] === unit, (i) => {
      const [cause, wait] = largestWait(s.charged, i);
      return { start: p.start[i], end: p.end[i], name: p.opcode[i], detail: p.operands[i], inst: p.inst[i], cause, wait, part: i };
    })]);
  });
  for (const [queue, name] of [...queueName].sort((a, b) => a[0] - b[0])) {
    families.push([name, pick('transfers', (i) => t.core[i] === core && t.queue[i] === queue, (i) => ({
      start: t.trigger_start[i], end: t.visible[i], name: s.insts.op[t.inst[i]], inst: t.inst[i], cause: 0, wait: 0, transfer: i,
      detail: id(`${t.bytes[i].toLocaleString('en')} bytes in ${t.packets[i].toLocaleString('en')} packets`) }))]);
  }
  return families;
}

function collectives(s, id) {
  const c = s.collectives;
  return [...(c?.core ?? []).keys()].filter((i) => c.core[i] === 0).map((i) => ({
    start: c.start[i], end: c.end[i], name: c.operation[i], inst: c.inst[i], cause: CAUSE_NAMES.indexOf('wait_rank'),
    wait: c.ready[i] - c.start[i], detail: id(`${s.texts[c.algorithm[i]]}, ${s.texts[c.group[i]]}`
      + (c.waited_for[i] >= 0 ? `; waited for rank ${c.waited_for[i]}` : '')) }));
}

// Per slice the one it waited for, -1 for none.
function producersOf(s, slices) {
  const key = (core, who, sequence) => `${core} ${who} ${sequence}`, at = new Map(), p = s.parts, t = s.transfers;
  const note = (of, k, part) => {  // an instruction ends with its last part
    if (!(at.has(of) && slices[at.get(of)].part > part)) at.set(of, k);
  };
  slices.forEach(({ part: i, transfer: j }, k) => {
    if (i !== undefined) note(key(p.core[i], p.engine[i], p.sequence[i]), k, i);
    if (j !== undefined) note(key(t.core[j], t.queue[j], t.sequence[j]), k);
  });
  return Int32Array.from(slices, ({ part: i }) => (i === undefined || p.producer[i] < 0 ? -1
    : at.get(key(p.core[i], p.producer[i], p.producer_sequence[i])) ?? -1));
}

// [D, T] of the report's scripts (report/data.js); without its curves and address maps.
function pageData(s) {
  const id = numbered(s.texts), cores = s.facts.machine.cores, tracks = [], first = [0], slices = [];
  const add = (family, some) => intoRows(some).forEach((row, k) => {
    tracks.push(k ? `${family} · ${k}` : family);
    slices.push(...row);
    first.push(slices.length);
  });
  for (let core = 0; core < cores; core++) {
    for (const [name, some] of slicesOf(s, core, id)) add((cores > 1 ? `core ${core} ` : '') + name, some);
  }
  add('Collectives', collectives(s, id));
  const n = slices.length, column = (key, scale = 1) => Float64Array.from(slices, (x) => x[key] / scale);
  const t = { tracks, first, texts: s.texts, causes: CAUSE_NAMES.map((c) => c.replace('_', ' ')), count: n,
    start: column('start', FS_PER_NS), end: column('end', FS_PER_NS), wait: column('wait', FS_PER_NS),
    name: column('name'), detail: column('detail'), inst: column('inst'), cause: column('cause'),
    producer: producersOf(s, slices), insts: s.insts, before: new Float64Array(n + 1), track: new Int32Array(n) };
  for (let i = 0; i < n; i++) t.before[i + 1] = t.before[i] + t.end[i] - t.start[i];
  tracks.forEach((_, k) => t.track.fill(k, first[k], first[k + 1]));
  const files = Object.fromEntries(Object.entries(s.facts.sources ?? {}).map(([k, v]) => [k, { lines: v.split('\n') }]));
  const d = { trace: s.facts.trace, machine: s.facts.machine, end_ns: s.facts.accounting.end_fs / FS_PER_NS,
    curves: [], maps: [], lines: { files } };
  return [d, t];
}
