'use strict';
// Runs nkisim in the browser: reads a program, starts the simulation, shows its output and report.

(() => {
  const SESSION = 'session.npz', SUMMARY = 'summary.json', PERFETTO = 'timeline.pftrace';
  const worker = new Worker('worker.js');
  let examples = [], own = null, answered = null, listening = false, links = [];
  window.nkisim = { ready: false, runs: 0 };  // for the report's scripts and for tests

  const bytesOf = async (url) => {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
    return new Uint8Array(await answer.arrayBuffer());
  };

  function state(said) {
    $('state').textContent = said;
  }

  // The files of what is chosen, and the trace among them.
  async function chosen() {
    if (own) return own;
    const example = examples[$('example').selectedIndex], files = {};
    for (const path of example.files) files[path] = await bytesOf(path);
    return { trace: example.trace, files, more: $('compare').checked ? example.words : [] };
  }

  function wordsOf({ trace, more }) {
    const words = ['run', trace, '--session', SESSION, '--summary-json', SUMMARY, '--perfetto', PERFETTO, ...more];
    if ($('target').value) words.push('--target', $('target').value);
    return words.concat($('options').value.split(/\s+/).filter(Boolean));
  }

  // Every metric: of the run, which says the latency over all cores, then what only each core has.
  function table({ totals, summary }) {
    const said = (v) => (typeof v === 'number' && !Number.isInteger(v) ? String(Number(v.toPrecision(7))) : String(v ?? ''));
    const cores = Object.values(summary), names = new Set([totals, ...cores].flatMap(Object.keys));
    $('numbers').replaceChildren(...[...names].map((name) => {
      const row = document.createElement('tr'), columns = name in totals ? [totals] : cores;
      row.append(text('td', name, 'mono'), ...columns.map((c) => text('td', said(c[name]), 'n')));
      return row;
    }));
  }

  function downloads(files) {
    links.forEach((url) => URL.revokeObjectURL(url));
    links = [];
    $('files').replaceChildren(...Object.entries(files).map(([name, data]) => {
      const link = text('a', `${name} (${bytes(data.length)})`);
      link.download = name;
      link.href = URL.createObjectURL(new Blob([data]));
      links.push(link.href);
      return link;
    }));
  }

  function timelineOf(session) {
    [D, T] = pageData(session);
    Object.assign(window.nkisim, { view, data: D, timeline: T, slices: T.count });
    Object.assign(view, { from: 0, to: D.end_ns });
    selected = -1;
    mask = measure = null;
    $('search').value = '';
    if (!listening) timelineEvents();
    listening = true;
    $('timeline-box').hidden = false;
    paint($('colours').value);
    draw();
  }

  async function show(result) {
    $('said-box').hidden = false;
    $('said').textContent = result.out;
    $('errors').textContent = result.err;
    const session = result.files[SESSION] && await readSession(result.files[SESSION]);
    const latency = /^latency +(.*)$/m.exec(result.out);
    for (const box of ['latency-box', 'timeline-box', 'numbers-box', 'files-box']) $(box).hidden = !session;
    if (!session) return;
    $('latency-box').hidden = !latency;
    $('latency').textContent = latency ? latency[1] : '';
    table(session.facts);
    downloads(result.files);
    timelineOf(session);
  }

  async function run() {
    $('run').disabled = true;
    state('running ...');
    try {
      const given = await chosen();
      const result = await new Promise((resolve) => {
        answered = resolve;
        worker.postMessage({ words: wordsOf(given), files: given.files, wanted: [SESSION, SUMMARY, PERFETTO] });
      });
      await show(result);
      Object.assign(window.nkisim, { result, runs: window.nkisim.runs + 1 });
      state(result.code ? `nkisim ended with exit code ${result.code}` : `simulated in ${(result.ms / 1000).toFixed(2)} s, on this machine`);
    } catch (error) {
      state(String(error));
      throw error;
    } finally {
      $('run').disabled = false;
    }
  }

  // A trace and what it reads: the first file that is no array is the trace.
  async function take(list) {
    const given = [...list], trace = given.find((f) => !/\.(npz|npy|py|json)$/.test(f.name)) ?? given[0];
    if (!trace) return;
    const files = {};
    for (const f of given) files[f.name] = new Uint8Array(await f.arrayBuffer());
    own = { trace: trace.name, files, more: [] };
    $('compare').disabled = true;
    $('about').textContent = `own file ${trace.name}${given.length > 1 ? ` with ${given.length - 1} more` : ''}`;
    if (!$('run').disabled) await run();
  }

  function choose() {
    own = null;
    $('compare').disabled = false;
    $('about').textContent = examples[$('example').selectedIndex]?.about ?? '';
  }

  function listen() {
    $('run').onclick = run;
    $('options').addEventListener('keydown', (e) => { if (e.key === 'Enter' && !$('run').disabled) run(); });
    $('example').onchange = choose;
    $('own').onchange = () => take($('own').files);
    for (const kind of ['dragover', 'dragleave', 'drop']) {
      document.addEventListener(kind, (e) => {
        e.preventDefault();
        document.body.classList.toggle('over', kind === 'dragover');
        if (kind === 'drop') take(e.dataTransfer.files);
      });
    }
  }

  async function start() {
    listen();
    const loaded = new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => {
        if (data.ready) resolve();
        else if (data.failed) reject(new Error(data.failed));
        else answered(data);
      };
      worker.onerror = (e) => reject(new Error(e.message || 'the worker could not be loaded'));
    });
    examples = await (await fetch('examples.json')).json();
    $('example').replaceChildren(...examples.map((e) => text('option', e.name)));
    choose();
    await loaded;
    $('run').disabled = false;
    state(`ready after ${(performance.now() / 1000).toFixed(2)} s`);
    window.nkisim.ready = true;
  }

  start().catch((error) => {
    state(`The page could not start: ${error}. It must be opened through a web server; `
      + 'on this machine: python3 -m http.server -d build/web/site');
    throw error;
  });
})();
