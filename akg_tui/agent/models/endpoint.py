"""The endpoint of a served model: its address, the model's name, and the key.

Owns the key: reads it from a file or from the environment, for the headers of requests, and
removes it from every message.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from akg_tui.core.sanitize import Said, SaidError, one_line
from akg_tui.core.task import MAKERS, Agent, Api, is_makers

KEY_VARIABLES: dict[Api, str] = {"messages": "ANTHROPIC_API_KEY", "chat": "OPENAI_API_KEY"}
MAX_KEY = 1_000
_REQUEST = "/chat/completions"

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class KeyMissing(SaidError, ValueError):
    """There is no key, or the key is unusable; the message names its file or its variable."""


class Endpoint:
    """A model at a server. Its `repr` omits the key.

    Parameters
    ----------
    base_url : str
        The address without ``/v1/messages`` or ``/chat/completions``; "" for the server of the
        API's maker. For chat completions an address without a path gets ``/v1``.
    key : str
        The API key; "" for a server that requires none.
    api : {"messages", "chat"}
        The API that the server speaks.
    withheld : bool
        A folder has named the server, so it does not get the environment's key.
    """

    def __init__(
        self,
        model: str,
        base_url: str = "",
        key: str = "",
        api: Api = "messages",
        *,
        withheld: bool = False,
    ) -> None:
        self.model = model
        self.api: Api = api
        self.key = key
        self.withheld = withheld
        at = base_url.rstrip("/")
        if api == "chat":
            at = at.removesuffix(_REQUEST)
            at = at if not at or urlsplit(at).path else f"{at}/v1"
        self.base_url = at or MAKERS[api]

    def __repr__(self) -> str:
        return f"Endpoint({self.model!r}, {self.base_url!r})"

    @property
    def is_anthropic(self) -> bool:
        return self.base_url == MAKERS["messages"]

    @property
    def is_openai(self) -> bool:
        return self.base_url == MAKERS["chat"]

    @property
    def key_variable(self) -> str:
        """The environment's variable for the key."""
        return KEY_VARIABLES[self.api]

    @property
    def is_loopback(self) -> bool:
        return urlsplit(self.base_url).hostname in _LOOPBACK

    def scrub(self, text: str, width: int = 300) -> str:
        """Return `text` on one line, safe to print, with the key replaced by ``[key]``."""
        return one_line(text.replace(self.key, "[key]") if self.key else text, width)


def endpoint_of(
    agent: Agent, environment: Mapping[str, str], *, own_server: bool = True
) -> Endpoint:
    """Return the endpoint that a task's agent names, with its key.

    The key's file takes precedence over the environment. The environment's key goes to the server
    of the API's maker, and to another one only if the user has named it (`own_server`), and not
    over plain http to another machine. A key from a file is sent there too, because a person chose
    it for that server. Raises `KeyMissing`.
    """
    bare = Endpoint(agent.model, agent.base_url, api=agent.api)
    if agent.api_key_file:
        return Endpoint(agent.model, agent.base_url, _key_in(agent.api_key_file), agent.api)
    name = bare.key_variable
    in_clear = bare.base_url.startswith("http://") and not bare.is_loopback
    withheld = not (own_server or is_makers(bare.base_url, agent.api))
    key = "" if in_clear or withheld else environment.get(name, "").strip()
    if not key and (bare.is_anthropic or bare.is_openai):
        raise KeyMissing(
            "no key for {model}: set {name}, or give --api-key-file; the sweep agent "
            "(--agent sweep) needs none",
            model=agent.model,
            name=name,
        )
    if fault := _key_fault(key):
        raise KeyMissing(f"{name}: {fault}")
    return Endpoint(agent.model, agent.base_url, key, agent.api, withheld=withheld)


def sdk_missing(api: Api) -> str:
    """Return why the SDK of `api` cannot be used, or ""; nothing is imported."""
    if api == "chat" and find_spec("openai") is None:
        return "chat completions need the package openai: pip install 'akg-tui[openai]'"
    return ""


def _key_in(name: str) -> str:
    path = Path(name)
    try:
        path = path.expanduser()
        with path.open(encoding="utf-8") as file:
            key = file.read(MAX_KEY + 1).strip()
    except OSError as error:
        raise KeyMissing(
            "cannot read the key file {path}: {why}", path=path, why=error.strerror
        ) from None
    except UnicodeDecodeError:
        raise KeyMissing("the key file {path} is not text", path=path) from None
    except (ValueError, RuntimeError) as error:  # a NUL in it, or the home of nobody
        raise KeyMissing("cannot read the key file {path}: {why}", path=path, why=error) from None
    fault = "is empty" if not key else _key_fault(key)
    if fault:
        raise KeyMissing("the key file {path}: {why}", path=path, why=fault)
    return key


def _key_fault(key: str) -> str:
    """Return why `key` cannot be sent in a header, or ""; the text never contains the key."""
    if len(key) > MAX_KEY:
        return Said("a key has at most {n} characters", n=MAX_KEY)
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        return "a key is one word of plain letters, digits and marks"
    return ""
