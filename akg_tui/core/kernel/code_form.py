"""The normal form of a kernel's text: equal for copies that differ in comments and blanks only.

Pure. Of Python it is the syntax tree without docstrings; of other files, and of a string of
several lines, which is code for a compiler, it is the tokens of C++ without comments.
"""

from __future__ import annotations

import ast
import re
import warnings

from akg_tui.core.kernel.kernel_files import Kernel, files_of

_TOKEN = re.compile(
    r'(?P<text>R"(?P<end>[^(\s"]{0,16})\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
    r"|(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/|\\\n)|(?P<line>\n)"
    r"|[\w.]+|<<=|>>=|->|::|\+\+|--|<<|>>|&&|\|\||[-+*/%&|^=!<>]=|[^\w\s]",
    re.S,
)


def code_form(kernel: Kernel) -> str:
    """Return the normal form of a kernel. Python that cannot be parsed is its own form."""
    return "\0".join(
        f"{name}\0{_python(each) if name.endswith('.py') else _tokens(each)}"
        for name, each in files_of(kernel, "kernel.py").texts.items()
    )


def _python(text: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text)
        return ast.dump(_Plain().visit(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text


class _Plain(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        docstring = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if docstring else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and "\n" in node.value:
            return ast.Constant(_tokens(node.value))
        return node


def _tokens(text: str) -> str:
    """Return the tokens; the end of a line counts where the line is a directive."""
    found: list[str] = []
    directive, fresh = False, True
    for match in _TOKEN.finditer(text):
        token = match[0]
        if match["comment"] is not None:
            continue
        if match["line"] is not None:
            if directive:
                found.append(token)
            directive, fresh = False, True
            continue
        if fresh and token == "#":
            directive = True
            found.append("\n")
        fresh = False
        found.append(token)
    return "\0".join(found)
