'use strict';
// Shows the kernel's source in the HTML report, with the simulated time of each line and region.

// The line's share of the critical paths, each as long as the run.
const onPath = (r) => percent(r.critical / D.end_fs / D.machine.cores);

function searchFor(words) {
  $('search').value = words;
  search(words);
  step(1);
  $('timeline').scrollIntoView({ block: 'center' });
}

function hot() {
  const L = D.lines, table = $('hot'), most = Math.max(1, ...L.rows.map((r) => r.critical));
  if (L.by !== 'source line') $('lines-title').textContent = 'Hot instructions (the trace names no source lines)';
  table.append(row([L.by, n('runs'), n('engine time'), n('waits'), n('critical path'), n('of the run')], 'th'));
  for (const r of L.rows) {
    const place = text('td', r.name.split('/').pop(), 'mono');
    place.title = r.name;
    const tr = row([place, n(r.count.toLocaleString('en')), n(ns(r.busy / 1e6)), n(ns(r.wait / 1e6)), n(ns(r.critical / 1e6)), n(onPath(r))]);
    tr.className = 'click bar';
    tr.style.setProperty('--share', `${100 * r.critical / most}%`);
    tr.onclick = () => {
      reveal(...split(r.name));
      searchFor(L.by === 'source line' ? r.name : r.name.split(' on ')[0]);
    };
    table.append(tr);
  }
  const files = Object.keys(L.files);
  $('lines').classList.toggle('alone', files.length === 0);
  $('source').hidden = files.length === 0;
  $('file').hidden = files.length < 2;
  $('file').append(...files.map((f) => text('option', f)));
  $('file').onchange = () => listing($('file').value);
  const first = L.rows.find((r) => L.files[split(r.name)[0]]);
  if (first) reveal(...split(first.name));
  window.addEventListener('line', (e) => {
    const file = e.detail < 0 ? '' : T.texts[T.insts.file[e.detail]];
    if (L.files[file]) reveal(file, T.insts.line[e.detail]);
  });
}

// The time of each region of the kernel (nkisim.region).
function regions() {
  const most = Math.max(1, ...D.regions.map((r) => r.critical));
  $('regions-box').hidden = D.regions.length === 0;
  $('regions').append(row(['region', n('runs'), n('engine time'), n('waits'), n('critical path'), n('of the run')], 'th'));
  for (const r of D.regions) {
    const tr = row([r.name || 'none', n(r.count.toLocaleString('en')), n(ns(r.busy / 1e6)), n(ns(r.wait / 1e6)), n(ns(r.critical / 1e6)), n(onPath(r))]);
    tr.className = 'click bar';
    tr.style.setProperty('--share', `${100 * r.critical / most}%`);
    tr.onclick = () => searchFor(r.name);
    $('regions').append(tr);
  }
}

function split(name) {
  const colon = name.lastIndexOf(':');
  return [name.slice(0, colon), Number(name.slice(colon + 1))];
}

// The listing of a file: critical path, engine time, line, text.
function listing(file) {
  const { lines, time } = D.lines.files[file], most = Math.max(1, ...Object.values(time).map((r) => r.critical));
  const header = row([n('critical'), n('engine'), n(''), file.split('/').pop()], 'th');
  $('code').replaceChildren(header, ...lines.map((line, i) => {
    const r = time[i + 1], tr = row([n(r ? onPath(r) : ''), n(r ? ns(r.busy / 1e6) : ''), n(i + 1), line]);
    if (r) {
      tr.className = 'click bar';
      tr.style.setProperty('--share', `${100 * r.critical / most}%`);
      tr.onclick = () => searchFor(`${file}:${i + 1}`);
    }
    return tr;
  }));
  $('code').dataset.file = file;
}

function reveal(file, line) {
  if (!D.lines.files[file]) return;
  if ($('code').dataset.file !== file) listing(file);
  $('file').value = file;
  for (const tr of $('code').querySelectorAll('.found')) tr.classList.remove('found');
  const tr = $('code').rows[line], pane = $('code').parentElement;
  if (!tr) return;
  tr.classList.add('found');
  pane.scrollTop = tr.offsetTop - pane.clientHeight / 2;
}
