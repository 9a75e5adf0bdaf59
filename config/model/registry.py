"""Find named descriptions: those of built-in packages, and those of other distributions.

A built-in one is a sub-package of one package. Another distribution registers one with an entry
point. Each exposes a description. Listing names imports none of them, and a broken distribution
fails only when it is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

from macontrol.config.model.errors import ConfigError
from macontrol.config.model.suggestion import did_you_mean, shortened

_Description = TypeVar("_Description")
_ATTRIBUTE = "DESCRIPTION"
"""What a built-in package calls its description."""


class Registry(Generic[_Description]):
    """The descriptions of one kind, as in "stage driver", by name.

    `description` is their class, as "module:name"; nothing else is accepted from a distribution.
    Built-in are the sub-packages that contain the file `marker`. `dash` stands in a name where its
    package has an underscore.
    """

    def __init__(
        self,
        kind: str,
        package: str,
        group: str,
        description: str = "",
        *,
        marker: str = "settings.py",
        dash: str = "_",
    ) -> None:
        self.kind = kind
        self.group = group
        self._description = description
        self._package = package
        self._marker, self._dash = marker, dash
        self._loaded: dict[str, _Description] = {}

    @cached_property
    def _built_in(self) -> dict[str, Path]:
        folders = (Path(folder) for folder in import_module(self._package).__path__)
        found = sorted(
            file.parent for folder in folders for file in folder.glob(f"*/{self._marker}")
        )
        return {package.name.replace("_", self._dash): package for package in found}

    @cached_property
    def _registered(self) -> dict[str, EntryPoint]:
        found = sorted(entry_points(group=self.group), key=lambda entry: entry.name)
        return {entry.name: entry for entry in found if entry.name not in self._built_in}

    def names(self) -> list[str]:
        """Every name, the built-in ones first."""
        return [*self._built_in, *self._registered]

    def __contains__(self, name: str) -> bool:
        return name in self._built_in or name in self._registered

    def __getitem__(self, name: str) -> _Description:
        """Load a description; ConfigError if the name is unknown, or the description is broken."""
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> _Description:
        if name in self._built_in:
            module = import_module(f"{self._package}.{self._built_in[name].name}")
            built_in: _Description = getattr(module, _ATTRIBUTE)
            return built_in
        if name not in self:
            raise ConfigError(
                f"no {self.kind} called {shortened(name)}", did_you_mean(name, self.names())
            )
        entry = self._registered[name]
        try:
            registered: _Description = entry.load()
            self._check(name, registered)
        except (Exception, SystemExit) as error:  # another distribution's code may raise anything
            source = entry.dist.name if entry.dist is not None else entry.value
            raise ConfigError(
                f"the {self.kind} {name} cannot be loaded: {type(error).__name__}: {error}",
                f"repair or remove the distribution {source}",
            ) from error
        return registered

    def _check(self, name: str, found: Any) -> None:
        if not self._description:
            return
        expected = resolve(self._description)
        if not isinstance(found, expected):
            raise TypeError(f"it is {type(found).__name__}, not {expected.__name__}")
        if found.name != name:
            raise ValueError(f"its description is called {found.name}")

    def working(self) -> Iterator[_Description]:
        """Load every description, except those of broken distributions."""
        for name in self.names():
            try:
                yield self[name]
            except ConfigError:
                continue

    def folders(self) -> dict[str, Path]:
        """The folder of each package that can be found, by name; none of them is imported."""
        found = dict(self._built_in)
        for name, entry in self._registered.items():
            try:
                spec = find_spec(entry.module)
            except (ImportError, ValueError):
                continue
            if spec is not None and spec.submodule_search_locations:
                found[name] = Path(spec.submodule_search_locations[0])
        return found


def resolve(reference: str) -> Any:
    """Import what "module:name" refers to."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
