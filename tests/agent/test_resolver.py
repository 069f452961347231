"""Expressions in arguments: values keep their types, failures are told, code is left alone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.agent.tools.file_access import Refused
from akg_tui.agent.tools.resolver import MAX_EXPRESSIONS, Unresolved, resolve

FILES = {
    "path/to/result.json": {
        "status": "success",
        "output": "class ModelNew: pass",
        "data": {"code": "x = 1", "n": 3, "ok": True, "list": [{"nested": 1.5}, None]},
        "it's": "quoted",
    },
    "chained.json": {"output": '{"speedup": 2.5, "op_name": "relu"}'},
}


def read(path: str) -> bytes:
    if path == "broken.json":
        return b"{"
    if path not in FILES:
        raise Refused(f"{path}: not among the files")
    return json.dumps(FILES[path]).encode()


def value(text: object, how: str = "always") -> object:
    return resolve({"a": text}, read, lambda name: how)["a"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        # the two examples of the specification
        ("read_json_file('path/to/result.json')['output']", "class ModelNew: pass"),
        ("read_json_file('path/to/result.json')['data']['code']", "x = 1"),
        # a whole value keeps its type
        ("read_json_file('path/to/result.json')['data']['n']", 3),
        ("read_json_file('path/to/result.json')['data']['ok']", True),
        ("read_json_file('path/to/result.json')['data']['list'][0]['nested']", 1.5),
        ("read_json_file('path/to/result.json')['data']['list'][-1]", None),
        ("read_json_file('path/to/result.json')['data']['list']['0']", {"nested": 1.5}),
        ("  read_json_file( 'chained.json' )\n", FILES["chained.json"]),
        ('read_json_file("path/to/result.json")["status"]', "success"),
        (r"read_json_file('path/to/result.json')['it\'s']", "quoted"),
        # one inside a text becomes text
        ("got read_json_file('path/to/result.json')['data']['n'] of 9", "got 3 of 9"),
        ("read_json_file('path/to/result.json')['data']['ok']!", "true!"),
        (
            "read_json_file('chained.json')['output']['op_name'] and "
            "read_json_file('path/to/result.json')['status']",
            "relu and success",
        ),
        # the JSON in a tool's output is reached by its keys
        ("read_json_file('chained.json')['output']['speedup']", 2.5),
        # what is none is left alone
        ("call read_json_file(path) yourself", "call read_json_file(path) yourself"),
        (7, 7),
        ({"k": "read_json_file('x')"}, {"k": "read_json_file('x')"}),
        (["a", "read_json_file('path/to/result.json')['data']['n']", 2], ["a", 3, 2]),
    ],
)
def test_an_expression_is_replaced_by_what_it_stands_for(text, meant) -> None:
    found = value(text)
    assert found == meant
    assert type(found) is type(meant)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("read_json_file('absent.json')['a']", "a: absent.json: not among the files"),
        ("read_json_file('../../etc/passwd')", "not among the files"),
        ("read_json_file('broken.json')", "broken.json: not JSON"),
        ("read_json_file('chained.json')['missing']", "has no 'missing'; it has: output"),
        ("read_json_file('path/to/result.json')['data']['list'][9]", "a list of 2, which has no"),
        ("read_json_file('path/to/result.json')['output']['x']", "is a text, which has no ['x']"),
        ("read_json_file('path/to/result.json')['data']['n']['x']", "is 3, which has no ['x']"),
        ("read_json_file('chained.json'", "is not read_json_file('path') and keys"),
        ("see read_json_file('chained.json", "is not read_json_file('path') and keys"),
    ],
)
def test_a_failure_is_told_and_never_passed_on_as_text(text: str, why: str) -> None:
    with pytest.raises(Unresolved) as told:
        value(text)
    assert why in str(told.value)


def test_code_and_prose_are_resolved_only_as_a_whole_and_data_never() -> None:
    code = "x = read_json_file('chained.json')['output']\n"
    assert value(code, "whole") == code.replace(code.strip(), code.strip())
    whole = "read_json_file('chained.json')['output']['speedup']"
    assert value(whole, "whole") == 2.5
    assert value(whole, "never") == whole


def test_a_resolved_value_is_not_resolved_again() -> None:
    FILES["again.json"] = {"a": "read_json_file('absent.json')"}
    assert value("read_json_file('again.json')['a']") == "read_json_file('absent.json')"
    assert value("see read_json_file('again.json')['a']") == "see read_json_file('absent.json')"


def test_a_call_has_a_bounded_number_of_expressions() -> None:
    with pytest.raises(Unresolved, match="more than 50 expressions"):
        value("read_json_file('chained.json')['output'] " * (MAX_EXPRESSIONS + 1))


@given(st.text(max_size=80))
def test_any_text_is_resolved_or_refused(text: str) -> None:
    for shaped in (text, f"read_json_file('{text}", f"read_json_file('chained.json'){text}"):
        try:
            value(shaped)
        except Unresolved:
            continue
