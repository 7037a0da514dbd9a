'use strict';
// Runs the WebAssembly program nkisim in a worker of the browser, and returns its output and files.
importScripts('nkisim.js');

const compiled = fetch('nkisim.wasm').then((answer) => answer.arrayBuffer()).then((bytes) => WebAssembly.compile(bytes));
compiled.then(() => postMessage({ ready: true }), (error) => postMessage({ failed: String(error) }));

// What the program writes, a byte at a time, as text.
function sink() {
  const bytes = [];
  return { write: (byte) => { if (byte !== null) bytes.push(byte & 255); },
    text: () => new TextDecoder().decode(Uint8Array.from(bytes)) };
}

// { words, files: {PATH: bytes}, wanted: [PATH] } -> { code, out, err, files }
async function run({ words, files, wanted }) {
  const out = sink(), err = sink(), module = await compiled;
  const program = await makeNkisim({
    instantiateWasm: (imports, done) => {
      WebAssembly.instantiate(module, imports).then((instance) => done(instance, module));
      return {};
    },
    preRun: [(m) => m.FS.init(() => null, out.write, err.write)],  // not a terminal
  });
  for (const [path, bytes] of Object.entries(files)) {
    if (path.includes('/')) program.FS.mkdirTree(path.slice(0, path.lastIndexOf('/')));
    program.FS.writeFile(path, bytes);
  }
  const code = program.callMain(words), made = {};
  for (const path of wanted) {
    if (program.FS.analyzePath(path).exists) made[path] = program.FS.readFile(path);
  }
  return { code, out: out.text(), err: err.text(), files: made };
}

onmessage = async ({ data }) => {
  const began = performance.now();
  try {
    const result = await run(data);
    postMessage({ ...result, ms: performance.now() - began });
  } catch (error) {
    postMessage({ code: 4, out: '', err: `nkisim: ${error}\n`, files: {}, ms: performance.now() - began });
  }
};
