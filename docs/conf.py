"""How Sphinx builds these pages: `make docs`, which takes a warning for an error."""

from annotated_region import __version__

project = "annotated-region"
author = "the annotated-region maintainers"
release = version = __version__
copyright = author  # noqa: A001 - the name that Sphinx asks for

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"annotated-region {release}"
exclude_patterns = ["_build"]

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
