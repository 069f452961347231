"""What plays which role in a kernel's syntax: tree-sitter queries, a capture named for its role.

Only tables. A later pattern goes over an earlier one on the same text, an inner node over an
outer one. The words of a language stand apart, as a grammar may not know them all.
"""

from __future__ import annotations

from typing import Final

from akg_tui.grammars import Grammar

_PYTHON_WORDS: Final = {
    "keyword": (
        "and as assert async await break case class continue def del elif else except finally "
        "for from global if import in is lambda match nonlocal not or pass raise return try "
        "while with yield"
    ),
    "operator": (
        "- -= != * ** **= *= / // //= /= & &= % %= ^ ^= + -> += < << <<= <= = := == > >= >> "
        ">>= | |= ~ @ @= ( ) [ ] { } , . : ;"
    ),
}

_PYTHON: Final = r"""
(comment) @comment
(string) @string
(interpolation) @text
[(integer) (float)] @number
[(true) (false) (none)] @keyword
["is not" "not in"] @keyword
(call function: (identifier) @function)
(call function: (attribute attribute: (identifier) @function))
(identifier) @builtin
(keyword_argument name: (identifier) @text)
(attribute attribute: (identifier) @text)
(call function: (attribute attribute: (identifier) @function))
(type (identifier) @type)
(type (attribute) @type)
(class_definition name: (identifier) @type)
(function_definition name: (identifier) @function)
(decorator "@" @function)
(decorator (identifier) @function)
(decorator (attribute) @function)
(decorator (attribute attribute: (identifier) @function))
(module . (expression_statement . (string) @comment .))
(module . (comment) . (expression_statement . (string) @comment .))
(block . (expression_statement . (string) @comment .))
"""

BUILTINS: Final = frozenset(
    (
        b"abs all any bool bytearray bytes dict divmod enumerate filter float frozenset getattr "
        b"hasattr int isinstance issubclass iter len list map max memoryview min next object open "
        b"pow print property range repr reversed round set setattr slice sorted staticmethod str "
        b"sum super tuple type vars zip"
    ).split()
)
"""What the capture `builtin` stands for: told by its text, as a predicate of a query is slow."""

_CPP_WORDS: Final = {
    "keyword": (
        "alignas alignof asm break case catch class co_await co_return co_yield concept const "
        "consteval constexpr constinit continue decltype default delete do else enum explicit "
        "extern final for friend goto if inline mutable namespace new noexcept operator override "
        "private protected public register requires restrict return sizeof static static_assert "
        "struct switch template thread_local throw try typedef typename union using virtual "
        "volatile while __attribute__ __declspec __restrict__ __launch_bounds__ "
        "__global__ __device__ __host__ __shared__ __constant__ __forceinline__ __noinline__ "
        "__grid_constant__ __managed__"
    ),
    "operator": (
        "-- - -= -> != ! * *= / /= && & &= % %= ^ ^= ++ + += < << <<= <= = == > >= >> >>= || | "
        "|= ~ ( ) [ ] { } , . : :: ; ? <<< >>>"
    ),
    "preproc": "#include #define #if #ifdef #ifndef #else #elif #elifdef #elifndef #endif",
}

_CPP: Final = r"""
(comment) @comment
[(string_literal) (raw_string_literal) (char_literal) (system_lib_string)] @string
(number_literal) @number
[(true) (false) (this) (null)] @keyword
[(primitive_type) (sized_type_specifier) (type_identifier) (auto)] @type
(preproc_directive) @preproc
(preproc_arg) @preproc
(preproc_def name: (identifier) @preproc)
(preproc_function_def name: (identifier) @preproc)
(call_expression function: (identifier) @function)
(call_expression function: (field_expression field: (field_identifier) @function))
(call_expression function: (qualified_identifier name: (identifier) @function))
(template_function name: (identifier) @function)
(function_declarator declarator: (identifier) @function)
(function_declarator declarator: (field_identifier) @function)
(function_declarator declarator: (qualified_identifier name: (identifier) @function))
"""

QUERIES: Final[dict[Grammar, tuple[str, dict[str, str]]]] = {
    "python": (_PYTHON, _PYTHON_WORDS),
    "cpp": (_CPP, _CPP_WORDS),
    "cuda": (_CPP, _CPP_WORDS),
}
