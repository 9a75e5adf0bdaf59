"""Find named descriptions: built-in packages, entry points of other distributions, `module:Name`.

Listing names imports none of them, and a broken distribution fails only when it is named.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from importlib.util import find_spec
from inspect import getattr_static
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from macontrol.config.model.errors import ConfigError, described
from macontrol.config.model.suggestion import did_you_mean, shortened

_Description = TypeVar("_Description")
_ATTRIBUTE = "DESCRIPTION"
"""What a built-in package calls its description."""


class Registry(Generic[_Description]):
    """The descriptions of one kind, as in "stage driver", by name.

    `description` is their class, as "module:name"; nothing else is accepted from a plug-in, except
    what its `adopt` makes one of. Built-in are the sub-packages that contain the file `marker`.
    `dash` stands in a name where its package has an underscore.
    """

    def __init__(
        self,
        kind: str,
        package: str,
        group: str,
        description: str,
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
    def plug_ins(self) -> list[EntryPoint]:
        """The entry points of other distributions, also those with a name that is taken."""
        return sorted(_all_entry_points().select(group=self.group), key=lambda entry: entry.name)

    def built_in_names(self) -> list[str]:
        return list(self._built_in)

    def names(self) -> list[str]:
        """Every name, the built-in ones first; `module:Name` is possible besides."""
        return list(dict.fromkeys([*self._built_in, *(entry.name for entry in self.plug_ins)]))

    def table_names(self) -> set[str]:
        """The names of all tables of settings, with those of every `module:Name` in use."""
        used = {getattr(found, "name", name) for name, found in self._loaded.items()}
        return used.union(self.names())

    def named_as(self, table: str) -> str:
        """What names the description that a table of settings belongs to."""
        used = (ref for ref, found in self._loaded.items() if getattr(found, "name", "") == table)
        return table if table in self.names() else next(used, table)

    def __contains__(self, name: str) -> bool:
        return name in self.names() or is_reference(name)

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
        if is_reference(name):
            return self._load_reference(name)
        entries = [entry for entry in self.plug_ins if entry.name == name]
        if not entries and (used := self.named_as(name)) != name:
            return self._loaded[used]  # as the preset of a `module:Name` calls it
        if not entries:
            raise ConfigError(
                f"no {self.kind} called {shortened(name)}", did_you_mean(name, self.names())
            )
        if len({entry.value for entry in entries}) > 1:
            raise ConfigError(
                f"{len(entries)} distributions have a {self.kind} {name}: "
                f"{', '.join(map(source_of, entries))}",
                f"remove all but one, or write {' or '.join(entry.value for entry in entries)}",
            )
        return self.load_entry(entries[0])

    def load_entry(self, entry: EntryPoint) -> _Description:
        """Load what a distribution registers; ConfigError if it is broken or its name is taken."""
        if entry.name in self._built_in:
            raise ConfigError(
                f"{entry.name} of {source_of(entry)} has the name of a built-in {self.kind}",
                "rename it; the built-in one is used",
            )
        fix = f"repair or remove the distribution {source_of(entry)}"
        found = self._import(entry.value, f"the {self.kind} {entry.name}", fix, entry.name)
        return found

    def _load_reference(self, name: str) -> _Description:
        _allow_current_folder()
        fix = "correct it, or the name; modules are searched in the current folder too"
        found = self._import(name, f"the {self.kind} {name}", fix, "")
        own = getattr(found, "name", "")
        if own in self._built_in and self[own] is not found:
            raise ConfigError(
                f"the {self.kind} {name} is called {own}, as a built-in one is",
                "give its description another name",
            )
        return found

    def _import(self, reference: str, what: str, fix: str, name: str) -> _Description:
        """Import a description and check it; `name` is the one it must have, if any."""
        try:
            expected, found = resolve(self._description), resolve(reference)
            adopt = getattr(expected, "adopt", None)
            if adopt is not None and isinstance(found, type):
                found = adopt(found, name)
            if not isinstance(found, expected):
                raise TypeError(f"it is {type(found).__name__}, not {expected.__name__}")
            if name and found.name != name:
                raise ValueError(f"its description is called {found.name}")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the code of others may raise anything, or exit
            raise ConfigError(f"{what} cannot be loaded: {described(error)}", fix) from error
        return found  # type: ignore[no-any-return]

    def working(self) -> Iterator[_Description]:
        """Load every description, except those of broken distributions."""
        for name in self.names():
            with suppress(ConfigError):
                yield self[name]

    def folders(self) -> dict[str, Path]:
        """The folder of each package that can be found, by name; none of them is imported."""
        found = {entry.name: _folder_of(entry.module) for entry in self.plug_ins}
        used = filter(is_reference, self._loaded)
        found |= {name: _folder_of(name.partition(":")[0]) for name in used}
        return {name: folder for name, folder in found.items() if folder} | self._built_in


@cache
def _all_entry_points() -> EntryPoints:
    """All of this Python: one search of the path serves every registry."""
    return cast(EntryPoints, entry_points())


def source_of(entry: EntryPoint) -> str:
    """The distribution of an entry point and its version."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value


def _folder_of(module: str) -> Path | None:
    """The folder of a package. Only the spec of its top-level package is looked up: that of a
    package within another one would import the other one."""
    top, *inner = module.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations)), *inner)
    return folder if folder.is_dir() else None


def is_reference(name: object) -> bool:
    """Whether a name is of the form package.module:Name."""
    module, colon, attribute = name.partition(":") if isinstance(name, str) else ("", "", "")
    return bool(colon) and all(
        part.isidentifier() for part in [*module.split("."), *attribute.split(".")]
    )


def _allow_current_folder() -> None:
    """Let `module:Name` find modules of the current folder, after all others.

    At the end of the path, a file of the folder never replaces a module of Python or of an
    installed package. `python -P` and PYTHONSAFEPATH switch this off.
    """
    with suppress(OSError):
        here = os.getcwd()
        if not sys.flags.safe_path and here not in sys.path and "" not in sys.path:
            sys.path.append(here)


def resolve(reference: str) -> Any:
    """Import what "module:name" refers to."""
    module, _, name = reference.partition(":")
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def require_members(made: object, protocol: type, what: str) -> None:
    """Raise ConfigError if an object lacks methods or attributes of a protocol."""
    needed = {
        name
        for base in protocol.__mro__
        for name in [*vars(base), *vars(base).get("__annotations__", {})]
        if not name.startswith("_") and getattr(base, "_is_protocol", False)
    }
    missing = sorted(
        name
        for name in needed
        if getattr_static(made, name, None) is None
        or (callable(vars(protocol).get(name)) and not callable(getattr(made, name, None)))
    )
    if missing:
        raise ConfigError(
            f"{what} is {type(made).__name__}, without {', '.join(missing)}",
            f"it must have all of {protocol.__name__}: {', '.join(sorted(needed))}",
        )
