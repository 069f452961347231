"""What can be told of a kernel without running it.

Pure: reads text, runs nothing, so it may be called in the engine's own process.
"""

from __future__ import annotations

import ast

SOURCE_LIMIT = 1 << 20


def syntax_fault(source: str, entry: str = "ModelNew") -> str | None:
    """Return in one line why `source` can't be a kernel, or None.

    A kernel parses as Python and binds `entry` at its top level, by a class, an assignment
    or an import.
    """
    if len(source) > SOURCE_LIMIT:
        return f"the file has {len(source)} characters; the limit is {SOURCE_LIMIT}"
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return f"line {error.lineno or 1}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"the file can't be parsed: {str(error) or type(error).__name__}"
    if entry not in _bound_names(tree.body):
        return f"line 1: the file defines no class {entry}"
    return None


def _bound_names(body: list[ast.stmt]) -> set[str]:
    names: set[str] = set()
    for statement in body:
        match statement:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names.update(target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.update(alias.asname or alias.name for alias in aliases)
            case ast.If(body=inner, orelse=other):
                names |= _bound_names(inner) | _bound_names(other)
            case ast.Try(body=inner, handlers=handlers, orelse=other):
                names |= _bound_names(inner) | _bound_names(other)
                for handler in handlers:
                    names |= _bound_names(handler.body)
            case ast.With(body=inner):
                names |= _bound_names(inner)
            case _:
                continue
    return names
