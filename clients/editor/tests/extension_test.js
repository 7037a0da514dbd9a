// Tests the VS Code extension with a stand-in for the editor: its processes, its messages on trust.
const assert = require("assert");
const Module = require("module");

const started = [], sent = [], registered = {}, debug = {};
let granted, fail;
const vscode = {
  workspace: {
    isTrusted: false,
    getConfiguration: () => ({ get: (name, fallback) => fallback }),
    onDidGrantWorkspaceTrust: (call) => { granted = call; return { dispose() {} }; },
  },
  commands: { registerCommand: (name, call) => { registered[name] = call; return { dispose() {} }; } },
  window: { activeTextEditor: undefined },
  debug: {
    registerDebugAdapterDescriptorFactory: (type, factory) => { debug[type] = factory; return { dispose() {} }; },
    registerDebugConfigurationProvider: (type, provider) => { debug.provider = provider; return { dispose() {} }; },
  },
  DebugAdapterExecutable: class { constructor(command, args) { Object.assign(this, { command, args }); } },
};
class LanguageClient {
  constructor(...given) { started.push(given); }
  start() { return new Promise((_, reject) => { fail = reject; }); }
  async stop() {}
  sendNotification(...given) { sent.push(given); }
}
const load = Module._load;
Module._load = (name, ...rest) => name === "vscode" ? vscode :
  name === "vscode-languageclient/node" ? { LanguageClient } : load(name, ...rest);

const extension = require(process.argv[2]);
(async () => {
  const late = setTimeout(() => { throw new Error("activation waits for the server"); }, 5000);
  await extension.activate({ subscriptions: [] });
  clearTimeout(late);
  fail(new Error("no server"));
  const [, , server, client] = started[0];
  assert.deepStrictEqual(server, { command: "nkisim", args: ["lsp"] });
  assert.deepStrictEqual(client.initializationOptions, { trusted: false });
  granted();
  assert.deepStrictEqual(sent, [["nkisim/trust", { trusted: true }]]);
  assert.deepStrictEqual(Object.keys(registered), ["nkisim.report"]);
  assert.throws(() => debug.nkisim.createDebugAdapterDescriptor(), /trusted workspace/);
  vscode.workspace.isTrusted = true;
  assert.deepStrictEqual({ ...debug.nkisim.createDebugAdapterDescriptor() }, { command: "nkisim", args: ["debug", "--dap"] });
  vscode.workspace.isTrusted = false;
  const given = { type: "nkisim", request: "launch", program: "k.py" };
  assert.deepStrictEqual(debug.provider.resolveDebugConfiguration(undefined, given), given);
  vscode.window.activeTextEditor = {
    document: { languageId: "python", fileName: "/a/k.py", getText: () => "def f(x):\n  pass\n" }, selection: { active: { line: 1 } } };
  assert.strictEqual(debug.provider.resolveDebugConfiguration(undefined, {}).program, "/a/k.py:f");
  vscode.window.activeTextEditor = undefined;
  await registered["nkisim.report"]();  // without an editor, and untrusted: nothing
  const text = "import nki\n\n@nki.jit\ndef a(x):\n  pass\n\n@nki.jit\ndef b(x):\n  pass\n";
  assert.deepStrictEqual([0, 3, 4, 6, 8].map((line) => extension.functionAt(text, line)), ["a", "a", "a", "b", "b"]);
  assert.strictEqual(extension.functionAt("x = 1\n", 0), undefined);
  await extension.deactivate();
})();
