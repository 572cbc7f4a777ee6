"""The external functions of a module under construction: named, and shared if equal."""

from __future__ import annotations

import re
from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.functions.equal_functions import EqualFunctions, FunctionContents
from annotated_region.functions.external import External
from annotated_region.tvm_adapter.types import set_type

__all__ = ["FunctionLibrary", "NamedFunction"]


@dataclass(frozen=True, slots=True)
class NamedFunction:
    """An external function of a module, and what calls it."""

    global_var: tvm.ir.GlobalVar
    func: relax.Function


class FunctionLibrary:
    """Collects replaced and added functions for a pass; the input module is not changed.

    Parameters
    ----------
    mod
        The module.
    contents
        What is known of external functions of another module, some of which are added to this one, too.
    """

    def __init__(self, mod: tvm.IRModule, contents: FunctionContents | None = None) -> None:
        self._mod = mod
        self._replaced: dict[tvm.ir.GlobalVar, relax.Function] = {}
        self._added: dict[tvm.ir.GlobalVar, relax.Function] = {}
        self._shared = EqualFunctions(contents)
        self._counts: dict[str, int] = {}
        self._names = _names_in(mod)
        self._compiled = list(mod.attrs.get("external_mods", []))

    def replace(self, global_var: tvm.ir.GlobalVar, func: relax.Function) -> None:
        """Replace the function `global_var`."""
        if not func.same_as(self._mod[global_var]):
            self._replaced[global_var] = func

    def add(
        self,
        external: External,
        target: str,
        caller: str,
        share: bool,
        place: str = "",
        *,
        before: NamedFunction | None = None,
    ) -> tvm.ir.GlobalVar:
        """Add an external function, or find an equal one; returns the global variable to call.

        Names are ``<target>_<place>``, with a number from the second use of a name on; without a place they
        are ``<target>_<caller>_<number>``. Numbers count the calls of this method, and characters that are
        invalid in C identifiers become underscores.

        Parameters
        ----------
        external
            The function.
        target
            Its target.
        caller
            The name of the calling function.
        share
            Whether an equal function of the target may be shared.
        place
            Its place in the imported model (see `annotated_region.functions.region_places`).
        before
            What the same function was in another module; it is the same object here if its name is the same.
        """
        stem = _identifier(f"{target}_{place or caller}")
        name = self._fresh(stem, is_place=bool(place))
        stays = before is not None and before.global_var.name_hint == name
        global_var = before.global_var if before is not None and stays else tvm.ir.GlobalVar(name)
        if share:
            known = self._shared.name_of(external.func, external.constants, global_var)
            if not known.same_as(global_var):
                self._give_back(stem, global_var.name_hint)
                return known
        self._added[global_var] = (
            before.func if before is not None and stays else _named(external, global_var)
        )
        return global_var

    def named(self, global_var: tvm.ir.GlobalVar) -> NamedFunction:
        """An external function that was added, by what calls it."""
        return NamedFunction(global_var, self._added[global_var])

    def module(self) -> tvm.IRModule:
        """The module with all replacements and additions."""
        if not self._replaced and not self._added:
            return self._mod
        result = self._mod.clone()
        for global_var, func in (*self._replaced.items(), *self._added.items()):
            result.update_func(global_var, func)
        return result

    def _fresh(self, stem: str, *, is_place: bool) -> str:
        while True:
            number = self._counts.get(stem, 0)
            self._counts[stem] = number + 1
            name = stem if is_place and number == 0 else f"{stem}_{number}"
            if name not in self._names and not any(mod.implements_function(name) for mod in self._compiled):
                self._names.add(name)
                return name

    def _give_back(self, stem: str, name: str) -> None:
        self._counts[stem] -= 1
        self._names.remove(name)


def _named(external: External, global_var: tvm.ir.GlobalVar) -> relax.Function:
    named = external.func.with_attr("global_symbol", global_var.name_hint)
    set_type(global_var, named.ty)
    return named


def _names_in(mod: tvm.IRModule) -> set[str]:
    """The names and symbols of the functions of a module."""
    names = {global_var.name_hint for global_var in mod.get_global_vars()}
    for func in mod.functions.values():
        if func.attrs and "global_symbol" in func.attrs:
            names.add(str(func.attrs["global_symbol"]))
    return names


def _identifier(text: str) -> str:
    """The text as a C identifier."""
    plain = re.sub(r"\W", "_", text, flags=re.ASCII)
    return f"_{plain}" if plain[:1].isdigit() else plain
