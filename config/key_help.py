"""The help of settings: the docstrings of their keys."""

from __future__ import annotations

import ast
import inspect
import textwrap

from macontrol.config.schema import Config


def key_help(config: Config) -> dict[str, str]:
    """The docstrings of all keys that have one, by path without a driver's name."""
    return {
        f"{section}.{key}": text
        for section in Config.model_fields
        for key, text in docs_of(type(getattr(config, section))).items()
    }


def docs_of(model: type) -> dict[str, str]:
    """The docstrings of a model's keys, with those of the models it builds on."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if each.__module__.partition(".")[0] != "pydantic" and each is not object:
            found |= _own_docs(each)
    return found


def _own_docs(model: type) -> dict[str, str]:
    try:
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    except (OSError, TypeError, SyntaxError):  # without the source there is no help
        return {}
    assert isinstance(body, ast.ClassDef)
    found = {}
    for key, text in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(key, ast.AnnAssign)
            and isinstance(key.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            found[key.target.id] = " ".join(str(text.value.value).split())
    return found
