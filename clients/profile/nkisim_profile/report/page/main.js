'use strict';
// Starts the HTML report of a simulated run: it builds the panels and connects their events.

window.nkisim = { view, found: () => found, show: (i) => show(i), search: (words) => search(words) };
(async () => {
  const began = performance.now();
  await load();
  Object.assign(window.nkisim, { data: D, timeline: T, load_ms: performance.now() - began });
  view.to = D.end_ns;
  head();
  paint('opcode');
  draw();
  timelineEvents();
  hot();
  regions();
  stalls();
  roofline();
  opcodes();
  dmaSizes();
  facts();
  Object.assign(window.nkisim, { slices: T.count, ready_ms: performance.now() - began, ready: true });
})().catch((error) => {
  document.body.prepend(document.createTextNode('The report could not be opened: ' + error));
  throw error;
});
