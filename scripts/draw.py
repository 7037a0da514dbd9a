"""Generates random mutants (small mistakes put into code) for scripts/mutate --draw. Every
comparison, constant, sign and statement of a file can get one, so that no person chooses the
mistakes.

What is no code (comments, texts, the preprocessor's lines, assertions) has no places.
"""

import ast
import io
import random
import re
import tokenize

_SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
          "and": "or", "or": "and", "+": "-", "-": "+"}
_KINDS = {**dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), "comparison"), "+": "sign", "-": "sign",
          **dict.fromkeys(("&&", "||", "and", "or"), "condition")}
#: Text that is no code in C++: comments, strings, characters, lines of the preprocessor, assertions.
_NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^\s*#[^\n]*|'
                      r'\b(?:static_)?assert\s*\([^;]*;', re.DOTALL | re.MULTILINE)
_OPERATOR = re.compile(r"(?<= )(<=|>=|==|!=|&&|\|\||<|>|\+|-)(?= )")
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.'])")
_STATEMENT = re.compile(r"^( +)((?!return|throw|break|continue|using|case|delete|co_|else|if|for|while|"
                        r"const|auto|std::)[a-z_][\w.\[\]>-]*(?:\(| [-+*|&^]?= )[^{}\n]*;)$", re.MULTILINE)


def _cpp(text):
    bare = _NO_CODE.sub(lambda m: re.sub(r"[^\n]", "\x00", m[0]), text)
    for m in _OPERATOR.finditer(bare):
        yield m.start(1), m[1], _SWAPS[m[1]], _KINDS[m[1]]
    for m in _NUMBER.finditer(bare):
        yield m.start(), m[0], str(int(m[0]) + 1), "constant"
    for m in _STATEMENT.finditer(bare):
        yield m.start(2), text[m.start(2):m.end(2)], ";", "statement"


def _python(text):
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        at = starts[token.start[0] - 1] + token.start[1]
        if token.string in _SWAPS and token.type in (tokenize.OP, tokenize.NAME):
            yield at, token.string, _SWAPS[token.string], _KINDS[token.string]
        elif token.type == tokenize.NUMBER and token.string.isdecimal():
            yield at, token.string, str(int(token.string) + 1), "constant"
    for node in ast.walk(ast.parse(text)):
        call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        if (call or isinstance(node, ast.AugAssign)) and node.lineno == node.end_lineno and text.isascii():
            at = starts[node.lineno - 1] + node.col_offset
            yield at, text[at:starts[node.lineno - 1] + node.end_col_offset], "pass", "statement"


def places(name, text):
    """[(position, found, replacement, kind)] of a file, in its order."""
    return sorted(_python(text) if name.endswith(".py") else _cpp(text))


def drawn(files, count, seed):
    """`count` mutants of files ({name: (text, group, stages)}): a file, one of its kinds and one of its
    places, each drawn evenly, so that neither long files nor frequent kinds take all."""
    rng, found, taken = random.Random(seed), [], set()
    every = {name: places(name, text) for name, (text, _, _) in files.items()}
    names = sorted(name for name, some in every.items() if some)
    for _ in range(100 * count):
        if len(found) == count:
            break
        name = rng.choice(names)
        text, group, stages = files[name]
        kind = rng.choice(sorted({k for _, _, _, k in every[name]}))
        at, old, new, _ = rng.choice([p for p in every[name] if p[3] == kind])
        if (name, at) in taken:
            continue
        taken.add((name, at))
        line = text.count("\n", 0, at) + 1
        found.append({"id": f"{kind[:4]}-{len(found) + 1}", "group": group, "file": name, "by": stages, "at": at,
                      "find": old, "replace": new, "kind": kind,
                      "what": f"line {line}: {' '.join(old.split())[:50]} -> {new}"})
    return found
