"""The manifest.json of a bundle: its contents and its requirements at run time."""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path

from annotated_region._version import __version__
from annotated_region.bundling.libraries import SharedLibrary
from annotated_region.compilation.executable import LinkedExecutable

__all__ = ["manifest_of"]

_SCHEMA = 1


def manifest_of(executable: LinkedExecutable, folder: Path, libraries: tuple[SharedLibrary, ...]) -> str:
    """The text of the manifest; it is reproducible."""
    regions = {
        symbol: {"target": region.target, "ops": len(region.ops)}
        for symbol, region in sorted(executable.regions.items())
    }
    known = {
        each.name: {
            "package": each.package,
            "version": each.version,
            "license": each.license,
            "instructions": each.instructions,
        }
        for each in libraries
    }
    known["model.so"] = {"instructions": f"those of TVM's target {executable.host}"}
    document = {
        "kind": "bundle",
        "schema": _SCHEMA,
        "annotated_region": __version__,
        "needs": {
            "system": platform.system(),
            "machine": platform.machine(),
            "c_library": " ".join(platform.libc_ver()).strip(),
        },
        "library": "lib/model.so",
        "parameters": list(executable.parameters),
        "regions": regions,
        "files": {
            file.name: {"sha256": hashlib.sha256(file.read_bytes()).hexdigest(), **known.get(file.name, {})}
            for file in sorted(folder.iterdir())
        },
    }
    return json.dumps(document, indent=2) + "\n"
