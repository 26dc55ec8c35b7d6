"""``kcheck lsp``: a language server for specs, over stdin and stdout (docs/editor.md).

Specs are read by ``kcheck.specfile`` in this process, which imports no user code. Kernels run in a child process,
``kcheck run``. Only ``server`` imports pygls.
"""
