"""The W3C trace context of the request that the current task serves: what calls to other servers pass on.

    with span("Call validating webhook", webhook=hook.name):
        await client.request(url, {**headers, **passed_on()}, body)

`begin` is called for each request that has a context, or that is traced (`gateway.ops.tracing`); tasks that the request
starts inherit it. Without one, `span` and `passed_on` do nothing. This module imports no library of tracing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

NOTHING: Final[Mapping[str, str]] = {}


class Span(Protocol):
    @property
    def headers(self) -> Mapping[str, str]:
        """The headers by which another server continues the trace below this span."""

    def child(self, name: str, attributes: Mapping[str, str]) -> Span: ...

    def end(self, problem: str = "") -> None: ...


class PassedOn:
    """The context of a client, which is passed on as it is: nothing is recorded here."""

    __slots__ = ("headers",)

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.headers = headers

    def child(self, name: str, attributes: Mapping[str, str]) -> PassedOn:
        return self

    def end(self, problem: str = "") -> None:
        pass


_current: Final[ContextVar[Span | None]] = ContextVar("span", default=None)


def set_span(one: Span | None) -> None:
    """The task serves a request with this span from now on; None: with none, or no request."""
    _current.set(one)


def passed_on() -> Mapping[str, str]:
    """The headers for a call to another server."""
    one = _current.get()
    return NOTHING if one is None else one.headers


@contextmanager
def span(name: str, **attributes: str) -> Iterator[None]:
    """Record a step of the request, if it is traced."""
    around = _current.get()
    if around is None:
        yield
        return
    inner = around.child(name, attributes)
    token = _current.set(inner)
    try:
        yield
    except BaseException as error:
        inner.end(f"{type(error).__name__}: {error}")
        raise
    else:
        inner.end()
    finally:
        _current.reset(token)
