'use strict';
// Reads the profile file (.npz) of a run in the browser.

// The members of a ZIP file by name: compressed bytes, and how.
function members(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length), found = new Map();
  let end = bytes.length - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end--;
  if (end < 0) throw new Error('the session is no ZIP file');
  let at = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left--) {
    const [name, extra, comment] = [28, 30, 32].map((o) => view.getUint16(at + o, true));
    const local = view.getUint32(at + 42, true);
    const from = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    found.set(new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + name)).replace(/\.npy$/, ''), {
      method: view.getUint16(at + 10, true), data: bytes.subarray(from, from + view.getUint32(at + 20, true)) });
    at += 46 + name + extra + comment;
  }
  return found;
}

// A column: bytes, or numbers (times in femtoseconds are exact to 9 s).
async function npy(member) {
  let bytes = member.data;
  if (member.method === 8) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
    bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  }
  const size = new DataView(bytes.buffer, bytes.byteOffset).getUint16(8, true);
  const header = new TextDecoder().decode(bytes.subarray(10, 10 + size)), data = bytes.slice(10 + size);
  if (header.includes("'|u1'")) return data;
  if (header.includes("'<i8'")) return Float64Array.from(new BigInt64Array(data.buffer), Number);
  throw new Error(`a column of the session is ${header}`);
}

// {facts, texts, TABLE: {COLUMN: numbers}}, of the tables that the timeline asks.
async function readSession(bytes) {
  const all = members(bytes), session = {};
  const text = new TextDecoder();
  session.facts = JSON.parse(text.decode(await npy(all.get('facts'))));
  const blob = await npy(all.get('texts.bytes'));
  let from = 0;
  session.texts = [...await npy(all.get('texts.ends'))].map((end) => {
    const one = text.decode(blob.subarray(from, end));
    from = end;
    return one;
  });
  for (const [name, member] of all) {
    const [table, column] = name.split('.');
    if (!['insts', 'parts', 'transfers', 'queues', 'charged', 'collectives', 'path'].includes(table)) continue;
    session[table] ??= {};
    session[table][column] = await npy(member);
  }
  return session;
}
