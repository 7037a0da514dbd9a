// The VS Code extension: it starts nkisim's language server and debugger, and shows a kernel's
// report. The workspace's trust decides which code the server may execute (docs/security.md).
const { execFile } = require("child_process");
const fs = require("fs");
const os = require("os");
const path = require("path");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function program() {
  return vscode.workspace.getConfiguration("nkisim").get("program", "nkisim");
}

// The name of the last function at the left margin that begins at or before a line, decorators included.
function functionAt(text, line) {
  const lines = text.split("\n");
  let name;
  for (let at = 0; at < lines.length; at++) {
    const found = /^def\s+(\w+)/.exec(lines[at]);
    let first = at;
    while (found && first > 0 && lines[first - 1].startsWith("@")) first--;
    if (found && (first <= line || name === undefined)) name = found[1];
  }
  return name;
}

async function showReport() {
  const editor = vscode.window.activeTextEditor;
  if (!editor || !vscode.workspace.isTrusted) return;
  const name = functionAt(editor.document.getText(), editor.selection.active.line);
  if (name === undefined) {
    vscode.window.showErrorMessage("nkisim: there is no function here");
    return;
  }
  await editor.document.save();
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "nkisim-"));
  const page = path.join(folder, "report.html");
  const words = ["kernel", `${editor.document.fileName}:${name}`, "--html", page];
  const progress = { location: vscode.ProgressLocation.Notification, title: `nkisim: simulating ${name}` };
  const said = await vscode.window.withProgress(progress, () => new Promise((done) => {
    execFile(program(), words, { maxBuffer: 64 << 20 }, (problem, out, err) => done(problem ? err || `${problem}` : ""));
  }));
  if (!fs.existsSync(page)) {
    vscode.window.showErrorMessage(said || "nkisim wrote no report");
    return;
  }
  const panel = vscode.window.createWebviewPanel(
    "nkisimReport", `nkisim: ${name}`, vscode.ViewColumn.Beside, { enableScripts: true, retainContextWhenHidden: true });
  panel.webview.html = fs.readFileSync(page, "utf8");
  fs.rmSync(folder, { recursive: true });
}

// The debugger executes the kernel, so it starts in a trusted workspace only.
const debuggers = {
  createDebugAdapterDescriptor() {
    if (!vscode.workspace.isTrusted) throw new Error("nkisim: a kernel is debugged in a trusted workspace only");
    return new vscode.DebugAdapterExecutable(program(), ["debug", "--dap"]);
  },
};

// Without a launch.json: the kernel at the cursor.
const configurations = {
  resolveDebugConfiguration(folder, config) {
    const editor = vscode.window.activeTextEditor;
    if (config.type || !editor || editor.document.languageId !== "python") return config;
    const name = functionAt(editor.document.getText(), editor.selection.active.line);
    const file = editor.document.fileName;
    return { type: "nkisim", request: "launch", name: "nkisim", program: name === undefined ? file : `${file}:${name}` };
  },
};

function activate(context) {
  context.subscriptions.push(
    vscode.debug.registerDebugAdapterDescriptorFactory("nkisim", debuggers),
    vscode.debug.registerDebugConfigurationProvider("nkisim", configurations));
  context.subscriptions.push(vscode.commands.registerCommand("nkisim.report", showReport));
  client = new LanguageClient("nkisim", "nkisim", { command: program(), args: ["lsp"] }, {
    documentSelector: [{ scheme: "file", language: "python" }],
    initializationOptions: { trusted: vscode.workspace.isTrusted },
  });
  context.subscriptions.push(vscode.workspace.onDidGrantWorkspaceTrust(
    () => client.sendNotification("nkisim/trust", { trusted: true })));
  client.start().catch(() => {});  // it says so itself; the debugger neither waits for the server nor fails with it
}

function deactivate() {
  return client && client.stop();
}

module.exports = { activate, deactivate, functionAt };
