"""One test for many small cases: `@cases(names, values)` has the arguments of `pytest.mark.parametrize`.

A separate test costs pytest and xdist three milliseconds, many times what a case that calls one function takes. All
cases run even if one fails, and the error names every failed case:

    @cases("text, value", [("1", 1), ("1k", 1000)])
    def test_quantity(text: str, value: int) -> None:
        assert parse(text) == value

Other arguments are fixtures, as usual; all cases share them. A case that needs its own fixture (`tmp_path`,
`monkeypatch`) or takes long is a separate test. `checking` is for cases that share a server within a test:

    async with served() as api:
        with checking() as case:
            for query in QUERIES:
                with case(query):
                    await api.list("configmaps", **query)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import update_wrapper
from reprlib import Repr
from typing import Any

import pytest

Test = Callable[..., Any]
_FAILURES = (Exception, pytest.fail.Exception)
_LONG = 300  # characters of a case in the error
_short = Repr()
_short.maxstring = _short.maxother = _LONG
_short.maxdict = _short.maxlist = _short.maxtuple = _short.maxlevel = 10


def cases(
    names: str | Sequence[str],
    values: Iterable[Any],
    ids: Callable[[Any], object] | Iterable[object] | None = None,
) -> Callable[[Test], Test]:
    """Run the test once for each of the values. `ids` is not used: an error shows the values themselves."""
    split = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    return lambda test: _all_cases(test, [_Case(split, value) for value in values])


class _Case:
    def __init__(self, names: list[str], value: Any) -> None:
        self._id = ""
        if isinstance(value, type(pytest.param())):
            assert not value.marks, "a case with marks is a test of its own"
            self._id, given = str(value.id or ""), value.values
        else:
            given = (value,) if len(names) == 1 else tuple(value)
        assert len(given) == len(names), f"{len(names)} names, but {_short.repr(given)}"
        self.arguments = dict(zip(names, given, strict=True))

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={_short.repr(value)}" for name, value in self.arguments.items())
        return f"{self._id}: {arguments}" if self._id else arguments


def _all_cases(test: Test, given: list[_Case]) -> Test:
    assert given, "a test without cases cannot fail"

    def run(**fixtures: Any) -> None:
        __tracebackhide__ = True
        with checking() as case:
            for one in given:
                with case(one):
                    test(**one.arguments, **fixtures)

    async def run_async(**fixtures: Any) -> None:
        __tracebackhide__ = True
        with checking() as case:
            for one in given:
                with case(one):
                    await test(**one.arguments, **fixtures)

    wrapper = update_wrapper(run_async if inspect.iscoroutinefunction(test) else run, test)
    return _with_other_parameters(wrapper, test, given[0].arguments)


@contextmanager
def checking() -> Iterator[Callable[[object], AbstractContextManager[None]]]:
    """Run each case in its own context; at the end, raise an error that names every failed case."""
    __tracebackhide__ = True
    failures = _Failures()
    yield failures.of
    failures.report()


class _Failures:
    def __init__(self) -> None:
        self._cases = 0
        self._errors: list[BaseException] = []

    @contextmanager
    def of(self, case: object) -> Iterator[None]:
        self._cases += 1
        try:
            yield
        except _FAILURES as error:
            text = case if isinstance(case, _Case) else _short.repr(case)
            error.add_note(f"in the case {text}")
            self._errors.append(error)

    def report(self) -> None:
        __tracebackhide__ = True
        assert self._cases, "a test without cases cannot fail"
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise BaseExceptionGroup(f"{len(self._errors)} of {self._cases} cases failed", self._errors)


def _with_other_parameters(wrapper: Test, test: Test, given: Iterable[str]) -> Test:
    """Hide the parameters of the cases from pytest, which would look for fixtures of these names."""
    signature = inspect.signature(test)
    parameters = dict(signature.parameters)
    for name in given:
        del parameters[name]
    wrapper.__signature__ = signature.replace(parameters=list(parameters.values()))  # type: ignore[attr-defined]
    return wrapper
