"""Implements `nkisim lsp`, the language server that checks and times a kernel while it is typed (docs/editor.md).

The module server speaks the protocol and runs no user's code; warm is a process that has imported everything and
forks one for each text; study is what happens there: the file is executed, and its kernels are
simulated on their example arguments. static is what can be said without executing anything.
"""
